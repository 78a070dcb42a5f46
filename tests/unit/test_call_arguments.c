/* test_call_arguments.c - positional and named arguments of the calls, in a world of one rank. */
#include "harness.h"

#include <muster/muster.h>

static const struct text_case {
    const char *text;
    int positional;
} texts[] = {
    {"", 0},
    {" ", 0},
    {"a", 1},
    {"a, b, c", 3},
    {"a,b,c", 3},
    {".tag = 1", 0},
    {" .tag = 1", 0},
    {"a, .tag = 1", 1},
    {"a,.tag = 1,.group = g", 1},
    {"a, b, .tag = 1, c", 2},
    {"f(a, b), c[d, e], 1", 3},
    {"x.y, p->z, .tag = 1", 2},
    {"(int[]){1, 2, 3}, 3, .tag = 1", 2},
    {"(int[]){[1] = 2, 3}, 3, 0", 3},
    {"&(struct s){.x = 1, .y = {2, .z = 3}}, 1", 2},
    {"(struct s){.x = f((int[]){1, 2})}, .tag = 1", 1},
    {"\"a, b\", 1", 2},
    {"\"}{\", 1, .tag = 1", 2},
    {"\"(\\\", .x\", 1", 2},
    {"\"\\\\\", 1", 2},
    {"',', '{', '\\'', .tag = 1", 3},
    {"\"no end, 1", 1},
    {"\"no end \\", 1},
};

static void positional_arguments_are_counted(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (mst_count_positional(texts[i].text) != texts[i].positional)
            fail_msg("'%s' has %d positional arguments, not %d", texts[i].text, texts[i].positional,
                     mst_count_positional(texts[i].text));
}

/* A call that must fail with MST_ERR_INVALID, and the two texts of its message. */
#define assert_invalid(call, name, part)                                                                     \
    do {                                                                                                     \
        assert_status(call, MST_ERR_INVALID);                                                                \
        assert_contains(mst_error(), name);                                                                  \
        assert_contains(mst_error(), part);                                                                  \
    } while (0)

struct vec4 {
    int32_t x, y, z, w;
};

static void a_missing_peer_is_named(void **state) {
    (void)state;
    int32_t value[4] = {0};
    mst_work *work = NULL;
    mst_bytes bytes = {NULL, 0};
    assert_invalid(mst_send(value, 4, MST_I32, .tag = 1), "mst_send", "too few positional arguments");
    assert_invalid(mst_recv(value, 4, MST_I32, .tag = 1), "mst_recv", "too few positional arguments");
    assert_invalid(mst_isend(value, 4, MST_I32, .work = &work), "mst_isend", "too few positional arguments");
    assert_invalid(mst_irecv(value, 4, MST_I32, .work = &work), "mst_irecv", "too few positional arguments");
    assert_invalid(mst_send_bytes("{a, b}", 6, .tag = 1), "mst_send_bytes", "too few positional arguments");
    assert_invalid(mst_recv_bytes(&bytes, .tag = 1), "mst_recv_bytes", "too few positional arguments");
    assert_invalid(mst_broadcast_bytes(&bytes, "text", .root = 0), "mst_broadcast_bytes",
                   "too few positional arguments");
    assert_invalid(mst_all_reduce(value, 4, .op = MST_MAX), "mst_all_reduce", "too few positional arguments");
    assert_contains(mst_error(), "test_call_arguments.c:");
    assert_null(work);
    assert_null(bytes.data);
}

/* Calls with commas in braces are not arguments of other macros. */
static void a_missing_peer_after_a_compound_literal_is_named(void **state) {
    (void)state;
    mst_status st = mst_send((int32_t[]){1, 2}, 2, MST_I32, .tag = 1);
    assert_invalid(st, "mst_send", "too few positional arguments");
    st = mst_send(&(struct vec4){1, 2, 3, 4}, 4, MST_I32, .tag = 1);
    assert_invalid(st, "mst_send", "too few positional arguments");
    st = mst_send(&(struct vec4){.x = 1, .y = 2, .z = 3, .w = 4}, 4, MST_I32, .tag = 1);
    assert_invalid(st, "mst_send", "too few positional arguments");
    st = mst_send_bytes((char[]){1, 2}, 2, .tag = 1);
    assert_invalid(st, "mst_send_bytes", "too few positional arguments");
}

/* Receives 4 elements that were sent to this rank, and compares them. */
static void receive(const int32_t *expected, int tag) {
    int32_t got[4] = {0};
    int sender = -1;
    assert_ok(mst_recv(got, 4, MST_I32, MST_ANY_SOURCE, .tag = tag, .sender = &sender, .timeout_ms = 10000));
    assert_int_equal(sender, 0);
    assert_memory_equal(got, expected, sizeof got);
}

/* Rank 0 as a peer is not the same as no peer. */
static void a_given_peer_is_accepted_in_every_form(void **state) {
    (void)state;
    static const int32_t expected[4] = {1, 2, 3, 4};
    int peers[1] = {0};
    mst_work *work;
    assert_ok(mst_isend(expected, 4, MST_I32, 0, .tag = 1, .work = &work));
    receive(expected, 1);
    assert_ok(mst_wait(work));
    mst_status st = mst_isend((int32_t[]){1, 2, 3, 4}, 4, MST_I32, peers[0], .tag = 2, .work = &work);
    assert_ok(st);
    receive(expected, 2);
    assert_ok(mst_wait(work));
    st = mst_isend(&(struct vec4){1, 2, 3, 4}, 4, MST_I32, (0), .work = &work, .tag = 3);
    assert_ok(st);
    receive(expected, 3);
    assert_ok(mst_wait(work));
}

/* The text of the argument in the place of the peer begins with a dot, but it belongs to the literal. */
static void a_peer_after_a_designated_literal_is_accepted(void **state) {
    (void)state;
    static const int32_t expected[4] = {1, 2, 3, 4};
    mst_work *work;
    mst_status st = mst_isend(&(struct vec4){.x = 1, .y = 2, .z = 3, .w = 4}, 4, MST_I32, 0, .work = &work);
    assert_ok(st);
    receive(expected, 0);
    assert_ok(mst_wait(work));
}

static void bytes_have_positional_peers(void **state) {
    (void)state;
    mst_bytes bytes = {NULL, 0};
    assert_ok(mst_send_bytes("{.a, b}", 7, 0));
    assert_ok(mst_recv_bytes(&bytes, 0, .timeout_ms = 10000));
    assert_int_equal(bytes.len, 7);
    assert_string_equal(bytes.data, "{.a, b}");
    mst_bytes_free(&bytes);
}

static void peers_and_roots_are_ranks_of_the_group(void **state) {
    (void)state;
    int32_t value = 0;
    mst_work *work = NULL;
    mst_p2p op = {&value, 1, MST_I32, 1, 0, true};
    assert_invalid(mst_send(&value, 1, MST_I32, 1), "mst_send", "dst is rank 1");
    assert_invalid(mst_recv(&value, 1, MST_I32, -2), "mst_recv", "src is rank -2");
    assert_invalid(mst_broadcast(&value, 1, MST_I32, .root = 1), "mst_broadcast", ".root is rank 1");
    assert_invalid(mst_batch_isend_irecv(&op, 1, &work), "mst_batch_isend_irecv", "ops[0].peer is rank 1");
    assert_contains(mst_error(), "mst_get_group_rank");
    assert_null(work);
}

/* The compiler warns about them; the tests of the installed headers check that. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-braces"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static void too_many_positional_arguments_are_rejected(void **state) {
    (void)state;
    int32_t value = 0;
    mst_store *store;
    mst_group *group = NULL;
    mst_bytes bytes = {NULL, 0};
    const struct mst_options_must_be_named *extra = (const void *)&value;
    const char *text = "too many positional arguments";
    assert_invalid(mst_barrier(extra), "mst_barrier", text);
    assert_invalid(mst_all_reduce(&value, 1, MST_I32, extra), "mst_all_reduce", text);
    assert_invalid(mst_all_reduce(&value, 1, MST_I32, extra, .op = MST_MAX), "mst_all_reduce", text);
    assert_invalid(mst_send(&value, 1, MST_I32, 0, extra), "mst_send", text);
    assert_invalid(mst_recv_bytes(&bytes, 0, extra), "mst_recv_bytes", text);
    assert_invalid(mst_new_group((int[]){0}, 1, &group, extra), "mst_new_group", text);
    assert_null(group);
    assert_ok(mst_store_open("hash://", &store));
    assert_invalid(mst_store_set(store, "k", "v", 1, extra), "mst_store_set", text);
    mst_store_free(store);
}

#pragma GCC diagnostic pop

static void options_that_a_call_does_not_use_are_named(void **state) {
    (void)state;
    int32_t value = 0, out = 0;
    float scaled = 1;
    int sender;
    size_t one = 1;
    void *memory = NULL;
    mst_work *work = NULL;
    mst_bytes bytes = {NULL, 0};
    mst_p2p op = {&value, 1, MST_I32, 0, 0, true};
    assert_invalid(mst_barrier(.root = 1), "mst_barrier", "does not use .root");
    assert_invalid(mst_barrier(.wait_all_ranks = true), "mst_barrier", "does not use .wait_all_ranks");
    assert_invalid(mst_monitored_barrier(.tag = 1), "mst_monitored_barrier", "does not use .tag");
    assert_invalid(mst_broadcast(&value, 1, MST_I32, .op = MST_MAX), "mst_broadcast", "does not use .op");
    assert_invalid(mst_broadcast(&value, 1, MST_I32, .counts = &one), "mst_broadcast",
                   "does not use .counts");
    assert_invalid(mst_all_reduce(&value, 1, MST_I32, .root = 1), "mst_all_reduce", "does not use .root");
    assert_invalid(mst_all_reduce(&value, 1, MST_I32, .sender = &sender), "mst_all_reduce",
                   "does not use .sender");
    assert_invalid(mst_all_gather_into_tensor(&out, &value, 1, MST_I32, .in = &value),
                   "mst_all_gather_into_tensor", "does not use .in");
    assert_invalid(mst_gather(&out, &value, 1, MST_I32, .deterministic = true), "mst_gather",
                   "does not use .deterministic");
    assert_invalid(mst_scatter(&out, &value, 1, MST_I32, .factor = 2), "mst_scatter", "does not use .factor");
    assert_invalid(mst_reduce_scatter_tensor(&out, &value, 1, MST_I32, .out_splits = &one),
                   "mst_reduce_scatter_tensor", "does not use .out_splits");
    assert_invalid(mst_all_reduce(&value, 1, MST_I32, .in_splits = &one), "mst_all_reduce",
                   "does not use .in_splits");
    assert_invalid(mst_send(&value, 1, MST_I32, 0, .sender = &sender), "mst_send", "does not use .sender");
    assert_invalid(mst_recv(&value, 1, MST_I32, 0, .op = MST_MAX), "mst_recv", "does not use .op");
    assert_invalid(mst_send_bytes("x", 1, 0, .root = 1), "mst_send_bytes", "does not use .root");
    assert_invalid(mst_broadcast_bytes(&bytes, "x", 1, .in = "y"), "mst_broadcast_bytes", "does not use .in");
    assert_invalid(mst_batch_isend_irecv(&op, 1, &work, .tag = 1), "mst_batch_isend_irecv",
                   "does not use .tag");
    assert_invalid(mst_batch_isend_irecv(&op, 1, &work, .work = &work), "mst_batch_isend_irecv",
                   "does not use .work");
    assert_invalid(mst_reduce(&scaled, 1, MST_F32, .quantize = MST_Q8), "mst_reduce",
                   "does not use .quantize");
    assert_invalid(mst_all_reduce(&value, 1, MST_I32, .quantize = MST_Q8), "mst_all_reduce",
                   ".quantize is not defined for i32");
    assert_invalid(mst_all_reduce(&scaled, 1, MST_F32, .op = MST_MAX, .quantize = MST_Q8), "mst_all_reduce",
                   ".quantize is not defined for MAX");
    assert_invalid(mst_all_reduce(&scaled, 1, MST_F32, .deterministic = true, .quantize = MST_Q8),
                   "mst_all_reduce", "exclude each other");
    assert_invalid(mst_all_reduce(&scaled, 1, MST_F32, .quantize = (mst_quantize)7), "mst_all_reduce",
                   ".quantize is 7, which is not valid");
    assert_invalid(mst_alloc(8, &memory, .root = 1), "mst_alloc", "does not use .root");
    assert_null(work);
    assert_null(memory);
}

static void options_of_a_call_are_accepted(void **state) {
    (void)state;
    int32_t in = 7, out = 0;
    float scaled = 3;
    size_t one = 1;
    assert_ok(mst_broadcast(&out, 1, MST_I32, .root = 0, .in = &in));
    assert_ok(mst_all_reduce(&out, 1, MST_I32, .op = MST_MAX, .deterministic = true, .in = &in));
    assert_ok(mst_reduce(&scaled, 1, MST_F32, .op = MST_PREMUL_SUM, .root = 0, .factor = 2));
    assert_ok(mst_all_to_all_single(&out, &in, 0, MST_I32, .in_splits = &one, .out_splits = &one));
    assert_ok(mst_monitored_barrier(.wait_all_ranks = true, .timeout_ms = 1000));
    assert_int_equal(out, 7);
    assert_true(scaled == 6);
}

/* Also the root gets a string of its own. */
static void a_broadcast_of_bytes_has_an_output_on_the_root(void **state) {
    (void)state;
    char data[] = "text";
    mst_bytes out = {NULL, 0};
    assert_ok(mst_broadcast_bytes(&out, data, 4));
    data[0] = 'n';
    assert_ptr_not_equal(out.data, data);
    assert_int_equal(out.len, 4);
    assert_string_equal(out.data, "text");
    mst_bytes_free(&out);
    assert_ok(mst_broadcast_bytes(&out, NULL, 0, .root = 0));
    assert_int_equal(out.len, 0);
    mst_bytes_free(&out);
    assert_invalid(mst_broadcast_bytes(&out, NULL, 4), "mst_broadcast_bytes", "data is NULL");
}

static void memory_needs_no_cast(void **state) {
    (void)state;
    double *numbers = NULL;
    struct vec4 *vectors = NULL;
    assert_ok(mst_alloc(4 * sizeof *numbers, &numbers));
    assert_ok(mst_alloc(sizeof *vectors, &vectors, .group = NULL));
    assert_true(numbers[3] == 0 && vectors->w == 0);
    mst_free(numbers);
    mst_free(vectors);
}

static int open_world(void **state) {
    mst_store *store;
    assert_ok(mst_store_open("hash://", &store));
    assert_ok(mst_init(.rank = 0, .world_size = 1, .store = store));
    *state = store;
    return 0;
}

static int close_world(void **state) {
    assert_ok(mst_destroy_process_group(NULL));
    mst_store_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positional_arguments_are_counted),
        cmocka_unit_test(a_missing_peer_is_named),
        cmocka_unit_test(a_missing_peer_after_a_compound_literal_is_named),
        cmocka_unit_test(a_given_peer_is_accepted_in_every_form),
        cmocka_unit_test(a_peer_after_a_designated_literal_is_accepted),
        cmocka_unit_test(bytes_have_positional_peers),
        cmocka_unit_test(peers_and_roots_are_ranks_of_the_group),
        cmocka_unit_test(too_many_positional_arguments_are_rejected),
        cmocka_unit_test(options_that_a_call_does_not_use_are_named),
        cmocka_unit_test(options_of_a_call_are_accepted),
        cmocka_unit_test(a_broadcast_of_bytes_has_an_output_on_the_root),
        cmocka_unit_test(memory_needs_no_cast),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
