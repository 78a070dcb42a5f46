/* test_gate.c - the entrance of a server: members get in, strangers do not, and are limited. */
#include "harness.h"

#include "auth/gate.h"
#include "os/clock.h"
#include "os/socket.h"

#include <arpa/inet.h>
#include <muster/status.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_MS = 50000, CROWD = 300, FLOOD = 3000, FLOOD_MS = 6000 };

static struct msi_gate *gate;
static int listening, port, admitted, last = -1, scarcities;
static bool raw;

static void admit(void *context, struct msi_stream stream, const uint8_t bytes[MSI_AUTH_CONTEXT_BYTES]) {
    (void)context;
    admitted++;
    raw = !bytes;
    if (last >= 0) close(last);
    last = stream.fd;
}

static bool count_scarcity(void *context, int fd, int error) {
    (void)context;
    (void)fd;
    (void)error;
    scarcities++;
    return false;
}

static void open_gate(bool open) {
    struct msi_address address = {.host = "0.0.0.0"};
    struct msi_gate_config config = {
        .role = MSI_ROLE_STORE, .open = open, .admit = admit, .scarce = count_scarcity};
    admitted = scarcities = 0;
    assert_ok(msi_listen(&address, &listening, &port));
    assert_ok(msi_gate_open(&config, &gate));
    assert_ok(msi_gate_listen(gate, listening));
}

static void close_gate(void) {
    msi_gate_close(gate);
    close(listening);
    if (last >= 0) close(last);
    last = -1;
}

/* A connection from 127.0.0.SOURCE. */
static int connect_from(int source) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x7F000000u + (unsigned)source)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_true(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    return fd;
}

/* Polls as an owner does; true if the gate had work. */
static bool turn(int ms) {
    struct pollfd ask = {.fd = msi_gate_fd(gate), .events = POLLIN};
    bool ready = poll(&ask, 1, ms) == 1;
    if (ready) msi_gate_progress(gate);
    return ready;
}

/* A member connects from that address; returns the milliseconds that it took. */
static double join_from(int source) {
    struct msi_auth_conn conn = {0};
    int fd = connect_from(source), before = admitted;
    int64_t begin = msi_now();
    struct pollfd ask = {.fd = fd, .events = POLLOUT};
    while (poll(&ask, 1, 0) == 0) turn(1);
    msi_auth_begin(&conn, NULL, fd, false, MSI_ROLE_STORE, NULL);
    while (msi_auth_progress(&conn) == MSI_AUTH_PENDING) {
        turn(1);
        assert_true(ms_since(begin) < LIMIT_MS);
    }
    assert_int_equal(conn.handshake.state, MSI_AUTH_DONE);
    assert_int_equal(admitted, before + 1);
    assert_false(raw);
    close(fd);
    return (double)(msi_now() - begin) / 1e6;
}

static bool is_closed(int fd) {
    char byte;
    ssize_t n = msi_recv(fd, &byte, 1);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static void members_get_past_a_crowd(void **state) {
    (void)state;
    int fds[CROWD];
    open_gate(false);
    for (int i = 0; i < CROWD; i++) fds[i] = connect_from(2);
    join_from(2); /* behind the crowd, from the same address */
    join_from(3);
    assert_int_equal(admitted, 2);
    assert_true(msi_gate_refused(gate) >= CROWD - MSI_GATE_SLOTS);
    assert_true(is_closed(fds[0]) && !is_closed(fds[CROWD - 1]));
    for (int i = 0; i < CROWD; i++) close(fds[i]);
    close_gate();
}

/* Can this process have so many connections, and the listening socket so many that wait? */
static bool may_flood(void) {
    struct rlimit files;
    int backlog = 0;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
    bool known = file && fscanf(file, "%d", &backlog) == 1;
    if (file) fclose(file);
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_max < FLOOD + 200 || !known || backlog < FLOOD + 200)
        return false;
    if (files.rlim_cur < FLOOD + 200) files.rlim_cur = FLOOD + 200;
    return !setrlimit(RLIMIT_NOFILE, &files);
}

/* All of a hello, or half of it, and nothing more. */
static void say_hello(int fd, bool half) {
    struct msi_auth_conn conn = {0};
    struct pollfd ask = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&ask, 1, LIMIT_MS), 1);
    msi_auth_begin(&conn, NULL, fd, false, MSI_ROLE_STORE, NULL);
    if (half)
        assert_int_equal(msi_send(fd, conn.handshake.hello, MSI_AUTH_HELLO / 2), MSI_AUTH_HELLO / 2);
    else
        assert_int_equal(msi_auth_progress(&conn), MSI_AUTH_PENDING);
}

/* They wait before the member, and each of them could keep its slot for 250 ms: 12 seconds in all. */
static void members_get_past_a_flood(void **state) {
    (void)state;
    static int fds[FLOOD];
    if (!may_flood()) skip();
    open_gate(false);
    for (int i = 0; i < FLOOD; i++) say_hello(fds[i] = connect_from(2), i % 8 == 0);
    double took = join_from(3);
    print_message("a member behind %d strangers waited %.0f ms\n", FLOOD, took);
    assert_true(took < FLOOD_MS);
    for (int i = 0; i < FLOOD; i++) close(fds[i]);
    close_gate();
}

/* The gate does not report work while nothing can be done. */
static void a_full_gate_does_not_spin(void **state) {
    (void)state;
    int fds[2 * MSI_GATE_SLOTS], turns = 0;
    open_gate(false);
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = connect_from(2);
        assert_int_equal(msi_send(fds[i], "\xA5muster", 7), 7); /* the beginning of a hello */
    }
    int64_t begin = msi_now();
    while (ms_since(begin) < 200) turns += turn(10);
    assert_true(turns < 40);
    for (size_t i = 0; i < COUNT_OF(fds); i++) close(fds[i]);
    close_gate();
}

static void silent_connections_end(void **state) {
    (void)state;
    open_gate(false);
    msi_gate_set_stall(gate, 50);
    int fd = connect_from(2);
    int64_t begin = msi_now();
    while (!is_closed(fd)) {
        turn(1000);
        assert_true(ms_since(begin) < LIMIT_MS);
    }
    assert_int_equal(msi_gate_refused(gate), 1);
    close(fd);
    close_gate();
}

static void an_open_gate_takes_both(void **state) {
    (void)state;
    open_gate(true);
    join_from(2);
    int fd = connect_from(2), silent = connect_from(2);
    char byte = 0;
    while (admitted < 2) {
        (void)!msi_send(fd, "x", 1);
        turn(10);
    }
    assert_true(raw);
    assert_int_equal(msi_recv(last, &byte, 1), 1); /* nothing was consumed */
    assert_int_equal(byte, 'x');
    msi_gate_set_stall(gate, 20);
    while (admitted < 3) turn(1000); /* one that says nothing may be a client of PyTorch */
    assert_true(raw);
    close(fd);
    close(silent);
    close_gate();
}

static void without_descriptors_strangers_leave(void **state) {
    (void)state;
    struct rlimit usual, few;
    open_gate(false);
    int stranger = connect_from(2), fd = connect_from(3), spare[256], n = 0;
    while (turn(50)) {
    }
    assert_int_equal(msi_gate_refused(gate), 0);
    int waiting = connect_from(4);
    getrlimit(RLIMIT_NOFILE, &usual);
    few = (struct rlimit){(rlim_t)waiting + 4, usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (n < 256 && (spare[n] = dup(waiting)) >= 0) n++;
    struct pollfd ask = {.fd = msi_gate_fd(gate), .events = POLLIN};
    assert_int_equal(poll(&ask, 1, LIMIT_MS), 1);
    turn(1000);
    setrlimit(RLIMIT_NOFILE, &usual);
    assert_int_equal(scarcities, 0);
    assert_int_equal(msi_gate_refused(gate), 1);
    assert_true(is_closed(stranger) && !is_closed(fd) && !is_closed(waiting));
    while (n > 0) close(spare[--n]);
    close(stranger);
    close(fd);
    close(waiting);
    close_gate();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_get_past_a_crowd),  cmocka_unit_test(members_get_past_a_flood),
        cmocka_unit_test(a_full_gate_does_not_spin), cmocka_unit_test(silent_connections_end),
        cmocka_unit_test(an_open_gate_takes_both),   cmocka_unit_test(without_descriptors_strangers_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
