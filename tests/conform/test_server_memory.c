/*
 * test_server_memory.c - clients that try to use up the store server's memory or descriptors. What it holds
 * is bounded by MUSTER_STORE_MAX_TOTAL, whatever they do, and others are served all the while.
 */
#include "server_kit.h"

enum { MIB = 1 << 20, PEAK_KB = 330 << 10 }; /* the peak leaves room for what sanitizers keep aside */

static struct served server;

static int start(void **state) {
    (void)state;
    server = SERVE("MUSTER_STORE_STALL_MS", "1000", "MUSTER_STORE_MAX_TOTAL", "16M", "MUSTER_STORE_MAX_VALUE",
                   "2M");
    return 0;
}

static int stop(void **state) {
    (void)state;
    end_server(&server);
    return 0;
}

static void store_block(const char *key, size_t n) {
    char *block = calloc(1, n);
    assert_non_null(block);
    memset(block, 'x', n);
    assert_ok(mst_store_set(server.good, key, block, n));
    free(block);
}

/* Sends until the server takes no more, or ends it; how many bytes went. */
static size_t send_all_it_takes(int fd, const struct msi_buf *out, size_t times) {
    size_t sent = 0;
    for (size_t i = 0; i < times; i++)
        for (size_t done = 0; done < out->len;) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            if (poll(&p, 1, 200) != 1) return sent;
            ssize_t n = send(fd, out->data + done, out->len - done, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0) return sent;
            done += (size_t)n;
            sent += (size_t)n;
        }
    return sent;
}

static void a_client_that_never_reads_its_replies(void **state) {
    (void)state;
    struct msi_buf out = {0};
    store_block("big", MIB);
    int fd = connect_c(&server);
    for (int i = 0; i < 1000; i++)
        put_request(&out, (struct msi_store_req){.op = MSI_OP_GET, .key = msi_cstr("/big")});
    send_all_it_takes(fd, &out, 100); /* asks for 100 GiB */
    assert_serves_others(&server);
    assert_logged(&server, "it does not read its replies");
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) < PEAK_KB);
    msi_buf_free(&out);
    close(fd);
}

static void a_client_that_reads_late_gets_everything_in_order(void **state) {
    (void)state;
    enum { N = 60 };
    struct msi_buf out = {0};
    char *got = malloc(MIB + 8);
    assert_non_null(got);
    store_block("big", MIB);
    int fd = connect_c(&server);
    for (uint32_t i = 0; i < N; i++) {
        put_request(&out, (struct msi_store_req){.op = MSI_OP_GET, .key = msi_cstr("/big")});
        put_request(&out, (struct msi_store_req){.op = MSI_OP_PING, .number = i});
    }
    send_buf(fd, &out);
    assert_serves_others(&server);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t nonce = 0;
        assert_int_equal(recv(fd, got, MIB + 8, MSG_WAITALL), MIB + 8);
        assert_memory_equal(got, "\0\0\20\0\0\0\0\0x", 9);
        assert_int_equal(got[MIB + 7], 'x');
        assert_int_equal(recv(fd, &nonce, 4, MSG_WAITALL), 4);
        assert_int_equal(nonce, i);
        if (i % 20 == 0) assert_serves_others(&server);
    }
    assert_true(server_peak_kb(&server) < PEAK_KB);
    free(got);
    close(fd);
}

static void a_client_that_fills_the_store(void **state) {
    (void)state;
    struct msi_buf out = {0};
    static char block[MIB];
    int fd = connect_c(&server);
    for (int i = 0; i < 64; i++) {
        char key[32];
        snprintf(key, sizeof key, "/fill%d", i);
        put_request(&out, (struct msi_store_req){
                              .op = MSI_OP_SET, .key = msi_cstr(key), .value = {block, sizeof block}});
        if (send_all_it_takes(fd, &out, 1) < out.len) break;
        out.len = 0;
    }
    msi_buf_free(&out);
    assert_ended(fd);
    assert_logged(&server, "MUSTER_STORE_MAX_TOTAL");
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) < PEAK_KB);
}

static void many_clients_that_each_send_most_of_a_message(void **state) {
    (void)state;
    enum { N = 100 };
    struct msi_buf out = {0};
    int fds[N];
    put_validate(&out);
    static char block[MIB];
    put_request(&out, (struct msi_store_req){
                          .op = MSI_OP_SET, .key = msi_cstr("/x"), .value = {block, sizeof block}});
    out.len -= 1;
    for (int i = 0; i < N; i++) {
        fds[i] = connect_raw(&server);
        send_all_it_takes(fds[i], &out, 1);
        if (i % 20 == 0) assert_serves_others(&server);
    }
    msi_buf_free(&out);
    assert_logged(&server, "the store is full");
    assert_true(server_peak_kb(&server) < PEAK_KB);
    for (int i = 0; i < N; i++) close(fds[i]);
}

static void a_length_alone_allocates_nothing(void **state) {
    (void)state;
    enum { N = 200 };
    int fds[N];
    long before = server_peak_kb(&server);
    for (int i = 0; i < N; i++) {
        fds[i] = connect_c(&server);
        send_bytes(fds[i], "\1\2\0\0\0\0\0\0\0/k\0\0\37\0\0\0\0\0", 19); /* a value of nearly 2 MiB */
    }
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) - before < 100 << 10);
    for (int i = 0; i < N; i++) close(fds[i]);
}

/* One small request must not make a reply larger than everything the server may hold. */
static void asking_for_one_value_many_times_over(void **state) {
    (void)state;
    enum { N = 700 };
    struct msi_str keys[N];
    struct msi_buf out = {0};
    store_block("big", MIB);
    for (int i = 0; i < N; i++) keys[i] = msi_cstr("/big");
    int fd = connect_c(&server);
    put_request(&out, (struct msi_store_req){.op = MSI_OP_MULTI_GET, .n = N, .keys = keys});
    send_buf(fd, &out);
    assert_serves_others(&server);
    close(fd);
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) < PEAK_KB);
}

/* Dialect A: each WATCH_KEY of one key more is another push of each change. */
static void watching_one_key_many_times_over(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_raw(&server);
    for (int i = 0; i < 700; i++) {
        msi_buf_add_u8(&out, 7);
        msi_put_str(&out, msi_cstr("/big"));
    }
    send_buf(fd, &out);
    for (int i = 0; i < 700; i++) {
        char byte = 0;
        if (recv(fd, &byte, 1, 0) != 1) break;
        assert_int_equal(byte, 3);
    }
    store_block("big", MIB);
    assert_serves_others(&server);
    close(fd);
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) < PEAK_KB);
}

/* Opens n connections that each send the same and read one reply of a byte; -1 where nothing is to be
 * read. */
static void connect_many(int *fds, int n, const struct msi_buf *out, int reply) {
    for (int i = 0; i < n; i++) {
        char byte = 0;
        fds[i] = connect_raw(&server);
        send_bytes(fds[i], out->data, out->len);
        if (reply < 0) continue;
        assert_int_equal(recv(fds[i], &byte, 1, 0), 1);
        assert_int_equal(byte, reply);
    }
}

static void many_clients_watching_one_large_value(void **state) {
    (void)state;
    enum { N = 600 };
    int fds[N];
    struct msi_buf out = {0};
    msi_buf_add_u8(&out, 7);
    msi_put_str(&out, msi_cstr("/big"));
    connect_many(fds, N, &out, 3);
    msi_buf_free(&out);
    store_block("big", MIB);
    assert_serves_others(&server);
    for (int i = 0; i < N; i++) close(fds[i]);
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) < PEAK_KB);
}

/* WAIT_GET, as our clients' get: all are answered in the round in which the key comes. */
static void many_clients_waiting_for_one_large_value(void **state) {
    (void)state;
    enum { N = 600 };
    int fds[N];
    struct msi_buf out = {0};
    struct msi_str key = msi_cstr("/big");
    struct msi_store_req req = {.op = MSI_OP_WAIT_GET, .n = 1, .keys = &key};
    put_validate(&out);
    put_request(&out, (struct msi_store_req){.op = MSI_OP_HELLO});
    assert_true(msi_store_encode(&out, MSI_DIALECT_M, &req));
    connect_many(fds, N, &out, -1);
    msi_buf_free(&out);
    assert_serves_others(&server);
    store_block("big", MIB);
    assert_serves_others(&server);
    for (int i = 0; i < N; i++) close(fds[i]);
    assert_serves_others(&server);
    assert_true(server_peak_kb(&server) < PEAK_KB);
}

/* Reads and forgets replies as long as they come. */
static void drain(int fd) {
    char bytes[65536];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}

static void watching_ever_more_keys(void **state) {
    (void)state;
    struct msi_buf out = {0};
    static char name[8000];
    int fd = connect_raw(&server);
    memset(name, 'w', sizeof name);
    msi_buf_add_u8(&out, 7);
    msi_put_str(&out, msi_str(name, sizeof name));
    for (int i = 0; i < 60; i++) { /* 480 MB of names */
        if (send_all_it_takes(fd, &out, 1000) < 1000 * out.len) break;
        drain(fd);
        if (i % 10 == 0) assert_serves_others(&server);
    }
    msi_buf_free(&out);
    close(fd);
    assert_true(server_peak_kb(&server) < PEAK_KB);
}

/* on_disconnect values count as memory of their connection: the server refuses them at the limit. */
static void large_on_disconnect_values(void **state) {
    (void)state;
    enum { N = 350 };
    struct msi_buf out = {0};
    static char block[MIB];
    int fds[N], kept = 0;
    bool taken[N];
    put_validate(&out);
    put_request(&out, (struct msi_store_req){.op = MSI_OP_HELLO});
    struct msi_store_req req = {
        .op = MSI_OP_ON_DISCONNECT, .key = msi_cstr("/gone"), .value = {block, sizeof block}};
    assert_true(msi_store_encode(&out, MSI_DIALECT_M, &req));
    for (int i = 0; i < N; i++) {
        char reply[10]; /* to HELLO: a status and an i64; to ON_DISCONNECT: a status */
        memset(reply, 1, sizeof reply);
        fds[i] = connect_raw(&server);
        send_all_it_takes(fds[i], &out, 1);
        taken[i] = recv(fds[i], reply, sizeof reply, MSG_WAITALL) == sizeof reply && reply[9] == MST_OK;
    }
    msi_buf_free(&out);
    assert_serves_others(&server);
    for (int i = 0; i < N; i++) {
        char byte;
        kept += taken[i] && recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
        close(fds[i]);
    }
    assert_true(kept <= 16);
}

static void more_clients_than_descriptors(void **state) {
    (void)state;
    enum { N = 120 };
    int fds[N], turned_away = 0;
    end_server(&server);
    server = serve((const char *const[]){NULL, NULL}, 64);
    for (int i = 0; i < N; i++) fds[i] = connect_raw(&server);
    assert_logged(&server, "out of descriptors");
    assert_serves_others(&server);
    for (int i = 0; i < N; i++) {
        char byte;
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        if (poll(&p, 1, i ? 0 : 500) == 1 && recv(fds[i], &byte, 1, MSG_DONTWAIT) <= 0) turned_away++;
    }
    assert_in_range(turned_away, N - 64, N - 30);
    for (int i = 0; i < N; i++) close(fds[i]);
    int64_t limit = msi_deadline(REPLY_LIMIT_MS);
    for (bool in = false; !in;) { /* and once they have gone, others get in again */
        char reply[4];
        int fd = connect_c(&server);
        send(fd, "\15abcd", 5, MSG_NOSIGNAL);
        in = recv(fd, reply, 4, MSG_WAITALL) == 4 && !memcmp(reply, "abcd", 4);
        close(fd);
        assert_true(in || msi_now() < limit);
    }
}

int main(void) {
    alarm(115);
    signal(SIGPIPE, SIG_IGN);
#define with_server(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        with_server(a_client_that_never_reads_its_replies),
        with_server(a_client_that_reads_late_gets_everything_in_order),
        with_server(a_client_that_fills_the_store),
        with_server(many_clients_that_each_send_most_of_a_message),
        with_server(a_length_alone_allocates_nothing),
        with_server(asking_for_one_value_many_times_over),
        with_server(watching_one_key_many_times_over),
        with_server(many_clients_watching_one_large_value),
        with_server(many_clients_waiting_for_one_large_value),
        with_server(watching_ever_more_keys),
        with_server(large_on_disconnect_values),
        with_server(more_clients_than_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
