/*
 * test_store_on_disconnect.c - on_disconnect values and guards. The store applies the value of a client that
 * ends without removing it, and ends waits under a guard. Over tcp, and over files with members.
 */
#include "store_kit.h"

struct members {
    bool file;
    char path[128];
    mst_store *host;  /* keeps the store alive: the master, or one more member */
    mst_store *a, *b; /* a sets the on_disconnect value, b waits */
};

static mst_store *open_member(const struct members *m) {
    mst_store *store = NULL;
    char url[128];
    if (m->file) {
        struct msi_settings settings;
        struct msi_wait wait = {msi_deadline(CALL_LIMIT_MS), NULL};
        assert_ok(msi_settings_load(&settings, NULL));
        assert_ok(msi_store_open_file(m->path, true, &settings, &wait, &store));
        store->timeout_ms = CALL_LIMIT_MS;
        return store;
    }
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", mst_store_port(m->host));
    assert_ok(mst_store_open(url, &store, .timeout_ms = CALL_LIMIT_MS));
    return store;
}

static int open_members(void **state, bool file) {
    struct members *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->file = file;
    snprintf(m->path, sizeof m->path, "/tmp/muster-disconnect-%d", (int)getpid());
    if (file)
        m->host = open_member(m);
    else
        assert_ok(
            mst_store_open("tcp://127.0.0.1:0", &m->host, .is_master = true, .timeout_ms = CALL_LIMIT_MS));
    m->a = open_member(m);
    m->b = open_member(m);
    *state = m;
    return 0;
}

static int open_tcp(void **state) {
    return open_members(state, false);
}

static int open_file(void **state) {
    return open_members(state, true);
}

static int close_members(void **state) {
    struct members *m = *state;
    mst_store_free(m->a);
    mst_store_free(m->b);
    mst_store_free(m->host);
    bool left = m->file && !access(m->path, F_OK); /* the last member removes the file */
    free(m);
    return left ? -1 : 0;
}

/* A guarded wait on a thread of its own. */
struct guarded {
    mst_store *store;
    int64_t length;
    bool barrier;
    mst_status status;
    int64_t took_ms;
};

static void *wait_guarded(void *context) {
    struct guarded *g = context;
    struct msi_wait wait = {msi_deadline(20000), NULL};
    struct msi_str key = msi_cstr("never");
    struct msi_store_rpc x[2] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_cstr("dead"), .number = g->length}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &key}},
    };
    if (g->barrier) x[1].req = (struct msi_store_req){.op = MSI_OP_BARRIER, .key = key, .number = 1000};
    int64_t begin = msi_now();
    g->status = msi_store_exec(g->store, &wait, x, 2);
    g->took_ms = ms_since(begin);
    msi_store_rpc_free(x, 2);
    return NULL;
}

static void closing_without_removing_the_value_applies_it(void **state) {
    struct members *m = *state;
    for (int i = 0; i < 4; i++) {
        struct guarded g = {.store = m->b, .length = 6 * i, .barrier = i % 2};
        assert_ok(set_on_disconnect(m->a, "dead", "rank 1"));
        pthread_t thread = start_thread(wait_guarded, &g);
        if (i >= 2) put(m->b, "k", "v"); /* the wait may have begun, or not */
        mst_store_free(m->a);
        join_thread(thread);
        assert_status(g.status, MST_ERR_PEER_LOST);
        assert_true(g.took_ms < 5000);
        m->a = open_member(m);
    }
    assert_get(m->b, "dead", "rank 1rank 1rank 1rank 1");
}

static void a_removed_value_is_not_applied(void **state) {
    struct members *m = *state;
    assert_ok(set_on_disconnect(m->a, "dead", "rank 1"));
    put(m->a, "k", "v");
    assert_ok(set_on_disconnect(m->a, "", ""));
    mst_store_free(m->a);
    m->a = open_member(m);
    for (int i = 0; i < 5; i++) put(m->b, "k", "v");
    const char *never = "never";
    assert_status(mst_store_wait(m->b, &never, 1, .timeout_ms = 300), MST_ERR_TIMEOUT);
    assert_false(has_key(m->b, "dead"));
}

static void the_last_value_counts(void **state) {
    struct members *m = *state;
    assert_ok(set_on_disconnect(m->a, "dead", "first"));
    assert_ok(set_on_disconnect(m->a, "dead", "second"));
    mst_store_free(m->a);
    m->a = open_member(m);
    assert_get(m->b, "dead", "second");
}

static void a_guard_does_not_end_what_need_not_wait(void **state) {
    struct members *m = *state;
    struct guarded g = {.store = m->b};
    put(m->b, "dead", "somebody");
    put(m->b, "never", "is there");
    wait_guarded(&g);
    assert_status(g.status, MST_OK);
    assert_ok(mst_store_delete_key(m->b, "never", NULL));
    wait_guarded(&g);
    assert_status(g.status, MST_ERR_PEER_LOST);
    put(m->b, "k", "v");
    assert_get(m->b, "k", "v");
}

static void a_guard_holds_for_one_wait_only(void **state) {
    struct members *m = *state;
    struct guarded g = {.store = m->b};
    const char *never = "never";
    put(m->b, "dead", "somebody");
    wait_guarded(&g);
    assert_status(g.status, MST_ERR_PEER_LOST);
    assert_status(mst_store_wait(m->b, &never, 1, .timeout_ms = 100), MST_ERR_TIMEOUT);
}

static void a_killed_process_is_noticed(void **state) {
    struct members *m = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        mst_store *store = open_member(m);
        if (set_on_disconnect(store, "dead", "killed") == MST_OK && write(ready[1], "x", 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct guarded g = {.store = m->b};
    pthread_t thread = start_thread(wait_guarded, &g);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    join_thread(thread);
    assert_status(g.status, MST_ERR_PEER_LOST);
    assert_true(g.took_ms < 5000);
    assert_get(m->b, "dead", "killed");
    close(ready[0]);
    close(ready[1]);
}

/* A call that is cancelled ends; the client that made it is alive. */
static void a_cancelled_call_does_not_apply_the_value(void **state) {
    struct members *m = *state;
    mst_cancel *cancel;
    mst_bytes value;
    assert_ok(set_on_disconnect(m->a, "dead", "rank 1"));
    assert_ok(mst_cancel_new(&cancel));
    mst_cancel_fire(cancel);
    for (int i = 0; i < 10; i++) {
        mst_store_set(m->a, "k", "v", 1, .cancel = cancel);
        assert_status(mst_store_get(m->a, "never", &value, .cancel = cancel), MST_ERR_CANCELLED);
    }
    mst_cancel_free(cancel);
    const char *never = "never";
    assert_status(mst_store_wait(m->b, &never, 1, .timeout_ms = 300), MST_ERR_TIMEOUT);
    assert_false(has_key(m->b, "dead"));
    put(m->a, "k", "v");
    assert_ok(set_on_disconnect(m->a, "", ""));
}

static void *wait_for_go(void *context) {
    const char *go = "go";
    return mst_store_wait(context, &go, 1, .timeout_ms = 20000) == MST_OK ? context : NULL;
}

/* Other threads may be waiting on the handle when its owner removes the on_disconnect value. */
static void a_value_is_removed_while_other_threads_wait(void **state) {
    struct members *m = *state;
    pthread_t threads[6];
    assert_ok(set_on_disconnect(m->a, "dead", "rank 1"));
    for (int i = 0; i < 6; i++) threads[i] = start_thread(wait_for_go, m->a);
    for (int i = 0; i < 20; i++) put(m->a, "k", "v");
    assert_ok(set_on_disconnect(m->a, "", ""));
    put(m->b, "go", "!");
    for (int i = 0; i < 6; i++) assert_ptr_equal(join_thread(threads[i]), m->a);
    mst_store_free(m->a);
    m->a = open_member(m);
    const char *never = "never";
    assert_status(mst_store_wait(m->b, &never, 1, .timeout_ms = 300), MST_ERR_TIMEOUT);
    assert_false(has_key(m->b, "dead"));
}

static void values_and_guards_stay_inside_a_prefix(void **state) {
    struct members *m = *state;
    mst_store *view_a, *view_b;
    assert_ok(mst_store_open_prefix(m->a, "job", &view_a));
    assert_ok(mst_store_open_prefix(m->b, "job", &view_b));
    struct guarded inside = {.store = view_b};
    assert_ok(set_on_disconnect(view_a, "dead", "rank 1"));
    pthread_t thread = start_thread(wait_guarded, &inside);
    mst_store_free(view_a);
    mst_store_free(m->a);
    join_thread(thread);
    assert_status(inside.status, MST_ERR_PEER_LOST);
    assert_get(m->b, "job/dead", "rank 1");
    assert_false(has_key(m->b, "dead"));
    mst_store_free(view_b);
    m->a = open_member(m);
}

/* On the port of a store that has ended there is another soon: what was meant for the first must not reach
 * it. */
static void a_client_does_not_move_to_the_next_server(void **state) {
    struct members *m = *state;
    mst_store *member = open_member(m);
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", mst_store_port(m->host));
    assert_ok(set_on_disconnect(member, "dead", "rank 2"));
    put(m->a, "k", "v");
    mst_store_free(m->b);
    m->b = NULL;
    mst_store_free(m->host);
    assert_ok(mst_store_open(url, &m->host, .is_master = true, .timeout_ms = CALL_LIMIT_MS));
    for (int i = 0; i < 3; i++) {
        mst_status st = set_on_disconnect(m->a, "dead", "rank 1");
        assert_true(st == MST_ERR_STORE_LOST || st == MST_ERR_STORE_ENDED);
        st = mst_store_set(m->a, "k", "v", 1);
        assert_true(st == MST_ERR_STORE_LOST || st == MST_ERR_STORE_ENDED);
    }
    mst_store_free(member);
    mst_store_free(m->a);
    m->a = open_member(m);
    for (int i = 0; i < 5; i++) put(m->a, "other", "v");
    assert_false(has_key(m->a, "dead"));
    assert_false(has_key(m->a, "k"));
}

static void *free_store(void *store) {
    mst_store_free(store);
    return NULL;
}

/* A rank that comes late reads in the store why its world has failed. */
static void a_lingering_store_serves_late_clients(void **state) {
    struct members *m = *state;
    put(m->a, "why", "rank 1 died");
    assert_ok(set_on_disconnect(m->host, "closing", "yes"));
    m->host->linger_ms = CALL_LIMIT_MS;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", mst_store_port(m->host));
    pthread_t thread = start_thread(free_store, m->host);
    m->host = NULL;
    assert_get(m->a, "closing", "yes"); /* waits until the host closes it */
    mst_store *late;
    assert_ok(mst_store_open(url, &late, .timeout_ms = CALL_LIMIT_MS));
    assert_get(late, "why", "rank 1 died");
    mst_store_free(late);
    mst_store_free(m->a);
    mst_store_free(m->b);
    m->a = m->b = NULL;
    join_thread(thread); /* the last client has left, so the host does not wait any longer */
}

int main(void) {
#define over_both(test)                                                                                      \
    {#test " (tcp)", test, open_tcp, close_members, NULL}, {                                                 \
#test " (file)", test, open_file, close_members, NULL                                                \
    }
    const struct CMUnitTest tests[] = {
        over_both(closing_without_removing_the_value_applies_it),
        over_both(a_removed_value_is_not_applied),
        over_both(the_last_value_counts),
        over_both(a_guard_does_not_end_what_need_not_wait),
        over_both(a_guard_holds_for_one_wait_only),
        over_both(a_killed_process_is_noticed),
        over_both(a_cancelled_call_does_not_apply_the_value),
        over_both(a_value_is_removed_while_other_threads_wait),
        over_both(values_and_guards_stay_inside_a_prefix),
        cmocka_unit_test_setup_teardown(a_client_does_not_move_to_the_next_server, open_tcp, close_members),
        cmocka_unit_test_setup_teardown(a_lingering_store_serves_late_clients, open_tcp, close_members),
    };
    setenv("MUSTER_STORE_LINGER_MS", "1000", 1);
    alarm(110);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
