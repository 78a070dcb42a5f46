/* test_prof_op_stats_codec.c - statistics as bytes: round trips, and hostile bytes that are refused. */
#include "harness.h"

#include "prof_kit.h"

/* Reads the bytes of stats and writes them again. */
static void check_round_trip(struct msi_op_stats *stats) {
    struct msi_op_stats *back = NULL;
    struct msi_buf first = {0}, again = {0};
    msi_op_stats_write(stats, &first);
    assert_ok(msi_op_stats_read(first.data, first.len, &back));
    assert_int_equal(back->debug, stats->debug);
    assert_int_equal(back->lost, stats->lost);
    assert_int_equal(back->row_count, stats->row_count);
    assert_int_equal(back->call_count, stats->call_count);
    msi_op_stats_write(back, &again);
    assert_int_equal(again.len, first.len);
    assert_memory_equal(again.data, first.data, first.len);
    msi_buf_free(&first);
    msi_buf_free(&again);
    msi_op_stats_free(back);
}

/* Bytes of a test: numbers below 128 are one byte. */
#define PREFIX "\2\0\0\0\0" /* version, debug, lost, run time, sample */
#define GROUP  "\0\1\0\1w\0\5world\0\0"
#define GROUPS PREFIX "\1" GROUP
#define NONE   "\0\0\0\0\0\0\0\0\0\0\0"
/* A row up to its numbers. */
#define ROW_OF(group, share) "\1x\0\1x\0\0" group share "\0"
#define ROW                                                                                                  \
    ROW_OF("\1", "\3")                                                                                       \
    "\10\1\0\5\0\5\5\5\0\0\0"                                                                                \
    "\0\1\5"
#define MESSAGE "\1x\0\1x\0\0\1\1\1" NONE "\0\0"
#define OTHER   "\5other\0\5other\0\0\0\0\0" NONE "\0\0"

static void test_the_format(void **state) {
    (void)state;
    /* 4100 = \204\40, 3000 = \270\27, 2100 = \264\20, 2000 = \320\17; begins: unknown, 1000, -300 */
    static const char expected[] = "\2\0\0\270\27\0\1" GROUP "\2"
                                   "\12all_reduce\0\12all_reduce\0\0\1\3\0"
                                   "\200\40\2\0\204\40\0\204\40\320\17\264\20\0\0\0"
                                   "\0\2\320\17\144"
                                   "\4recv\0\4recv\0\0\1\1\1"
                                   "\10\1\1\17\5\144\144\144\1\144\12"
                                   "\0\1\144" OTHER "\3"
                                   "\0\21\264\20\264\20\0"
                                   "\0\22\320\17\320\17\1\320\17"
                                   "\1\3\144\12\1\331\4\0\4\3";
    struct msi_op_stats *stats = msi_op_stats_new(false);
    struct msi_prof_group world = kit_world(1);
    struct msi_buf buf = {0};
    kit_add(stats, &world, "all_reduce", MSI_SHARE_TWICE, 4096, 17, 2100);
    struct msi_record sum = kit_call(&world, "all_reduce", MSI_SHARE_TWICE, 4096, 18, 0),
                      recv = kit_call(&world, "recv", MSI_SHARE_WHOLE, 8, 3, 0);
    msi_op_stats_add(stats, &sum, &(struct msi_times){.begin = 1000, .lasted = 2000}, true);
    recv.flags = MSI_RECORD_MESSAGE | MSI_RECORD_WORK;
    recv.peer = 2;
    recv.tag = -1;
    msi_op_stats_add(stats, &recv, &(struct msi_times){.begin = 700, .lasted = 100, .waited = 10}, true);
    recv.status = MST_ERR_PEER_LOST;
    msi_op_stats_add(stats, &recv, &(struct msi_times){.begin = 800, .lasted = 100, .waited = 5}, true);
    msi_op_stats_write(stats, &buf);
    assert_int_equal(buf.len, sizeof expected - 1);
    assert_memory_equal(buf.data, expected, buf.len);
    msi_buf_free(&buf);
    check_round_trip(stats);
    msi_op_stats_free(stats);
}

/* Calls of all kinds in three groups. */
static void fill(struct msi_op_stats *stats, uint64_t calls) {
    static const char *const names[] = {"all_reduce", "b\"r\\oad\ncast", "gr\xc3\xbc\xc3\x9f", "", "send"};
    static const int ranks[] = {1, 3};
    struct msi_prof_group groups[] = {kit_world(4), kit_group(1, "w/1", "dp", ranks, 2),
                                      kit_group(2, "w/2", "", kit_ranks, 3)};
    uint64_t random = 5;
    for (uint64_t i = 0; i < calls; i++) {
        uint64_t r = kit_random(&random);
        struct msi_record call = kit_call(&groups[r % 3], names[r / 3 % 5], MSI_SHARE_PART, r / 15 % 3 * 1000,
                                          i, kit_random(&random) >> (24 + r / 45 % 40));
        call.function = r / 1000 % 2 ? "step" : "main";
        if (r / 2000 % 2) call.flags |= MSI_RECORD_WORK;
        call.waited = call.device / 3;
        if (r / 3 % 5 == 4) call.flags |= MSI_RECORD_MESSAGE;
        call.status = r / 4000 % 50 ? MST_OK : MST_ERR_TIMEOUT;
        kit_add_call(stats, &call);
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

/* Nothing is written, and the message says what was expected. */
static void check_refused(const void *bytes, size_t n, const char *why) {
    struct msi_op_stats *stats = (struct msi_op_stats *)1;
    char *copy = malloc(n + !n); /* exactly as large as the input, so that ASan sees an overrun */
    memcpy(copy, bytes, n);
    assert_status(msi_op_stats_read(copy, n, &stats), MST_ERR_PROTOCOL);
    free(copy);
    assert_ptr_equal(stats, (struct msi_op_stats *)1);
    assert_contains(mst_error(), why);
}

#define CASE(bytes, why)                                                                                     \
    { bytes, sizeof(bytes) - 1, why }
#define LONGEST "\377\377\377\377\377\377\377\377\177" /* 2^63 - 1 */

static void test_invalid_profiles_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        CASE("", "byte 0: expected version 2"),
        CASE("\1\0\0", "version 2"),
        CASE("\201", "version 2"),
        CASE("\2\2", "byte 1: expected debug"),
        CASE("\2\0\377\377\377\377\377\377\377\377\377\1", "byte 2: expected a count"), /* 70 bits */
        CASE("\2\0\0\0\41", "the size of the sample"),
        CASE(PREFIX, "at most 4096 groups"),
        CASE(PREFIX "\1\0\0\0\0\0\0\0", "as many ranks as its size"),
        CASE(PREFIX "\1\0\2\0\0\0\0\0"
                    "\0",
             "as many ranks as its size"), /* one rank of two */
        CASE(PREFIX "\1\0\1\1\0\0\0\0"
                    "\0",
             "its rank among them"),
        CASE(PREFIX "\1\0\1\0\3a\0b\0\0\0\0", "a text without zero bytes"),
        CASE(PREFIX "\1\0\1\0\3abc", "a text without zero bytes"),
        CASE(PREFIX "\1\0\1\0\3abcd\0\0\0", "a text without zero bytes"),
        CASE(PREFIX "\1\0\1\0" LONGEST, "a text without zero bytes"),
        CASE(PREFIX "\1\0\1\0\1a\0\1b\0" LONGEST, "expected a rank"),
        CASE(PREFIX "\1\0" LONGEST, "the size of a group"),
        CASE(PREFIX "\2" GROUP GROUP, "a group that is listed once"),
        CASE(PREFIX "\0\1" ROW, "a group that was listed before"),
        CASE(GROUPS "\1" ROW_OF("\2", "\0"), "a group that was listed before"),
        CASE(GROUPS "\1" ROW_OF("\0", "\0") NONE "\0\0", "a row with a group"),
        CASE(GROUPS "\2" ROW ROW, "a row that is listed once"),
        CASE(GROUPS "\1"
                    "\1x\0\1x\0\2",
             "whether there is a function"),
        CASE(GROUPS "\1" ROW_OF("\1", "\4"), "a share"),
        CASE(GROUPS "\1"
                    "\1x\0\1x\0\0\1\0\2",
             "whether it is a message"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") "\0\2\0\0\0\0\0\0\0\0\0"
                                            "\0\1\1",
             "as many durations as its count"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") "\0\0\0\0\0\0\0\0\1\0\0"
                                            "\0\0",
             "works are a part of it"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") "\0\0\0\0\0\0\0\0\0\0\1"
                                            "\0\0",
             "works are a part of it"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") "\0\0\0\0\0\0\0\0\0\1\0"
                                            "\0\0",
             "works are a part of it"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") "\0\0\0\4\5\0\0\0\0\0\0"
                                            "\0\0",
             "failed calls are a part of it"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") NONE "\2", "durations or buckets"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") NONE "\0\2\200\200\200\200\200\200\100\1", "below 78 hours"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") NONE "\1\1\300\25\1", "the number of a bucket"), /* 2752 */
        CASE(GROUPS "\1" ROW_OF("\1", "\0") NONE "\1\1\1", "the count of a bucket"),
        CASE(GROUPS "\1" ROW_OF("\1", "\0") NONE "\1\2\1" LONGEST "\2\1", "the count of a bucket"),
        CASE(GROUPS "\0" ROW, "without a group"),
        CASE(GROUPS "\0" OTHER "\1\0\0\0", "after their rows"),
        CASE(GROUPS "\1" ROW OTHER "\1\1\0\0", "a row that was listed before"),
        CASE(GROUPS "\1" ROW OTHER "\1\0", "the sequence number of a call"),
        CASE(GROUPS "\1" ROW OTHER "\1\0\1", "the duration of a call"),
        CASE(GROUPS "\1" ROW OTHER "\1\0\1\5\6", "the communication time of a call"),
        CASE(GROUPS "\1" ROW OTHER "\1\0\1\5\5\2", "whether the begin of a call is known"),
        CASE(GROUPS "\1" ROW OTHER "\1\0\1\5\5\1" LONGEST, "the begin of a call"),
        CASE(GROUPS "\1" MESSAGE OTHER "\1\0\1\5\5\0\2", "whether it is a send"),
        CASE(GROUPS "\1" MESSAGE OTHER "\1\0\1\5\5\0\1" LONGEST, "a peer"),
        CASE(GROUPS "\1" MESSAGE OTHER "\1\0\1\5\5\0\1\2" LONGEST, "a tag"),
        CASE(GROUPS "\1" ROW OTHER "\0x", "expected the end"),
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) check_refused(cases[i].bytes, cases[i].n, cases[i].why);
}

static void test_any_cut_is_refused(void **state) {
    (void)state;
    struct msi_op_stats *stats = msi_op_stats_new(true);
    struct msi_buf buf = {0};
    fill(stats, 20);
    msi_op_stats_write(stats, &buf);
    for (size_t n = 0; n < buf.len; n++) check_refused(buf.data, n, ": expected ");
    msi_buf_free(&buf);
    msi_op_stats_free(stats);
}

static void put(struct msi_buf *to, uint64_t value) {
    for (; value > 127; value >>= 7) msi_buf_add_u8(to, (uint8_t)(value | 128));
    msi_buf_add_u8(to, (uint8_t)value);
}

#define ADD(buf, bytes) msi_buf_add(buf, bytes, sizeof(bytes) - 1)

static void test_limits_are_kept(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    ADD(&buf, PREFIX);
    put(&buf, MSI_OP_STATS_ROWS + 1);
    check_refused(buf.data, buf.len, "at most 4096 groups");
    buf.len = 0;
    ADD(&buf, GROUPS);
    put(&buf, MSI_OP_STATS_ROWS + 1);
    check_refused(buf.data, buf.len, "at most 4096 rows");
    buf.len = 0;
    ADD(&buf, GROUPS "\1" ROW OTHER);
    put(&buf, MSI_OP_STATS_CALLS + 1);
    check_refused(buf.data, buf.len, "at most 16384 calls");
    buf.len = 0;
    ADD(&buf, GROUPS "\1" ROW_OF("\1", "\0") NONE "\0");
    put(&buf, MSI_HISTOGRAM_EXACT + 1);
    for (int i = 0; i <= MSI_HISTOGRAM_EXACT; i++) put(&buf, 1);
    check_refused(buf.data, buf.len, "at most 65536 durations");
    msi_buf_free(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_format),
        cmocka_unit_test(test_what_is_written_comes_back),
        cmocka_unit_test(test_coarse_rows_and_the_other_come_back),
        cmocka_unit_test(test_invalid_profiles_are_refused),
        cmocka_unit_test(test_any_cut_is_refused),
        cmocka_unit_test(test_limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
