/* test_prof_op_stats_json.c - all_stats as JSON: what is written comes back, and what nobody would write does not. */
#include "harness.h"

#include "prof_kit.h"

static const struct msi_rank_id me = {.rank = 1, .size = 4, .pid = 4711, .host = "node \"a\""};

static char *written(struct msi_op_stats *stats) {
    struct msi_buf buf = {0};
    msi_op_stats_write(stats, &me, &buf);
    return kit_text(&buf);
}

/* Reads what is written of stats and writes it again. */
static void check_round_trip(struct msi_op_stats *stats) {
    struct msi_op_stats *back = NULL;
    struct msi_rank_id id;
    char *text = written(stats);
    assert_ok(msi_op_stats_read(text, strlen(text), &id, &back));
    assert_int_equal(id.rank, me.rank);
    assert_int_equal(id.size, me.size);
    assert_int_equal(id.pid, me.pid);
    assert_string_equal(id.host, me.host);
    char *again = written(back);
    assert_string_equal(again, text);
    free(text);
    free(again);
    msi_op_stats_free(back);
}

static void test_the_format(void **state) {
    (void)state;
    struct msi_op_stats *stats = msi_op_stats_new(false);
    struct msi_prof_group world = kit_world(4);
    world.rank = 1;
    kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 4096, 17, 2100);
    kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 4096, 18, 2000);
    char *text = written(stats);
    assert_string_equal(
        text,
        "{\"version\":1,\"rank\":1,\"size\":4,\"host\":\"node "
        "\\\"a\\\"\",\"pid\":4711,\"debug\":false,\"lost\":0,"
        "\"groups\":[\n{\"number\":0,\"id\":\"w\",\"name\":\"world\",\"size\":4,\"rank\":1,\"floor\":0,"
        "\"forgotten\":0,\"ranks\":[0,1,2,3]}],\"rows\":[\n"
        "{\"name\":\"all_reduce\",\"call\":\"all_reduce\",\"group\":0,\"share\":\"twice\",\"message\":false,"
        "\"bytes\":4096,\"count\":2,\"failed\":0,\"ns\":4100,\"least_ns\":2000,\"most_ns\":2100,\"works\":0,"
        "\"works_ns\":0,\"waited_ns\":0,\"durations\":[2000,100]}],"
        "\"other\":{\"name\":\"other\",\"call\":\"other\",\"share\":\"none\",\"message\":false,\"bytes\":0,"
        "\"count\":0,\"failed\":0,\"ns\":0,\"least_ns\":0,\"most_ns\":0,\"works\":0,\"works_ns\":0,"
        "\"waited_ns\":0,\"durations\":[]},\"calls\":[0,17,2100,0,18,2000]}\n");
    free(text);
    check_round_trip(stats);
    msi_op_stats_free(stats);
}

/* Calls of all kinds, in three groups, with names that JSON must escape. */
static void fill(struct msi_op_stats *stats, uint64_t calls) {
    static const char *const names[] = {"all_reduce", "b\"r\\oad\ncast", "gr\xc3\xbc\xc3\x9f", "", "send"};
    static const int ranks[] = {1, 3};
    struct msi_prof_group groups[] = {kit_world(4), kit_group(1, "w/1", "dp", ranks, 2),
                                      kit_group(2, "w/2", "", kit_ranks, 3)};
    uint64_t random = 5;
    for (uint64_t i = 0; i < calls; i++) {
        uint64_t r = kit_random(&random);
        struct msi_op_stats_call call =
            kit_call(&groups[r % 3], names[r / 3 % 5], MSI_SHARE_PART, r / 15 % 3 * 1000, i,
                     kit_random(&random) >> (24 + r / 45 % 40));
        call.function = r / 1000 % 2 ? "step" : "main";
        call.work = r / 2000 % 2;
        call.waited_ns = call.duration_ns / 3;
        call.message = r / 3 % 5 == 4;
        call.status = r / 4000 % 50 ? MST_OK : MST_ERR_TIMEOUT;
        msi_op_stats_add(stats, &call);
    }
}

static void test_what_is_written_comes_back(void **state) {
    (void)state;
    static const uint64_t calls[] = {0, 1, 1000, 100000};
    for (size_t i = 0; i < COUNT_OF(calls) * 2; i++) {
        struct msi_op_stats *stats = msi_op_stats_new(i % 2);
        fill(stats, calls[i / 2]);
        stats->lost = i;
        check_round_trip(stats);
        msi_op_stats_free(stats);
    }
}

static void test_coarse_rows_and_the_other_come_back(void **state) {
    (void)state;
    struct msi_op_stats *stats = msi_op_stats_new(false);
    struct msi_prof_group world = kit_world(4);
    for (uint64_t i = 0; i <= MSI_HISTOGRAM_EXACT; i++)
        kit_add(stats, &world, "barrier", MSI_SHARE_NONE, 0, i, i * i);
    for (uint64_t i = 0; i < MSI_OP_STATS_ROWS + 5; i++)
        kit_add(stats, &world, "broadcast", MSI_SHARE_WHOLE, i, i, i);
    assert_non_null(stats->rows[0].histogram.buckets);
    assert_int_equal(stats->other.count, 6);
    check_round_trip(stats);
    msi_op_stats_free(stats);
}

/* Nothing is written, and the reason says what and where. */
static void check_refused(const char *text, const char *why) {
    struct msi_op_stats *stats = (struct msi_op_stats *)1;
    struct msi_rank_id id = {.rank = 77};
    /* exactly as large as the input, so that ASan sees an overrun */
    size_t n = strlen(text);
    char *copy = malloc(n + !n);
    memcpy(copy, text, n);
    assert_status(msi_op_stats_read(copy, n, &id, &stats), MST_ERR_PROTOCOL);
    free(copy);
    assert_ptr_equal(stats, (struct msi_op_stats *)1);
    assert_int_equal(id.rank, 77);
    assert_contains(mst_error(), why);
}

#define HEAD   "{\"version\":1,\"rank\":0,\"size\":1,"
#define GROUP  "{\"number\":0,\"id\":\"w\",\"name\":\"world\",\"size\":1,\"rank\":0,\"ranks\":[0]}"
#define GROUPS HEAD "\"groups\":[" GROUP "],"
#define ROW    "{\"name\":\"x\",\"call\":\"x\",\"group\":0,\"count\":1,\"durations\":[5]}"

static void test_invalid_profiles_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "line 1, column 1"},
        {"[]", "line 1, column 1: an object was expected"},
        {"{}", "version, rank and size"},
        {"{\"version\":1,\"rank\":0}", "version, rank and size"},
        {"{\"version\":1,\"rank\":2,\"size\":2}", "version, rank and size"},
        {"{\"version\":2,\"rank\":0,\"size\":1}", "column 12: version 1 was expected"},
        {"{\"version\":1,\"rank\":-1,\"size\":1}", "a rank"},
        {"{\"version\":1,\n\"rank\":4294967296,\"size\":1}", "line 2, column 8: a rank was expected"},
        {HEAD "\"lost\":1.5}", "column 39"},
        {HEAD "\"groups\":[" GROUP, "column"},
        {HEAD "\"groups\":[{\"number\":0,\"size\":1,\"ranks\":[0]}]}", "a group with id and name"},
        {HEAD "\"groups\":[{\"id\":\"\",\"name\":\"\",\"size\":2,\"ranks\":[0]}]}",
         "as many ranks as its size"},
        {HEAD "\"groups\":[{\"id\":\"\",\"name\":\"\",\"size\":0,\"ranks\":[]}]}",
         "as many ranks as its size"},
        {HEAD "\"groups\":[{\"id\":\"\",\"name\":\"\",\"size\":1,\"rank\":1,\"ranks\":[0]}]}",
         "its rank among them"},
        {HEAD "\"groups\":[{\"id\":\"\",\"name\":\"\",\"size\":1,\"ranks\":[-1]}]}", "a rank was expected"},
        {HEAD "\"groups\":[{\"id\":\"a\\u0000b\"}]}", "a text without zero bytes"},
        {HEAD "\"groups\":[" GROUP "," GROUP "]}", "a group that is listed once"},
        {HEAD "\"rows\":[" ROW "]}", "a group that was listed before"},
        {GROUPS "\"rows\":[{\"group\":1}]}", "a group that was listed before"},
        {GROUPS "\"rows\":[{\"name\":\"x\",\"call\":\"x\"}]}", "a row with a group"},
        {GROUPS "\"rows\":[{\"name\":\"x\",\"group\":0}]}", "a row with name and call"},
        {GROUPS "\"rows\":[" ROW "," ROW "]}", "a row that is listed once"},
        {GROUPS "\"rows\":[{\"name\":\"x\",\"call\":\"x\",\"group\":0,\"count\":2,\"durations\":[1]}]}",
         "as many durations as its count"},
        {GROUPS "\"rows\":[{\"name\":\"x\",\"call\":\"x\",\"group\":0,\"works\":1}]}",
         "works are a part of it"},
        {GROUPS "\"rows\":[{\"name\":\"x\",\"call\":\"x\",\"group\":0,\"waited_ns\":1}]}",
         "works are a part of it"},
        {GROUPS "\"rows\":[{\"share\":\"half\"}]}", "\"none\", \"whole\", \"part\" or \"twice\""},
        {GROUPS "\"rows\":[{\"share\":2}]}", "a string was expected"},
        {GROUPS "\"rows\":[{\"durations\":[281474976710656,1]}]}", "a duration below 78 hours"},
        {GROUPS "\"rows\":[{\"durations\":[1],\"buckets\":[1,1]}]}", "durations or buckets"},
        {GROUPS "\"rows\":[{\"buckets\":[1,1],\"durations\":[1]}]}", "no buckets beside them"},
        {GROUPS "\"rows\":[{\"buckets\":[2752,1]}]}", "the number of a bucket"},
        {GROUPS "\"rows\":[{\"buckets\":[1]}]}", "the bucket's count"},
        {GROUPS "\"rows\":[{\"buckets\":[1,9223372036854775807,2,1]}]}", "a count was expected"},
        {GROUPS "\"calls\":[0,0,0]}", "after their rows"},
        {GROUPS "\"rows\":[" ROW "],\"calls\":[1,0,0]}", "a row that was listed before"},
        {GROUPS "\"rows\":[" ROW "],\"calls\":[0]}", "the call's sequence number"},
        {GROUPS "\"rows\":[" ROW "],\"calls\":[0,1]}", "the call's duration"},
        {GROUPS "\"rows\":[" ROW "],\"other\":{}}", "a row with name and call"},
        {HEAD "\"lost\":0} x", "column"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) check_refused(cases[i][0], cases[i][1]);
}

static void test_any_cut_is_refused(void **state) {
    (void)state;
    struct msi_op_stats *stats = msi_op_stats_new(true), *back;
    fill(stats, 20);
    char *text = written(stats);
    for (size_t n = 0; n + 2 < strlen(text); n++)
        assert_status(msi_op_stats_read(text, n, NULL, &back), MST_ERR_PROTOCOL);
    free(text);
    msi_op_stats_free(stats);
}

/* head, items "left NUMBER right" for so many numbers, tail. */
static char *repeated(const char *head, const char *left, const char *right, int count, const char *tail) {
    struct msi_buf buf = {0};
    msi_buf_add_format(&buf, "%s", head);
    for (int i = 0; i < count; i++) msi_buf_add_format(&buf, "%s%s%d%s", i ? "," : "", left, i, right);
    msi_buf_add_format(&buf, "%s", tail);
    return kit_text(&buf);
}

static void test_limits_are_kept(void **state) {
    (void)state;
    char *text = repeated(GROUPS "\"rows\":[", "{\"name\":\"", "\",\"call\":\"x\",\"group\":0}",
                          MSI_OP_STATS_ROWS + 1, "]}");
    check_refused(text, "at most 4096 rows");
    free(text);
    text = repeated(HEAD "\"groups\":[", "{\"id\":\"", "\",\"name\":\"\",\"size\":1,\"ranks\":[0]}",
                    MSI_OP_STATS_ROWS + 1, "]}");
    check_refused(text, "at most 4096 groups");
    free(text);
    text = repeated(GROUPS "\"rows\":[" ROW "],\"calls\":[", "0,", ",1", MSI_OP_STATS_CALLS + 1, "]}");
    check_refused(text, "at most 16384 calls");
    free(text);
    text = repeated(GROUPS "\"rows\":[{\"durations\":[", "", "", MSI_HISTOGRAM_EXACT + 1, "]}]}");
    check_refused(text, "at most 65536 durations");
    free(text);
}

static void test_unknown_keys_are_skipped(void **state) {
    (void)state;
    static const char text[] =
        "{\"new\":{\"rows\":[1]},\"version\":1,\"size\":2,\"rank\":1,\"groups\":[" GROUP "],\"rows\":[" ROW
        "]}";
    struct msi_op_stats *stats;
    struct msi_rank_id id;
    assert_ok(msi_op_stats_read(text, strlen(text), &id, &stats));
    assert_int_equal(id.rank, 1);
    assert_string_equal(id.host, "");
    assert_int_equal(stats->row_count, 1);
    msi_op_stats_free(stats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_format),
        cmocka_unit_test(test_what_is_written_comes_back),
        cmocka_unit_test(test_coarse_rows_and_the_other_come_back),
        cmocka_unit_test(test_invalid_profiles_are_refused),
        cmocka_unit_test(test_any_cut_is_refused),
        cmocka_unit_test(test_limits_are_kept),
        cmocka_unit_test(test_unknown_keys_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
