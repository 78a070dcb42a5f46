/* test_server_waits.c - the server's clients that wait: what they send meanwhile, and calling a wait off. */
#include "server_kit.h"

static struct served server;

static int start(void **state) {
    (void)state;
    server = SERVE("MUSTER_STORE_STALL_MS", "5000");
    return 0;
}

static int stop(void **state) {
    (void)state;
    end_server(&server);
    return 0;
}

static void put_wait(struct msi_buf *out, const char *key) {
    struct msi_str name = msi_cstr(key);
    put_request(out, (struct msi_store_req){.op = MSI_OP_WAIT, .n = 1, .keys = &name});
}

static void put_op(struct msi_buf *out, enum msi_store_op op, const char *key, const char *value) {
    put_request(out, (struct msi_store_req){.op = op, .key = msi_cstr(key), .value = msi_cstr(value)});
}

static void put_ping(struct msi_buf *out, uint32_t nonce) {
    put_request(out, (struct msi_store_req){.op = MSI_OP_PING, .number = nonce});
}

/* Raw clients' keys have a slash in front, as the handle's get. */
static void set_by_good_client(const char *key) {
    assert_ok(mst_store_set(server.good, key, "v", 1));
}

static void what_is_sent_behind_a_wait_stands_behind_it(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    put_wait(&out, "/late");
    put_op(&out, MSI_OP_SET, "/x", "xx");
    put_op(&out, MSI_OP_GET, "/x", "");
    put_ping(&out, 0x64636261);
    send_buf(fd, &out);
    assert_serves_others(&server);
    bool ready = true;
    const char *x = "x";
    assert_ok(mst_store_check(server.good, &x, 1, &ready));
    assert_false(ready);
    assert_quiet(fd);
    set_by_good_client("late");
    receive(fd, "\0\2\0\0\0\0\0\0\0xxabcd");
    close(fd);
}

static void waits_in_a_row(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    for (int i = 0; i < 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "/r%d", i);
        put_wait(&out, key);
        put_ping(&out, (uint32_t)i);
    }
    send_buf(fd, &out);
    set_by_good_client("r2");
    set_by_good_client("r0");
    receive(fd, "\0\0\0\0\0");
    assert_serves_others(&server);
    assert_quiet(fd);
    set_by_good_client("r1");
    receive(fd, "\0\1\0\0\0\0\2\0\0\0");
    close(fd);
}

static void a_wait_is_called_off(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    for (int i = 0; i < 3; i++) {
        put_wait(&out, "/never");
        send_buf(fd, &out);
        assert_serves_others(&server);
        assert_quiet(fd);
        send_bytes(fd, "\14", 1);
        receive(fd, "\1");
    }
    put_ping(&out, 7);
    send_buf(fd, &out);
    receive(fd, "\7\0\0\0");
    set_by_good_client("never"); /* nobody waits for it any more */
    assert_serves_others(&server);
    assert_quiet(fd);
    close(fd);
}

/* Both may arrive in one piece, when the server was busy or the network joined them. */
static void a_wait_and_its_end_in_one_piece(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    put_wait(&out, "/nokey");
    msi_buf_add_u8(&out, 12);
    send_buf(fd, &out);
    receive(fd, "\1");
    put_wait(&out, "/nokey");
    msi_buf_add_u8(&out, 12);
    put_wait(&out, "/nokey");
    msi_buf_add_u8(&out, 12);
    put_ping(&out, 9);
    send_buf(fd, &out);
    receive(fd, "\1\1\11\0\0\0");
    close(fd);
}

static void an_end_behind_the_next_wait_in_one_piece(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    put_wait(&out, "/first");
    put_wait(&out, "/nokey");
    msi_buf_add_u8(&out, 12);
    send_buf(fd, &out);
    assert_serves_others(&server);
    set_by_good_client("first");
    receive(fd, "\0\1");
    close(fd);
}

static void an_end_that_crosses_the_answer(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    set_by_good_client("there");
    put_wait(&out, "/there");
    msi_buf_add_u8(&out, 12);
    send_buf(fd, &out);
    receive(fd, "\0\1"); /* a PyTorch client reads the 0, then expects the 1 */
    put_wait(&out, "/soon");
    send_buf(fd, &out);
    set_by_good_client("soon");
    receive(fd, "\0");
    send_bytes(fd, "\14", 1);
    receive(fd, "\1");
    close(fd);
}

static void a_barrier_is_called_off_but_counts(void **state) {
    (void)state;
    struct msi_buf out = {0};
    int fd = connect_c(&server);
    put_request(&out, (struct msi_store_req){.op = MSI_OP_BARRIER, .key = msi_cstr("/b"), .number = 2});
    send_buf(fd, &out);
    assert_serves_others(&server);
    send_bytes(fd, "\14", 1);
    receive(fd, "\1");
    put_request(&out, (struct msi_store_req){.op = MSI_OP_BARRIER, .key = msi_cstr("/b"), .number = 2});
    send_buf(fd, &out);
    receive(fd, "\0");
    close(fd);
}

/* A dialect A client cannot call a wait off: after its time-out it just sends the next request. */
static void an_old_client_goes_on_after_its_time_out(void **state) {
    (void)state;
    int fd = connect_raw(&server);
    send_bytes(fd, "\5\1\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0/nokey", 23);
    assert_serves_others(&server);
    send_bytes(fd, "\3\2\0\0\0\0\0\0\0/n\5\0\0\0\0\0\0\0", 19);
    receive(fd, "\5\0\0\0\0\0\0\0");
    set_by_good_client("nokey");
    assert_serves_others(&server);
    assert_quiet(fd);
    close(fd);
}

static void a_waiting_client_that_floods_is_held_back_and_then_served(void **state) {
    (void)state;
    enum { N = 40000 };
    struct msi_buf out = {0};
    int fd = connect_c(&server), sent = 0;
    put_wait(&out, "/flood");
    send_buf(fd, &out);
    for (int i = 0; i < N; i++)
        put_request(&out, (struct msi_store_req){.op = MSI_OP_ADD, .key = msi_cstr("/n"), .number = 1});
    size_t done = 0;
    while (done < out.len) { /* as much as the sockets between us take */
        ssize_t n = send(fd, out.data + done, out.len - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) break;
        done += (size_t)n;
    }
    sent = (int)(done / 19);
    assert_serves_others(&server);
    set_by_good_client("flood");
    receive(fd, "\0");
    for (int i = 0; i < sent; i++) {
        int64_t number = 0;
        assert_int_equal(recv(fd, &number, 8, MSG_WAITALL), 8);
        assert_int_equal(number, i + 1);
    }
    msi_buf_free(&out);
    close(fd);
}

static void waiting_clients_that_vanish_leave_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct msi_buf out = {0};
        int fd = connect_c(&server);
        put_wait(&out, "/vanish");
        if (i % 2) msi_buf_add(&out, "\15abc", 4);
        send_buf(fd, &out);
        if (i % 3 == 0) shutdown(fd, SHUT_WR);
        close(fd);
    }
    assert_serves_others(&server);
    set_by_good_client("vanish");
    assert_serves_others(&server);
}

static void a_thousand_clients_wait_for_one_key(void **state) {
    (void)state;
    enum { N = 900 };
    int fds[N];
    for (int i = 0; i < N; i++) {
        struct msi_buf out = {0};
        fds[i] = connect_c(&server);
        put_wait(&out, "/one");
        send_buf(fds[i], &out);
    }
    assert_serves_others(&server);
    set_by_good_client("one");
    for (int i = 0; i < N; i++) {
        receive(fds[i], "\0");
        close(fds[i]);
    }
}

static mst_store *open_fresh(void) {
    char url[64];
    mst_store *handle;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", server.port);
    assert_ok(mst_store_open(url, &handle, .timeout_ms = REPLY_LIMIT_MS));
    return handle;
}

static void stand_still(void) {
    int status;
    kill(server.pid, SIGSTOP);
    assert_int_equal(waitpid(server.pid, &status, WUNTRACED), server.pid);
    assert_true(WIFSTOPPED(status));
}

/* The answer to a call that timed out comes later, and must not be taken for another's. */
static void a_handle_is_in_step_after_the_server_stood_still(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        char key[32];
        mst_store *handle = open_fresh();
        int64_t n = 0;
        snprintf(key, sizeof key, "step/%d", i);
        if (i % 2) assert_ok(mst_store_set(handle, "used before", "v", 1));
        stand_still();
        mst_status st = mst_store_add(handle, "other", 77, &n, .timeout_ms = 50);
        kill(server.pid, SIGCONT);
        assert_status(st, MST_ERR_TIMEOUT);
        for (int k = 1; k < 5; k++) {
            assert_ok(mst_store_add(handle, key, 1, &n));
            assert_int_equal(n, k);
        }
        mst_store_free(handle);
    }
}

static void a_wait_ends_near_its_deadline_though_the_server_stands_still(void **state) {
    (void)state;
    const char *never = "never";
    for (int i = 0; i < 2; i++) {
        mst_store *handle = open_fresh();
        int64_t n = 0;
        if (i) assert_ok(mst_store_set(handle, "used before", "v", 1));
        stand_still();
        int64_t begin = msi_now();
        mst_status st = mst_store_wait(handle, &never, 1, .timeout_ms = 100);
        int64_t took = ms_since(begin);
        kill(server.pid, SIGCONT);
        assert_status(st, MST_ERR_TIMEOUT);
        assert_in_range(took, 99, 2000);
        assert_ok(mst_store_add(handle, "n", 1, &n));
        assert_int_equal(n, i + 1);
        mst_store_free(handle);
    }
}

int main(void) {
    alarm(110);
#define with_server(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        with_server(what_is_sent_behind_a_wait_stands_behind_it),
        with_server(waits_in_a_row),
        with_server(a_wait_is_called_off),
        with_server(a_wait_and_its_end_in_one_piece),
        with_server(an_end_behind_the_next_wait_in_one_piece),
        with_server(an_end_that_crosses_the_answer),
        with_server(a_barrier_is_called_off_but_counts),
        with_server(an_old_client_goes_on_after_its_time_out),
        with_server(a_waiting_client_that_floods_is_held_back_and_then_served),
        with_server(waiting_clients_that_vanish_leave_nothing),
        with_server(a_thousand_clients_wait_for_one_key),
        with_server(a_handle_is_in_step_after_the_server_stood_still),
        with_server(a_wait_ends_near_its_deadline_though_the_server_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
