/* test_prof_trace.c - a world's trace by itself: names that are taken, records that are lost, calls that
 * seem to overlap. */
#include "harness.h"

#include "os/tick.h"
#include "prof/record/event_ring.h"
#include "prof/record/recorder.h"
#include "prof/trace/trace.h"

#include <dirent.h>
#include <muster/status.h>

static _Atomic bool no_rings; /* there is no memory for more of them */

/* The library's own are all from here. */
void *aligned_alloc(size_t alignment, size_t size) {
    void *memory = NULL;
    return no_rings || posix_memalign(&memory, alignment, size) != 0 ? NULL : memory;
}

static char dir[] = "/tmp/muster-trace-XXXXXX";

static int make_dir(void **state) {
    (void)state;
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    char path[512];
    DIR *open = opendir(dir);
    for (const struct dirent *entry; (entry = readdir(open));) {
        snprintf(path, sizeof path, "%s/%.200s", dir, entry->d_name);
        unlink(path);
    }
    closedir(open);
    return rmdir(dir);
}

/* A file of the directory, to be freed. */
static char *load(const char *name) {
    char path[512], *text = calloc(1, 1 << 20);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "r");
    assert_non_null(text);
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static struct msi_trace *open_trace(int rank) {
    struct msi_rank_id id = {.rank = rank, .size = 2, .pid = 7, .host = "a"};
    struct msi_trace *trace = NULL;
    assert_ok(msi_trace_open(dir, &id, 5, &trace));
    assert_non_null(trace);
    return trace;
}

static void names_that_are_taken(void **state) {
    (void)state;
    struct msi_trace *traces[3] = {open_trace(1), open_trace(1), open_trace(0)};
    for (int i = 0; i < 3; i++) msi_trace_close(traces[i], 0);
    const char *const names[] = {"rank-1.trace.json", "rank-1.2.trace.json", "rank-0.trace.json"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *text = load(names[i]);
        assert_contains(text, i < 2 ? "\"rank\":1" : "\"rank\":0");
        assert_contains(text, "muster_end");
        free(text);
    }
}

static const int ranks[] = {0, 1};

static void *add_records(void *group) {
    for (int i = 0; i < 3; i++) {
        struct msi_record record = {
            .group = group, .name = "barrier", .call = "barrier", .backend = "native"};
        record.begin = record.started = record.end = msi_tick();
        msi_recorder_add(&record);
    }
    return NULL;
}

/* Three of a thread that has no ring and gets none, three of one that has. */
static void records_that_are_lost(void **state) {
    (void)state;
    struct msi_prof_config config = {.enabled = true, .prof_all = true};
    struct msi_prof_world_options options = {
        .id = {.size = 2, .pid = 7, .host = "a"}, .trace = dir, .unix_ns = 5, .clock.zero = msi_now()};
    struct msi_prof_world *world = NULL;
    assert_ok(msi_prof_world_begin(&options, &world));
    const struct msi_prof_group *group =
        msi_prof_group(world, &(struct msi_prof_group){.id = "w", .name = "world", .size = 2});
    assert_non_null(group);
    msi_recorder_set(&config, true);
    add_records((void *)(uintptr_t)group);
    no_rings = true;
    join_thread(start_thread(add_records, (void *)(uintptr_t)group));
    no_rings = false;
    struct caught_stderr caught = begin_stderr();
    msi_prof_world_end(world);
    char *said = end_stderr(caught), *text = load("rank-0.trace.json");
    assert_int_equal(count_of(said, "3 operations were not recorded for lack of memory"), 1);
    assert_int_equal(count_of(said, "3 operations are missing in"), 1);
    assert_int_equal(count_of(text, "\"name\":\"barrier\""), 3);
    assert_contains(text, "\"dropped\":3");
    free(said);
    free(text);
}

static void add_call_of(struct msi_trace *trace, int thread, const char *name, int64_t begin,
                        int64_t lasted) {
    struct msi_prof_group group = {.size = 2, .id = "w", .name = "world", .ranks = ranks};
    struct msi_record record = {
        .group = &group, .name = name, .call = "barrier", .backend = "native", .thread = (uint16_t)thread};
    struct msi_times times = {.begin = begin, .lasted = lasted, .waited = lasted};
    msi_trace_add(trace, &record, &times);
}

static void add_call(struct msi_trace *trace, const char *name, int64_t begin, int64_t lasted) {
    add_call_of(trace, 0, name, begin, lasted);
}

static void *number_second(void *number) {
    pthread_setname_np(pthread_self(), "second");
    *(int *)number = msi_event_ring_own_number();
    return NULL;
}

/* Perfetto takes thread 0 of process R for thread R, so that no other thread may have that number. */
static void threads_are_no_ranks(void **state) {
    (void)state;
    struct msi_trace *trace = open_trace(1);
    char thread_name[100], tid[100];
    int first = msi_event_ring_own_number(), second = -1;
    join_thread(start_thread(number_second, &second));
    assert_int_not_equal(first, second);
    add_call_of(trace, 0, "one", 1000, 500);
    add_call_of(trace, second, "two", 1200, 500);
    msi_trace_close(trace, 0);
    char *text = load("rank-1.trace.json");
    snprintf(tid, sizeof tid, "\"name\":\"two\",\"tid\":%d,\"ts\":1.200,", 100000 + second);
    snprintf(thread_name, sizeof thread_name,
             "\"name\":\"thread_name\",\"tid\":%d,\"args\":{\"name\":\"second\"}", 100000 + second);
    assert_contains(text, "\"name\":\"one\",\"tid\":0,\"ts\":1.000,");
    assert_contains(text, tid);
    assert_contains(text, thread_name);
    free(text);
}

/* What overlaps begins where the one before it ends; what lies within another, or around it, is left
 * alone. */
static void calls_that_seem_to_overlap(void **state) {
    (void)state;
    struct msi_trace *trace = open_trace(0);
    add_call(trace, "first", 1000, 500);
    add_call(trace, "late", 1499, 501);
    add_call(trace, "around", 900, 2000);
    add_call(trace, "after", 2900, 100);
    msi_trace_close(trace, 0);
    char *text = load("rank-0.trace.json");
    assert_contains(text, "\"name\":\"first\",\"tid\":0,\"ts\":1.000,\"cat\":\"collective\",\"dur\":0.500");
    assert_contains(text, "\"name\":\"late\",\"tid\":0,\"ts\":1.500,\"cat\":\"collective\",\"dur\":0.500");
    assert_contains(text, "\"name\":\"around\",\"tid\":0,\"ts\":0.900,\"cat\":\"collective\",\"dur\":2.000");
    assert_contains(text, "\"name\":\"after\",\"tid\":0,\"ts\":2.900,\"cat\":\"collective\",\"dur\":0.100");
    free(text);
}

static void add_ticked(struct msi_trace *trace, const char *name, uint64_t begin, uint64_t end, int64_t at) {
    struct msi_prof_group group = {.size = 2, .id = "w", .name = "world", .ranks = ranks};
    struct msi_record record = {
        .group = &group, .name = name, .call = "barrier", .backend = "native", .begin = begin, .end = end};
    struct msi_times times = {.begin = at, .lasted = (int64_t)(end - begin)};
    msi_trace_add(trace, &record, &times);
}

/* A tick is a nanosecond, and from the second call on the clock is 400 of them behind. */
static void calls_after_the_clock_was_looked_at(void **state) {
    (void)state;
    struct msi_trace *trace = open_trace(0);
    add_ticked(trace, "first", 10000, 10500, 1000);
    add_ticked(trace, "within", 10550, 10650, 1150);
    add_ticked(trace, "before", 10660, 10860, 860);
    add_ticked(trace, "around", 10000, 20900, 600);
    add_ticked(trace, "after", 20900, 21000, 11600);
    msi_trace_close(trace, 0);
    char *text = load("rank-0.trace.json");
    assert_contains(text, "\"name\":\"first\",\"tid\":0,\"ts\":1.000,\"cat\":\"collective\",\"dur\":0.500");
    assert_contains(text, "\"name\":\"within\",\"tid\":0,\"ts\":1.500,\"cat\":\"collective\",\"dur\":0.050");
    assert_contains(text, "\"name\":\"before\",\"tid\":0,\"ts\":1.550,\"cat\":\"collective\",\"dur\":0.100");
    assert_contains(text, "\"name\":\"around\",\"tid\":0,\"ts\":0.600,\"cat\":\"collective\",\"dur\":10.900");
    assert_contains(text, "\"name\":\"after\",\"tid\":0,\"ts\":11.600,\"cat\":\"collective\",\"dur\":0.100");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_that_are_taken, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(records_that_are_lost, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(calls_that_seem_to_overlap, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(calls_after_the_clock_was_looked_at, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(threads_are_no_ranks, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
