/* test_net_layout.c - which inputs and outputs of an operation are copied before and after a plan
 * runs. */
#include "harness.h"

#include "engine/net/layout.h"

#include <muster/muster.h>

enum { RANKS = 2, COUNT = 4 };

/* The input of an all_gather whose buffers are at these places of one array. */
static const int *lay_input(struct msi_net_layout *layout, int *array, int in, int out) {
    struct msi_op op = {.desc = {.kind = MST_KIND_ALL_GATHER,
                                 .dtype = MST_I32,
                                 .count = COUNT,
                                 .element = sizeof(int),
                                 .in = array + in,
                                 .out = array + out,
                                 .root = -1},
                        .call = MSI_KIND_ALL_GATHER};
    struct msi_request request = {.rank = 0, .size = RANKS};
    assert_int_equal(msi_net_layout_begin(layout, &op, &request), MST_OK);
    assert_ptr_equal(layout->out, array + out);
    return layout->in;
}

static void only_an_input_inside_the_output_is_copied(void **state) {
    (void)state;
    struct msi_net_layout layout = {0};
    int array[5 * COUNT];
    for (int i = 0; i < 5 * COUNT; i++) array[i] = i;
    assert_ptr_equal(lay_input(&layout, array, 0, COUNT), array);                     /* just before it */
    assert_ptr_equal(lay_input(&layout, array, 3 * COUNT, COUNT), array + 3 * COUNT); /* just after it */
    for (int in = 1; in < 3 * COUNT; in++) {
        const int *copy = lay_input(&layout, array, in, COUNT);
        assert_true(copy < array || copy >= array + 5 * COUNT);
        assert_memory_equal(copy, array + in, COUNT * sizeof *copy);
    }
    msi_net_layout_free(&layout);
}

/* Each block of the input is in memory that cannot be written. */
static void lists_are_packed_and_unpacked(void **state) {
    (void)state;
    static const int first[COUNT] = {1, 2, 3, 4}, second[COUNT] = {5, 6, 7, 8};
    const void *const in[RANKS] = {first, second};
    int got[RANKS][COUNT] = {{0}};
    void *out[RANKS] = {got[1], got[0]};
    struct msi_net_layout layout = {0};
    struct msi_op op = {.desc = {.kind = MST_KIND_ALL_TO_ALL,
                                 .dtype = MST_I32,
                                 .count = COUNT,
                                 .element = sizeof(int),
                                 .in_list = in,
                                 .out_list = out,
                                 .root = -1},
                        .call = MSI_KIND_ALL_TO_ALL};
    struct msi_request request = {.rank = 0, .size = RANKS};
    assert_int_equal(msi_net_layout_begin(&layout, &op, &request), MST_OK);
    assert_memory_equal(layout.in, first, sizeof first);
    assert_memory_equal((const int *)layout.in + COUNT, second, sizeof second);
    memcpy(layout.out, layout.in, sizeof got);
    msi_net_layout_end(&layout, &op, RANKS);
    assert_memory_equal(got[1], first, sizeof first);
    assert_memory_equal(got[0], second, sizeof second);
    msi_net_layout_free(&layout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_input_inside_the_output_is_copied),
        cmocka_unit_test(lists_are_packed_and_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
