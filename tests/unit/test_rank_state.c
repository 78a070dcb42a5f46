/* test_rank_state.c - states as the launcher reads them: what a rank wrote, and what no rank would write. */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/ranks/rank_states.c"

#include "harness.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { N = 3, MINE = 1 };

static struct rank_states states;

static int set_up(void **state) {
    char text[64];
    (void)state;
    rank_states_open(&states, N);
    rank_states_begin(&states, 4);
    assert_true(states.segment.fd >= 0);
    snprintf(text, sizeof text, "/proc/%d/fd/%d:%d", (int)getpid(), states.segment.fd, MINE);
    setenv(MSI_RANK_STATE_VARIABLE, text, 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    struct msi_rank_state *rank_state = msi_rank_state_on();
    if (rank_state) munmap(rank_state, MSI_RANK_STATE_SLOT);
    atomic_store(&msi_rank_state, NULL);
    rank_states_close(&states);
    return 0;
}

/* The rank_state that this process has by now, as the launcher sees it. */
static struct msi_rank_state *mine(void) {
    msi_rank_state_open();
    assert_non_null(msi_rank_state_on());
    return rank_state_of(&states, MINE);
}

static struct rank_state_view view(void) {
    struct rank_state_view v;
    rank_states_read(&states, MINE, &v);
    return v;
}

static void nothing_is_there_at_first(void **state) {
    (void)state;
    mine();
    struct rank_state_view v = view();
    assert_int_equal(v.stage.phase, MSI_RANK_STATE_NOTHING);
    assert_false(v.has_call || v.has_error);
}

static void a_call_is_seen_while_it_lasts_and_after(void **state) {
    mst_site site = {"some/where/train.c", "step", 88};
    (void)state;
    mine();
    msi_call_begin("mst_all_reduce", &site, 2);
    msi_call_sequence(12);
    uint64_t entered = msi_call_enter(4, MST_F32, 1024);
    struct rank_state_view v = view();
    assert_true(v.has_call && v.under_way);
    assert_string_equal(v.operation, "mst_all_reduce");
    assert_string_equal(v.file, "train.c");
    assert_string_equal(v.function, "step");
    assert_int_equal(v.line, 88);
    assert_int_equal(v.sequence, 12);
    assert_int_equal(v.count, 1024);
    assert_int_equal(v.dtype, MST_F32);
    assert_int_equal(v.ranks, 4);
    msi_call_leave(entered, MST_OK);
    v = view();
    assert_true(v.has_call && !v.under_way);
}

static void more_sites_than_places(void **state) {
    static char files[200][16];
    (void)state;
    mine();
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 200; i++) {
            snprintf(files[i], sizeof files[i], "f%d.c", i);
            mst_site site = {files[i], files[i] + 1, i};
            msi_call_begin("mst_barrier", &site, 0);
            uint64_t entered = msi_call_enter(1, 0, 0);
            struct rank_state_view v = view();
            assert_string_equal(v.file, files[i]);
            assert_string_equal(v.function, files[i] + 1);
            msi_call_leave(entered, MST_OK);
        }
}

static void long_names_are_cut(void **state) {
    char name[300];
    mst_site site = {name, name, 1};
    (void)state;
    mine();
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    msi_call_begin(name, &site, 0);
    msi_call_enter(1, 0, 0);
    struct rank_state_view v = view();
    assert_int_equal(strlen(v.operation), MSI_RANK_STATE_NAME - 1);
    assert_int_equal(strlen(v.file), MSI_RANK_STATE_FILE - 1);
}

static void an_error_stays_unless_its_call_succeeds(void **state) {
    (void)state;
    mine();
    msi_call_begin("mst_barrier", NULL, 0);
    uint64_t entered = msi_call_enter(2, 0, 0);
    msi_blame(msi_fail(MST_ERR_PEER_LOST, "look at it", "rank %d died", 1), 1);
    assert_true(view().has_error);
    msi_call_leave(entered, MST_OK);
    assert_false(view().has_error);
    entered = msi_call_enter(2, 0, 0);
    msi_blame(msi_fail(MST_ERR_PEER_LOST, "look at it", "rank %d died", 1), 1);
    msi_call_leave(entered, MST_ERR_PEER_LOST);
    struct rank_state_view v = view();
    assert_true(v.has_error && !v.is_earlier);
    assert_int_equal(v.status, MST_ERR_PEER_LOST);
    assert_int_equal(v.culprit, 1);
    assert_string_equal(v.error_operation, "mst_barrier");
    assert_string_equal(v.message, "rank 1 died");
    assert_string_equal(v.remedy, "look at it");
    msi_call_leave(msi_call_enter(2, 0, 0), MST_OK);
    v = view();
    assert_true(v.has_error && v.is_earlier);
}

static void a_call_that_another_thread_overtook_leaves_its_traces_alone(void **state) {
    (void)state;
    mine();
    msi_call_begin("mst_barrier", NULL, 0);
    uint64_t first = msi_call_enter(2, 0, 0);
    msi_call_begin("mst_broadcast", NULL, 0);
    uint64_t second = msi_call_enter(2, 0, 0);
    msi_call_leave(first, MST_OK);
    struct rank_state_view v = view();
    assert_true(v.under_way);
    assert_string_equal(v.operation, "mst_broadcast");
    msi_call_leave(second, MST_OK);
    assert_false(view().under_way);
}

static void phases(void **state) {
    (void)state;
    mine();
    msi_rank_phase(MSI_RANK_STATE_JOINING);
    assert_int_equal(rank_states_stage(&states, MINE).phase, MSI_RANK_STATE_JOINING);
    assert_false(rank_states_stage(&states, MINE).is_here);
    msi_rank_state_world(3, 4);
    assert_true(rank_states_stage(&states, MINE).is_here);
    assert_int_equal(rank_states_stage(&states, MINE).rank, 3);
    msi_rank_state_world(3, 5);
    assert_false(rank_states_stage(&states, MINE).is_here);
    assert_int_equal(rank_states_stage(&states, 0).phase, MSI_RANK_STATE_NOTHING);
    rank_states_begin(&states, 4);
    assert_int_equal(rank_states_stage(&states, MINE).phase, MSI_RANK_STATE_NOTHING);
}

static void check_text(const char *text, size_t room) {
    size_t n = strnlen(text, room);
    assert_true(n < room);
    for (size_t i = 0; i < n; i++) assert_true((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void check_view(void) {
    struct rank_state_view v = view();
    assert_in_range(v.stage.phase, 0, MSI_RANK_STATE_PHASES - 1);
    assert_in_range(v.status, 0, MST_STATUS_COUNT - 1);
    assert_in_range(v.dtype, 0, MST_DTYPE_COUNT - 1);
    assert_true(v.ranks >= 0 && v.line >= 0);
    check_text(v.operation, sizeof v.operation);
    check_text(v.file, sizeof v.file);
    check_text(v.function, sizeof v.function);
    check_text(v.error_operation, sizeof v.error_operation);
    check_text(v.message, sizeof v.message);
    check_text(v.remedy, sizeof v.remedy);
}

static void garbage_is_read_in_bounds(void **state) {
    unsigned char *bytes = (unsigned char *)rank_state_of(&states, MINE);
    (void)state;
    for (unsigned seed = 0; seed < 2000; seed++) {
        struct msi_rank_state *rank_state = rank_state_of(&states, MINE);
        srand(seed);
        for (size_t i = 0; i < MSI_RANK_STATE_SLOT; i++) bytes[i] = seed % 7 ? (unsigned char)rand() : 0xff;
        check_view();
        atomic_store(&rank_state->magic, MSI_RANK_STATE_MAGIC);
        check_view();
        atomic_store(&rank_state->line_site, (uint64_t)(seed % (MSI_RANK_STATE_SITES + 1)) << 32 | seed);
        atomic_store(&rank_state->status, seed % (MST_STATUS_COUNT + 1));
        atomic_store(&rank_state->phase, seed % (MSI_RANK_STATE_PHASES + 1));
        check_view();
        assert_int_equal(view().has_error, seed % (MST_STATUS_COUNT + 1) % MST_STATUS_COUNT != 0);
    }
}

static void its_size_is_sealed(void **state) {
    (void)state;
    assert_int_equal(ftruncate(states.segment.fd, 0), -1);
    assert_int_equal(ftruncate(states.segment.fd, 1 << 20), -1);
}

static void refuse(const char *text) {
    setenv(MSI_RANK_STATE_VARIABLE, text, 1);
    msi_rank_state_open();
    assert_null(msi_rank_state_on());
}

static void what_is_no_slate_is_left_alone(void **state) {
    static const char *const bad[] = {"",
                                      ":",
                                      "x",
                                      "/proc/1/fd/3",
                                      "/proc/self/fd/0:0",
                                      "/proc/",
                                      "/dev/null:0",
                                      "/proc//fd/",
                                      "/proc/x/fd/y:0",
                                      "/etc/passwd:0",
                                      "/proc/0/fd/0:0",
                                      "/proc/99999999/fd/1:0"};
    char text[96], path[] = "/tmp/muster-rank_state-XXXXXX";
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) refuse(bad[i]);
    static const char *const slots[] = {"-1", "3", "1x", "", "99999999999999999999", "2147483647"};
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
        snprintf(text, sizeof text, "/proc/%d/fd/%d:%s", (int)getpid(), states.segment.fd, slots[i]);
        refuse(text);
    }
    int file = mkstemp(path), loose = memfd_create(MSI_RANK_STATE_MEMFD, MFD_ALLOW_SEALING);
    assert_true(ftruncate(file, MSI_RANK_STATE_SLOT) == 0 && ftruncate(loose, MSI_RANK_STATE_SLOT) == 0);
    uint64_t magic = MSI_RANK_STATE_MAGIC;
    assert_true(write(loose, &magic, sizeof magic) == (ssize_t)sizeof magic);
    snprintf(text, sizeof text, "/proc/%d/fd/%d:0", (int)getpid(), file);
    refuse(text);
    snprintf(text, sizeof text, "/proc/%d/fd/%d:0", (int)getpid(), loose); /* another may cut it off */
    refuse(text);
    assert_int_equal(fcntl(loose, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    refuse(text);
    assert_int_equal(fcntl(loose, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
    setenv(MSI_RANK_STATE_VARIABLE, text, 1);
    msi_rank_state_open();
    assert_non_null(msi_rank_state_on());
    unlink(path);
    close(file);
    close(loose);
}

/* The ranks of later generations must be able to map it for writing. */
static void a_rank_cannot_seal_the_memory(void **state) {
    (void)state;
    assert_int_equal(fcntl(states.segment.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    assert_int_equal(errno, EPERM);
}

static void of_another_layout(void **state) {
    (void)state;
    atomic_store(&rank_state_of(&states, MINE)->magic, MSI_RANK_STATE_MAGIC + 1);
    msi_rank_state_open();
    assert_null(msi_rank_state_on());
}

static void without_a_descriptor_there_are_none(void **state) {
    struct rlimit before, none;
    struct rank_states none_of_these;
    struct rank_state_view v;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    rank_states_open(&none_of_these, 2);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(none_of_these.segment.fd, -1);
    assert_int_equal(rank_states_stage(&none_of_these, 1).phase, MSI_RANK_STATE_NOTHING);
    rank_states_read(&none_of_these, 1, &v);
    assert_false(v.has_call || v.has_error);
    rank_states_begin(&none_of_these, 2);
    rank_states_close(&none_of_these);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_there_at_first),
        TEST(a_call_is_seen_while_it_lasts_and_after),
        TEST(more_sites_than_places),
        TEST(long_names_are_cut),
        TEST(an_error_stays_unless_its_call_succeeds),
        TEST(a_call_that_another_thread_overtook_leaves_its_traces_alone),
        TEST(phases),
        TEST(garbage_is_read_in_bounds),
        TEST(its_size_is_sealed),
        TEST(what_is_no_slate_is_left_alone),
        TEST(a_rank_cannot_seal_the_memory),
        TEST(of_another_layout),
        TEST(without_a_descriptor_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
