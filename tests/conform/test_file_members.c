/*
 * test_file_members.c - a file store among processes: deadlines while another process holds the file's lock,
 * and the members of a world that uses it.
 */
#include "harness.h"

#include "base/settings.h"
#include "store/store.h"
#include "wire/cursor.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

static char dir[64], path[96], alive[112];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/muster-members-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/store", dir);
    snprintf(alive, sizeof alive, "%s.alive", path);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    unlink(path);
    unlink(alive);
    return rmdir(dir);
}

static mst_store *open_plain(void) {
    char url[128];
    mst_store *store;
    snprintf(url, sizeof url, "file://%s", path);
    assert_ok(mst_store_open(url, &store, .timeout_ms = 20000));
    return store;
}

static mst_status join(mst_store **store) {
    struct msi_settings settings;
    struct msi_wait wait = {msi_deadline(20000), NULL};
    assert_ok(msi_settings_load(&settings, NULL));
    mst_status st = msi_store_open_file(path, true, &settings, &wait, store);
    if (st == MST_OK) (*store)->timeout_ms = 20000;
    return st;
}

/* Holds the file's lock, as a process that was stopped in the middle of a call would. */
static int hold_lock(void) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    return fd;
}

struct call {
    mst_store *store;
    int timeout_ms;
    bool barrier;
    mst_cancel *cancel;
    mst_status status;
    int64_t took_ms;
};

static void *make_call(void *context) {
    struct call *c = context;
    int64_t begin = msi_now();
    c->status = c->barrier
                    ? mst_store_barrier(c->store, "b", 2, .timeout_ms = c->timeout_ms, .cancel = c->cancel)
                    : mst_store_set(c->store, "k", "v", 1, .timeout_ms = c->timeout_ms, .cancel = c->cancel);
    c->took_ms = ms_since(begin);
    return NULL;
}

static void a_call_ends_at_its_deadline_while_the_file_is_locked(void **state) {
    (void)state;
    mst_store *store = open_plain();
    int fd = hold_lock();
    struct call c = {.store = store, .timeout_ms = 150};
    make_call(&c);
    close(fd);
    assert_status(c.status, MST_ERR_TIMEOUT);
    assert_in_range(c.took_ms, 149, 3000);
    assert_ok(mst_store_set(store, "k", "v", 1));
    mst_store_free(store);
}

/* A patient call on the same handle must not make an impatient one wait as long as itself. */
static void each_thread_has_its_own_deadline(void **state) {
    (void)state;
    mst_store *store = open_plain();
    int fd = hold_lock();
    struct call patient = {.store = store, .timeout_ms = 6000}, hasty = {.store = store, .timeout_ms = 150};
    pthread_t thread = start_thread(make_call, &patient);
    int64_t longest = 0;
    for (int i = 0; i < 5; i++) {
        make_call(&hasty);
        if (hasty.took_ms > longest) longest = hasty.took_ms;
    }
    close(fd);
    join_thread(thread);
    mst_store_free(store);
    assert_true(longest < 3000);
    assert_status(hasty.status, MST_ERR_TIMEOUT);
    assert_status(patient.status, MST_OK);
}

/* Starts a barrier at which no other process arrives, and takes the lock once it has arrived and waits. */
static pthread_t wait_then_lock(struct call *c, int *fd) {
    struct stat info = {.st_size = 0};
    c->barrier = true;
    pthread_t thread = start_thread(make_call, c);
    while (info.st_size == 0) assert_int_equal(stat(path, &info), 0);
    *fd = hold_lock();
    return thread;
}

/* Whether the thread ends within five seconds; joins it in any case, with the lock let go. */
static bool ends_in_time(pthread_t thread, int fd) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 5;
    int late = pthread_timedjoin_np(thread, NULL, &limit);
    close(fd);
    if (late) join_thread(thread);
    return !late;
}

static void a_wait_ends_at_its_deadline_though_the_file_got_locked_meanwhile(void **state) {
    (void)state;
    mst_store *store = open_plain();
    struct call c = {.store = store, .timeout_ms = 400};
    int fd;
    pthread_t thread = wait_then_lock(&c, &fd);
    bool in_time = ends_in_time(thread, fd);
    mst_store_free(store);
    assert_true(in_time);
    assert_status(c.status, MST_ERR_TIMEOUT);
}

static void a_wait_can_be_cancelled_though_the_file_got_locked_meanwhile(void **state) {
    (void)state;
    mst_store *store = open_plain();
    struct call c = {.store = store, .timeout_ms = 20000};
    int fd;
    assert_ok(mst_cancel_new(&c.cancel));
    pthread_t thread = wait_then_lock(&c, &fd);
    poll(NULL, 0, 60); /* so that it is likely found trying for the lock; sooner must do as well */
    mst_cancel_fire(c.cancel);
    bool in_time = ends_in_time(thread, fd);
    mst_cancel_free(c.cancel);
    mst_store_free(store);
    assert_true(in_time);
    assert_status(c.status, MST_ERR_CANCELLED);
}

static void a_locked_files_wait_can_be_cancelled(void **state) {
    (void)state;
    mst_store *store = open_plain();
    int fd = hold_lock();
    struct call c = {.store = store, .timeout_ms = 20000};
    assert_ok(mst_cancel_new(&c.cancel));
    pthread_t thread = start_thread(make_call, &c);
    mst_cancel_fire(c.cancel);
    join_thread(thread);
    close(fd);
    assert_status(c.status, MST_ERR_CANCELLED);
    assert_true(c.took_ms < 5000);
    mst_cancel_free(c.cancel);
    mst_store_free(store);
}

static void the_last_member_removes_the_file(void **state) {
    (void)state;
    mst_store *a, *b;
    assert_ok(join(&a));
    assert_ok(join(&b));
    assert_ok(mst_store_set(a, "k", "v", 1));
    mst_store_free(a);
    assert_int_equal(access(path, F_OK), 0);
    mst_store_free(b);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(alive, F_OK), -1);
}

/* Writes a file as a job would that died. */
static void leave_behind(void (*body)(mst_store *store)) {
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        mst_store *store;
        alarm(30);
        if (join(&store) != MST_OK) _exit(1);
        body(store);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void set_a_key(mst_store *store) {
    mst_store_set(store, "rank/0", "here", 4);
}

static void come_to_a_barrier(mst_store *store) {
    mst_store_barrier(store, "start", 2, .timeout_ms = 10);
}

static void what_a_dead_job_left_is_not_joined(void **state) {
    (void)state;
    mst_store *store;
    leave_behind(set_a_key);
    assert_status(join(&store), MST_ERR_STALE);
    assert_contains(mst_error(), path);
    assert_true(mst_last_error()->remedy[0]);
    assert_int_equal(access(path, F_OK), 0);
}

/* Its arrivals would be counted among ours. */
static void a_dead_jobs_barrier_is_not_joined_either(void **state) {
    (void)state;
    mst_store *store = NULL;
    leave_behind(come_to_a_barrier);
    assert_status(join(&store), MST_ERR_STALE);
}

static void members_join_while_others_live(void **state) {
    (void)state;
    mst_store *first, *later;
    assert_ok(join(&first));
    assert_ok(mst_store_set(first, "k", "v", 1));
    assert_ok(join(&later));
    mst_bytes value;
    assert_ok(mst_store_get(later, "k", &value));
    assert_string_equal(value.data, "v");
    mst_bytes_free(&value);
    mst_store_free(first);
    assert_ok(mst_store_set(later, "k", "w", 1));
    mst_store_free(later);
}

/* A world that continues another one uses a clone of its store, and may fail while the process goes on. */
static void a_clone_is_a_member(void **state) {
    (void)state;
    mst_store *other, *world, *next;
    struct msi_settings settings;
    struct msi_wait wait = {msi_deadline(20000), NULL};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_ON_DISCONNECT, .key = msi_cstr("/events"), .value = msi_cstr("D 1")}};
    assert_ok(msi_settings_load(&settings, NULL));
    assert_ok(join(&other));
    assert_ok(join(&world));
    assert_ok(world->ops->clone(world, &settings, &wait, &next));
    assert_ok(next->ops->exec(next, &wait, &x, 1));
    mst_store_free(next);
    x = (struct msi_store_rpc){.req = msi_read_request(msi_cstr("/events"))};
    do { /* it looks for dead members now and then */
        msi_store_rpc_free(&x, 1);
        assert_ok(other->ops->exec(other, &wait, &x, 1));
    } while (msi_store_reply_value(&x).n == 0 && msi_now() < wait.deadline);
    assert_true(msi_str_equal(msi_store_reply_value(&x), msi_cstr("D 1")));
    msi_store_rpc_free(&x, 1);
    mst_store_free(world);
    mst_store_free(other);
}

int main(void) {
    alarm(110);
#define with_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        with_dir(a_call_ends_at_its_deadline_while_the_file_is_locked),
        with_dir(each_thread_has_its_own_deadline),
        with_dir(a_wait_ends_at_its_deadline_though_the_file_got_locked_meanwhile),
        with_dir(a_wait_can_be_cancelled_though_the_file_got_locked_meanwhile),
        with_dir(a_locked_files_wait_can_be_cancelled),
        with_dir(the_last_member_removes_the_file),
        with_dir(what_a_dead_job_left_is_not_joined),
        with_dir(a_dead_jobs_barrier_is_not_joined_either),
        with_dir(members_join_while_others_live),
        with_dir(a_clone_is_a_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
