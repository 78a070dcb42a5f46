/* test_call_signature.c - the text of a call in messages about calls that differ. */
#include "harness.h"

#include "comm/op.h"

#include <muster/muster.h>

#define assert_shown(wanted, ...)                                                                            \
    assert_string_equal(                                                                                     \
        msi_call_signature_show(&(struct msi_call_signature){__VA_ARGS__}, (char[200]){0}, 200), wanted)

static void a_call_is_shown(void **state) {
    (void)state;
    assert_shown("mst_barrier", .kind = MSI_KIND_BARRIER, .root = -1);
    assert_shown("mst_all_gather of 5 f64", .kind = MSI_KIND_ALL_GATHER, .dtype = MST_F64, .count = 5,
                 .root = -1);
    assert_shown("mst_all_reduce of 5 f64 (MAX)", .kind = MSI_KIND_ALL_REDUCE, .dtype = MST_F64,
                 .op = MST_MAX, .count = 5, .root = -1);
    assert_shown("mst_all_to_all of f64 with splits", .kind = MSI_KIND_ALL_TO_ALL, .dtype = MST_F64,
                 .flags = MSI_SIGNED_SPLITS, .root = -1);
    assert_shown("mst_broadcast of 5 f64 (rejected) with root 2 at a.c:7", .kind = MSI_KIND_BROADCAST,
                 .dtype = MST_F64, .count = 5, .flags = MSI_SIGNED_REJECTED, .root = 2, .line = 7,
                 .file = "a.c");
}

/* User-defined operations are numbered from 1 on. */
static void a_user_defined_operation_has_its_number(void **state) {
    (void)state;
    struct msi_call_signature s = {
        .kind = MSI_KIND_ALL_REDUCE, .dtype = MST_F64, .op = MSI_OP_BYTE_USER + 2, .root = -1};
    char text[200];
    assert_contains(msi_call_signature_show(&s, text, sizeof text), " 3)");
}

/* Nothing is written beyond the buffer, whichever part no longer fits. */
static void a_long_text_is_cut(void **state) {
    (void)state;
    const struct msi_call_signature all = {.kind = MSI_KIND_REDUCE_SCATTER,
                                           .dtype = MST_F64,
                                           .op = MSI_OP_BYTE_USER,
                                           .flags = MSI_SIGNED_COUNTS | MSI_SIGNED_REJECTED,
                                           .root = 3,
                                           .count = 12345,
                                           .line = 77,
                                           .file = "file.c"};
    for (int splits = 0; splits < 2; splits++) {
        struct msi_call_signature s = all;
        char whole[200], text[sizeof whole];
        if (splits) s.flags |= MSI_SIGNED_SPLITS;
        msi_call_signature_show(&s, whole, sizeof whole);
        for (size_t size = 1; size <= strlen(whole); size++) {
            memset(text, '#', sizeof text);
            msi_call_signature_show(&s, text, size);
            assert_memory_equal(text, whole, size - 1);
            assert_int_equal(text[size - 1], 0);
            for (size_t i = size; i < sizeof text; i++) assert_int_equal(text[i], '#');
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_shown),
        cmocka_unit_test(a_user_defined_operation_has_its_number),
        cmocka_unit_test(a_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
