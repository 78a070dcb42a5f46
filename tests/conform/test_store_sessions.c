/*
 * test_store_sessions.c - a client of the tcp store whose connections are reset. It connects again, and its
 * requests are executed once. The client reaches the server through a proxy that resets its connections.
 */
#include "store_kit.h"

#include "os/socket.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { PAIRS = 16, TIMEOUT_S = 3 };

/* One connection through the proxy. Side 0 is the client's, 1 the server's. */
struct pair {
    int fds[2];
    bool ended[2];
};

struct proxy {
    struct msi_address to;
    int listener, port, wake[2];
    pthread_t thread;
    struct pair pairs[PAIRS];
    pthread_mutex_t lock; /* of what follows */
    long left[2];         /* bytes from a side until all connections are reset; -1: no limit */
    bool reset_now, refuse, stop, close_server;
    int resets;
};

/* close_server: the server gets an end of file instead of a reset. */
static void reset_pair(struct pair *pair, bool close_server) {
    struct linger reset = {.l_onoff = 1};
    for (int side = 0; side < 2; side++) {
        if (pair->fds[side] < 0) continue;
        if (side == 1 && close_server) shutdown(pair->fds[side], SHUT_WR);
        setsockopt(pair->fds[side], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(pair->fds[side]);
        pair->fds[side] = -1;
    }
    pair->ended[0] = pair->ended[1] = false;
}

static void reset_all(struct proxy *proxy) {
    int before = proxy->resets;
    for (int i = 0; i < PAIRS; i++) {
        proxy->resets += proxy->pairs[i].fds[0] >= 0;
        reset_pair(&proxy->pairs[i], proxy->close_server);
    }
    if (proxy->resets == before) return; /* reset the next one */
    proxy->left[0] = proxy->left[1] = -1;
    proxy->reset_now = false;
}

static void accept_pair(struct proxy *proxy) {
    struct msi_wait wait = {msi_deadline(CALL_LIMIT_MS), NULL};
    int fd = accept4(proxy->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), i = 0;
    if (fd < 0) return;
    while (i < PAIRS && proxy->pairs[i].fds[0] >= 0) i++;
    if (i == PAIRS || proxy->refuse ||
        msi_connect(&proxy->to, false, &wait, &proxy->pairs[i].fds[1]) != MST_OK)
        close(fd);
    else
        proxy->pairs[i].fds[0] = fd;
}

/* Forwards bytes from one side, as many as the limit allows. An end of file is forwarded, too. */
static void forward(struct proxy *proxy, struct pair *pair, int side) {
    char bytes[4096];
    size_t most = sizeof bytes;
    if (proxy->left[side] >= 0 && (size_t)proxy->left[side] < most) most = (size_t)proxy->left[side];
    ssize_t n = most ? recv(pair->fds[side], bytes, most, 0) : 0;
    if (most && n == 0) {
        shutdown(pair->fds[!side], SHUT_WR);
        pair->ended[side] = true;
        if (pair->ended[!side]) reset_pair(pair, true);
        return;
    }
    if (n > 0) send(pair->fds[!side], bytes, (size_t)n, MSG_NOSIGNAL);
    if (proxy->left[side] >= 0 && n > 0) proxy->left[side] -= n;
    if (proxy->left[side] == 0) proxy->reset_now = true;
}

static void *serve_proxy(void *context) {
    struct proxy *proxy = context;
    for (bool stop = false; !stop;) {
        struct pollfd fds[2 + 2 * PAIRS] = {{proxy->wake[0], POLLIN, 0}, {proxy->listener, POLLIN, 0}};
        for (int i = 0; i < 2 * PAIRS; i++) {
            const struct pair *pair = &proxy->pairs[i / 2];
            fds[2 + i] = (struct pollfd){pair->ended[i % 2] ? -1 : pair->fds[i % 2], POLLIN, 0};
        }
        poll(fds, COUNT_OF(fds), -1);
        pthread_mutex_lock(&proxy->lock);
        char byte;
        if (fds[0].revents && read(proxy->wake[0], &byte, 1) == 1) stop = proxy->stop;
        for (int i = 0; i < 2 * PAIRS && !proxy->reset_now; i++)
            if (fds[2 + i].revents && proxy->pairs[i / 2].fds[i % 2] >= 0)
                forward(proxy, &proxy->pairs[i / 2], i % 2);
        if (proxy->reset_now) reset_all(proxy);
        if (fds[1].revents) accept_pair(proxy);
        pthread_mutex_unlock(&proxy->lock);
    }
    return NULL;
}

/* Sets what the proxy does next, under its lock, and wakes it. */
static void order(struct proxy *proxy, long up, long down, bool reset_now, bool refuse) {
    pthread_mutex_lock(&proxy->lock);
    proxy->left[0] = up;
    proxy->left[1] = down;
    proxy->reset_now = reset_now;
    proxy->refuse = refuse;
    pthread_mutex_unlock(&proxy->lock);
    assert_int_equal(write(proxy->wake[1], "x", 1), 1);
}

static int count_resets(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->lock);
    int n = proxy->resets;
    pthread_mutex_unlock(&proxy->lock);
    return n;
}

/* Resets all connections, and returns after that. */
static void reset_connections(struct proxy *proxy, bool refuse) {
    int before = count_resets(proxy);
    order(proxy, -1, -1, true, refuse);
    int64_t limit = msi_deadline(CALL_LIMIT_MS);
    while (count_resets(proxy) == before && msi_now() < limit) sched_yield();
    assert_true(count_resets(proxy) > before);
}

struct setup {
    mst_store *host, *near, *far; /* far goes through the proxy */
    struct proxy proxy;
};

static int open_setup(void **state) {
    struct setup *s = calloc(1, sizeof *s);
    struct msi_address here = {"127.0.0.1", 0};
    char url[64];
    setenv("MUSTER_TCP_TIMEOUT_S", "3", 1);
    setenv("MUSTER_AUTH_ADDRESSES", "0", 1); /* the proxy changes them */
    assert_ok(mst_store_open("tcp://127.0.0.1:0", &s->host, .is_master = true, .timeout_ms = CALL_LIMIT_MS));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", mst_store_port(s->host));
    assert_ok(mst_store_open(url, &s->near, .timeout_ms = CALL_LIMIT_MS));
    struct proxy *proxy = &s->proxy;
    proxy->to = (struct msi_address){"127.0.0.1", mst_store_port(s->host)};
    proxy->left[0] = proxy->left[1] = -1;
    for (int i = 0; i < PAIRS; i++) proxy->pairs[i].fds[0] = proxy->pairs[i].fds[1] = -1;
    pthread_mutex_init(&proxy->lock, NULL);
    assert_ok(msi_listen(&here, &proxy->listener, &proxy->port));
    assert_int_equal(pipe(proxy->wake), 0);
    proxy->thread = start_thread(serve_proxy, proxy);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", proxy->port);
    assert_ok(mst_store_open(url, &s->far, .timeout_ms = CALL_LIMIT_MS));
    *state = s;
    return 0;
}

static int close_setup(void **state) {
    struct setup *s = *state;
    struct proxy *proxy = &s->proxy;
    mst_store_free(s->far);
    pthread_mutex_lock(&proxy->lock);
    proxy->stop = true;
    pthread_mutex_unlock(&proxy->lock);
    order(proxy, -1, -1, true, false);
    join_thread(proxy->thread);
    close(proxy->listener);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    mst_store_free(s->near);
    mst_store_free(s->host);
    free(s);
    unsetenv("MUSTER_TCP_TIMEOUT_S");
    return 0;
}

/* Executes requests that must not be executed twice, and checks their replies. */
static void run_batch(struct setup *s, int i) {
    char before[16] = "", after[16];
    struct msi_wait wait = {msi_deadline(CALL_LIMIT_MS), NULL};
    if (i > 1) snprintf(before, sizeof before, "%d", i - 1);
    snprintf(after, sizeof after, "%d", i);
    struct msi_str cell = msi_cstr("cell");
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_ADD, .key = msi_cstr("sum"), .number = 1}},
        {.req = {.op = MSI_OP_APPEND, .key = msi_cstr("log"), .value = msi_cstr("x")}},
        {.req =
             {.op = MSI_OP_COMPARE_SET, .key = cell, .value = msi_cstr(before), .desired = msi_cstr(after)}},
        {.req = {.op = MSI_OP_QUEUE_PUSH, .key = msi_cstr("queue"), .value = msi_cstr(after)}},
        {.req = {.op = MSI_OP_QUEUE_POP, .key = msi_cstr("queue")}},
        {.req = {.op = MSI_OP_WAIT_GET, .n = 1, .keys = &cell}},
    };
    assert_ok(msi_store_exec(s->far, &wait, x, COUNT_OF(x)));
    assert_int_equal(msi_store_reply_number(&x[0]), i);
    assert_true(msi_str_equal(msi_store_reply_str(&x[2]), msi_cstr(after)));
    assert_int_equal(x[4].reply.len, 8 + 8 + strlen(after)); /* it has popped what it has pushed */
    assert_int_equal(x[5].reply.len, 8 + strlen(after));
    msi_store_rpc_free(x, COUNT_OF(x));
}

static void a_request_is_executed_once(void **state, int side) {
    struct setup *s = *state;
    int i = 0, resets = -1;
    /* Resets the connection after the first byte, the second, … until the batch ends before the reset. */
    for (long k = 0; resets != count_resets(&s->proxy); k++) {
        resets = count_resets(&s->proxy);
        order(&s->proxy, side == 0 ? k : -1, side == 1 ? k : -1, false, false);
        run_batch(s, ++i);
    }
    order(&s->proxy, -1, -1, false, false);
    assert_true(i > 50);
    mst_bytes log = {0};
    assert_ok(mst_store_get(s->near, "log", &log));
    assert_int_equal(log.len, i);
    mst_bytes_free(&log);
}

static void requests_that_are_cut_are_executed_once(void **state) {
    a_request_is_executed_once(state, 0);
}

static void requests_without_reply_are_executed_once(void **state) {
    a_request_is_executed_once(state, 1);
}

/* A middlebox may close one side and reset the other. */
static void requests_are_executed_once_if_the_server_gets_the_end_of_file(void **state) {
    struct setup *s = *state;
    pthread_mutex_lock(&s->proxy.lock);
    s->proxy.close_server = true;
    pthread_mutex_unlock(&s->proxy.lock);
    a_request_is_executed_once(state, 1);
}

struct arrival {
    mst_store *store;
    int64_t number;
    int timeout_ms;
    mst_status status;
};

static void *enter_barrier(void *context) {
    struct arrival *a = context;
    struct msi_wait wait = {msi_deadline(a->timeout_ms), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_BARRIER, .key = msi_cstr("all"), .number = a->number}};
    a->status = msi_store_exec(a->store, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return NULL;
}

/* The connection of a client is reset while it waits in a barrier: the barrier counts the client once. */
static void a_barrier_counts_once(void **state) {
    struct setup *s = *state;
    struct arrival far = {s->far, 2, CALL_LIMIT_MS, MST_OK}, near = {s->near, 2, CALL_LIMIT_MS, MST_OK};
    struct arrival first = {s->near, -1, CALL_LIMIT_MS, MST_OK}, third = {s->near, -3, 300, MST_OK};
    pthread_t thread = start_thread(enter_barrier, &far);
    enter_barrier(&first);
    assert_ok(first.status);
    for (int i = 0; i < 3; i++) reset_connections(&s->proxy, false);
    enter_barrier(&near);
    join_thread(thread);
    assert_ok(near.status);
    assert_ok(far.status);
    enter_barrier(&third);
    assert_status(third.status, MST_ERR_TIMEOUT);
}

/* The server forgets a session after some time. A client that was idle for longer begins another one. */
static void a_connection_that_was_reset_long_ago(void **state) {
    struct setup *s = *state;
    put(s->far, "k", "1");
    reset_connections(&s->proxy, false);
    const char *never = "never";
    assert_status(mst_store_wait(s->near, &never, 1, .timeout_ms = TIMEOUT_S * 1000 + 500), MST_ERR_TIMEOUT);
    run_batch(s, 1);
}

static void a_reset_does_not_apply_the_value(void **state) {
    struct setup *s = *state;
    const char *never = "never";
    assert_ok(set_on_disconnect(s->far, "dead", "rank 1"));
    for (int i = 0; i < 3; i++) {
        reset_connections(&s->proxy, false);
        run_batch(s, i + 1);
    }
    /* Longer than the grace time. */
    assert_status(mst_store_wait(s->near, &never, 1, .timeout_ms = 1500), MST_ERR_TIMEOUT);
    assert_false(has_key(s->near, "dead"));
    int64_t begin = msi_now();
    mst_store_free(s->far);
    s->far = NULL;
    assert_get(s->near, "dead", "rank 1");
    assert_true(ms_since(begin) < 1000); /* the end of file is final */
}

static void a_client_that_does_not_return_is_lost(void **state) {
    struct setup *s = *state;
    assert_ok(set_on_disconnect(s->far, "dead", "rank 1"));
    int64_t begin = msi_now();
    reset_connections(&s->proxy, true);
    assert_get(s->near, "dead", "rank 1");
    assert_in_range(ms_since(begin), 900, 3000);
    assert_status(mst_store_set(s->far, "k", "v", 1), MST_ERR_STORE_LOST);
    order(&s->proxy, -1, -1, false, false);
    assert_status(mst_store_set(s->far, "k", "v", 1), MST_ERR_STORE_LOST);
    assert_false(has_key(s->near, "k"));
}

int main(void) {
#define with_proxy(test)                                                                                     \
    { #test, test, open_setup, close_setup, NULL }
    const struct CMUnitTest tests[] = {
        with_proxy(requests_that_are_cut_are_executed_once),
        with_proxy(requests_without_reply_are_executed_once),
        with_proxy(requests_are_executed_once_if_the_server_gets_the_end_of_file),
        with_proxy(a_barrier_counts_once),
        with_proxy(a_connection_that_was_reset_long_ago),
        with_proxy(a_reset_does_not_apply_the_value),
        with_proxy(a_client_that_does_not_return_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
