/* test_store_msg.c - store messages: every operation, in every dialect, whole and byte by byte. */
#include "harness.h"

#include "wire/cursor.h"
#include "wire/store_msg.h"

static const struct msi_store_limits limits = {
    .max_key = 64, .max_value = 4096, .max_items = 8, .max_message = 16384};

/* A request that fills every field its operation has. */
static struct msi_store_req sample(enum msi_store_op op) {
    static const struct msi_str keys[3] = {{"/first", 6}, {"", 0}, {"/th\0ird", 7}};
    static const struct msi_str values[3] = {{"", 0}, {"v\0v", 3}, {"value", 5}};
    bool list = strpbrk(msi_ops[op].request, "KP") != NULL;
    bool small = strchr(msi_ops[op].request, 'u') != NULL;
    return (struct msi_store_req){
        .op = op,
        .key = msi_cstr("/key"),
        .value = msi_str("va\0lue", 6),
        .desired = msi_str("desired", 7),
        .number = small ? INT64_C(0xFEDCBA98) : -2,
        .n = list ? 3 : 0,
        .keys = list ? keys : NULL,
        .values = strchr(msi_ops[op].request, 'P') ? values : NULL,
    };
}

static void assert_same(const struct msi_store_req *got, const struct msi_store_req *wanted) {
    const char *fields = msi_ops[wanted->op].request;
    assert_int_equal(got->op, wanted->op);
    if (strchr(fields, 'k')) assert_true(msi_str_equal(got->key, wanted->key));
    if (strchr(fields, 'v')) assert_true(msi_str_equal(got->value, wanted->value));
    if (strstr(fields, "vv")) assert_true(msi_str_equal(got->desired, wanted->desired));
    if (strpbrk(fields, "iu")) assert_int_equal(got->number, wanted->number);
    assert_int_equal(got->n, wanted->n);
    for (size_t i = 0; i < wanted->n; i++) {
        assert_true(msi_str_equal(got->keys[i], wanted->keys[i]));
        if (wanted->values) assert_true(msi_str_equal(got->values[i], wanted->values[i]));
    }
}

/* Scans with ever more bytes; each prefix lies in a block of its own size, so that a sanitizer sees overruns.
 */
static void scan_in_pieces(const struct msi_buf *message, const char *signature, uint64_t n_values,
                           size_t step) {
    struct msi_scan scan = {.at = 1};
    for (size_t n = 1; n < message->len; n += step) {
        uint8_t *part = malloc(n);
        assert_non_null(part);
        memcpy(part, message->data, n);
        enum msi_scan_result got = msi_store_scan(&scan, signature, n_values, &limits, part, n);
        free(part);
        assert_int_equal(got, MSI_SCAN_MORE);
        assert_true(scan.need > n);             /* or nobody would know to wait */
        assert_true(scan.need <= message->len); /* or a message could stay incomplete for ever */
    }
    assert_int_equal(msi_store_scan(&scan, signature, n_values, &limits, message->data, message->len),
                     MSI_SCAN_DONE);
    assert_int_equal(scan.at, message->len);
}

static void round_trip(enum msi_store_op op, enum msi_dialect dialect) {
    struct msi_buf out = {0}, views = {0};
    struct msi_store_req wanted = sample(op), got;
    int opcode = msi_ops[op].opcode[dialect != MSI_DIALECT_A];
    bool own = opcode >= 64 && op != MSI_OP_HELLO && dialect != MSI_DIALECT_M;
    if (opcode < 0 || own) {
        assert_false(msi_store_encode(&out, dialect, &wanted));
        assert_int_equal(out.len, 0);
        return;
    }
    assert_true(msi_store_encode(&out, dialect, &wanted));
    assert_int_equal(out.data[0], opcode);
    assert_int_equal(msi_op_find(dialect, out.data[0]), op);
    for (size_t step = 1; step < 9; step++) scan_in_pieces(&out, msi_ops[op].request, 0, step);
    msi_buf_add(&out, "next message", 12); /* what follows is not its own */
    struct msi_scan scan = {.at = 1};
    assert_int_equal(msi_store_scan(&scan, msi_ops[op].request, 0, &limits, out.data, out.len),
                     MSI_SCAN_DONE);
    assert_int_equal(scan.at, out.len - 12);
    assert_true(msi_store_decode(op, out.data + 1, scan.at - 1, &views, &got));
    assert_same(&got, &wanted);
    msi_buf_free(&out);
    msi_buf_free(&views);
}

static void every_operation_survives_a_round_trip_in_every_dialect(void **state) {
    (void)state;
    for (int op = 0; op < MSI_OP_COUNT; op++) {
        round_trip((enum msi_store_op)op, MSI_DIALECT_A);
        round_trip((enum msi_store_op)op, MSI_DIALECT_C);
        round_trip((enum msi_store_op)op, MSI_DIALECT_M);
    }
}

/* FACTS.md's table, written out. */
static void opcodes_are_pytorchs(void **state) {
    (void)state;
    static const enum msi_store_op a[] = {MSI_OP_SET,      MSI_OP_COMPARE_SET, MSI_OP_GET,
                                          MSI_OP_ADD,      MSI_OP_CHECK,       MSI_OP_WAIT,
                                          MSI_OP_NUM_KEYS, MSI_OP_WATCH_KEY,   MSI_OP_DELETE_KEY};
    static const enum msi_store_op c[] = {
        MSI_OP_VALIDATE,  MSI_OP_SET,       MSI_OP_COMPARE_SET, MSI_OP_GET,        MSI_OP_ADD,
        MSI_OP_CHECK,     MSI_OP_WAIT,      MSI_OP_NUM_KEYS,    MSI_OP_DELETE_KEY, MSI_OP_APPEND,
        MSI_OP_MULTI_GET, MSI_OP_MULTI_SET, MSI_OP_CANCEL_WAIT, MSI_OP_PING,       MSI_OP_QUEUE_PUSH,
        MSI_OP_QUEUE_POP, MSI_OP_QUEUE_LEN, MSI_OP_LIST_KEYS,   MSI_OP_BARRIER};
    for (int opcode = 0; opcode < 256; opcode++) {
        bool in_a = opcode < (int)COUNT_OF(a), in_c = opcode < (int)COUNT_OF(c);
        assert_int_equal(msi_op_find(MSI_DIALECT_A, (uint8_t)opcode), in_a ? a[opcode] : MSI_OP_COUNT);
        if (in_c) assert_int_equal(msi_op_find(MSI_DIALECT_C, (uint8_t)opcode), c[opcode]);
        if (in_c) assert_int_equal(msi_op_find(MSI_DIALECT_M, (uint8_t)opcode), c[opcode]);
        if (!in_c && opcode != 64)
            assert_int_equal(msi_op_find(MSI_DIALECT_C, (uint8_t)opcode), MSI_OP_COUNT);
    }
    assert_int_equal(msi_op_find(MSI_DIALECT_C, 64), MSI_OP_HELLO);
}

/* Whole replies of every shape; 'V' as three values. */
static void replies_are_scanned_by_their_shape(void **state) {
    (void)state;
    struct msi_buf out = {0};
    msi_buf_add_u8(&out, 0); /* scan_in_pieces starts at 1 */
    for (int i = 0; i < 3; i++) msi_put_str(&out, msi_str("abc", (size_t)i));
    scan_in_pieces(&out, "V", 3, 1);
    out.len = 1;
    msi_put_u64(&out, 2);
    msi_put_str(&out, msi_cstr("/a"));
    msi_put_str(&out, msi_cstr("/b"));
    scan_in_pieces(&out, "L", 0, 1);
    out.len = 1;
    msi_put_u64(&out, 1);
    msi_put_str(&out, msi_cstr("entry"));
    scan_in_pieces(&out, "p", 0, 1);
    out.len = 1;
    msi_put_u64(&out, 0);
    scan_in_pieces(&out, "p", 0, 1);
    msi_buf_free(&out);
}

/* Scans an opcode and a u64 (and some bytes) as the start of a request. */
static enum msi_scan_result scan_number(const char *signature, uint64_t number, const char **why,
                                        size_t *need) {
    struct msi_buf out = {0};
    struct msi_scan scan = {.at = 1};
    msi_buf_add_u8(&out, 1);
    msi_put_u64(&out, number);
    enum msi_scan_result got = msi_store_scan(&scan, signature, 0, &limits, out.data, out.len);
    *why = scan.why;
    *need = scan.need;
    msi_buf_free(&out);
    return got;
}

static void lengths_and_counts_are_held_to_their_limits(void **state) {
    (void)state;
    static const uint64_t huge[] = {(uint64_t)1 << 63, UINT64_MAX,        UINT64_MAX - 7, UINT64_MAX - 8,
                                    UINT64_MAX - 9,    (uint64_t)1 << 32, INT64_MAX};
    static const struct {
        const char *signature;
        uint64_t most;
        const char *why;
    } fields[] = {{"k", 64, "a key beyond the limit"},
                  {"v", 4096, "a value beyond the limit"},
                  {"K", 8, "more items than the limit"},
                  {"P", 8, "more items than the limit"},
                  {"L", 8, "more items than the limit"}};
    const char *why;
    size_t need;
    for (size_t f = 0; f < COUNT_OF(fields); f++) {
        for (size_t i = 0; i < COUNT_OF(huge); i++) {
            assert_int_equal(scan_number(fields[f].signature, huge[i], &why, &need), MSI_SCAN_BAD);
            assert_string_equal(why, fields[f].why);
        }
        assert_int_equal(scan_number(fields[f].signature, fields[f].most + 1, &why, &need), MSI_SCAN_BAD);
        assert_int_equal(scan_number(fields[f].signature, fields[f].most, &why, &need), MSI_SCAN_MORE);
    }
    assert_int_equal(scan_number("k", 64, &why, &need), MSI_SCAN_MORE);
    assert_int_equal(need, 1 + 8 + 64);
    assert_int_equal(scan_number("K", 8, &why, &need), MSI_SCAN_MORE);
    assert_int_equal(need, 1 + 8 + 8);
}

static void a_whole_message_has_a_limit_too(void **state) {
    (void)state;
    struct msi_str keys[8], values[8];
    static char bytes[4096];
    for (int i = 0; i < 8; i++) {
        keys[i] = msi_cstr("/k");
        values[i] = msi_str(bytes, sizeof bytes);
    }
    struct msi_store_req req = {.op = MSI_OP_MULTI_SET, .n = 8, .keys = keys, .values = values};
    struct msi_buf out = {0};
    struct msi_scan scan = {.at = 1};
    assert_true(msi_store_encode(&out, MSI_DIALECT_C, &req));
    assert_int_equal(msi_store_scan(&scan, "P", 0, &limits, out.data, out.len), MSI_SCAN_BAD);
    assert_string_equal(scan.why, "a message beyond the limit");
    msi_buf_free(&out);
}

static void more_values_than_the_limit_are_refused_in_a_reply(void **state) {
    (void)state;
    struct msi_scan scan = {0};
    assert_int_equal(msi_store_scan(&scan, "V", 9, &limits, (const uint8_t *)"", 0), MSI_SCAN_BAD);
}

/* A request whose fields do not fit its bytes is refused even where no scan stood before. */
static void decoding_never_reads_past_the_end(void **state) {
    (void)state;
    for (int op = 0; op < MSI_OP_COUNT; op++) {
        struct msi_buf out = {0}, views = {0};
        struct msi_store_req wanted = sample((enum msi_store_op)op), got;
        if (!msi_store_encode(&out, MSI_DIALECT_M, &wanted)) continue;
        for (size_t n = 0; n + 1 < out.len; n++) {
            uint8_t *part = malloc(n ? n : 1);
            assert_non_null(part);
            memcpy(part, out.data + 1, n);
            assert_false(msi_store_decode((enum msi_store_op)op, part, n, &views, &got));
            free(part);
        }
        msi_buf_free(&out);
        msi_buf_free(&views);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_survives_a_round_trip_in_every_dialect),
        cmocka_unit_test(opcodes_are_pytorchs),
        cmocka_unit_test(replies_are_scanned_by_their_shape),
        cmocka_unit_test(lengths_and_counts_are_held_to_their_limits),
        cmocka_unit_test(a_whole_message_has_a_limit_too),
        cmocka_unit_test(more_values_than_the_limit_are_refused_in_a_reply),
        cmocka_unit_test(decoding_never_reads_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
