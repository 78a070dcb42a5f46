/* test_link_multi_socket.c - the properties of multi-socket links; test_link.c tests them as links. */
#include "link_kit.h"

#include <poll.h>

enum { UNIT = 1000, LINKS = 4 };

static char out[40 * UNIT], in[40 * UNIT];

/* A multi-socket link on one side, its sockets on the other. */
struct half {
    struct msi_link *multi;
    int fds[LINKS];
};

static struct half open_half(void) {
    struct half half;
    struct msi_link *links[LINKS];
    for (int i = 0; i < LINKS; i++) {
        int fds[2];
        assert_true(connect_sockets("127.0.0.1", fds));
        assert_ok(msi_link_open_tcp((struct msi_stream){.fd = fds[0]}, &links[i]));
        half.fds[i] = fds[1];
    }
    assert_ok(msi_link_open_multi_socket(links, LINKS, UNIT, &half.multi));
    return half;
}

static void close_half(struct half *half) {
    close_link(half->multi);
    for (int i = 0; i < LINKS; i++)
        if (half->fds[i] >= 0) close(half->fds[i]);
}

static void read_all(int fd, char *data, size_t n) {
    struct pollfd ask = {.fd = fd, .events = POLLIN};
    for (size_t at = 0; at < n;) {
        assert_int_equal(poll(&ask, 1, LIMIT_MS), 1);
        ssize_t got = msi_recv(fd, data + at, n - at);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

/* The mapping of bytes to sockets is part of the protocol. */
static void units_go_round_the_links(void **state) {
    (void)state;
    struct half half = open_half();
    struct msi_transfer sends[3];
    static const size_t cuts[3] = {1, 2 * UNIT + 500, 8 * UNIT - 2 * UNIT - 501};
    char came[2 * UNIT];
    fill(out, 8 * UNIT, 4, 0);
    for (size_t i = 0, at = 0; i < 3; at += cuts[i++])
        msi_link_send(half.multi, &sends[i], out + at, cuts[i]);
    run_until_done(half.multi, NULL, &sends[2]);
    for (int i = 0; i < LINKS; i++) {
        read_all(half.fds[i], came, sizeof came);
        check_bytes(came, UNIT, 4, (uint64_t)i * UNIT);
        check_bytes(came + UNIT, UNIT, 4, (uint64_t)(LINKS + i) * UNIT);
    }
    close_half(&half);
}

static void bytes_that_overtake_others_wait_for_them(void **state) {
    (void)state;
    struct half half = open_half();
    struct msi_transfer first, second;
    fill(out, 2 * UNIT, 4, 0);
    msi_link_receive(half.multi, &first, in, UNIT);
    msi_link_receive(half.multi, &second, in + UNIT, UNIT);
    assert_int_equal(msi_send(half.fds[1], out + UNIT, UNIT), UNIT);
    struct pollfd ask = {.events = 0};
    ask.fd = msi_link_descriptor(half.multi, &ask.events);
    for (int i = 0; i < 1000; i++) advance(half.multi);
    assert_true(first.done == 0 && second.done == 0);
    assert_int_equal(poll(&ask, 1, 0), 0); /* no wake-up for bytes that it has */
    assert_int_equal(msi_send(half.fds[0], out, UNIT), UNIT);
    run_until_done(half.multi, NULL, &second);
    assert_true(msi_transfer_done(&first));
    check_bytes(in, 2 * UNIT, 4, 0);
    close_half(&half);
}

/* The peer has closed all sockets, but one has unread bytes. */
static void a_lost_socket_fails_the_link_when_it_is_needed(void **state) {
    (void)state;
    for (int lost = 0; lost < LINKS; lost++) {
        struct half half = open_half();
        struct msi_transfer receive, more;
        close(half.fds[lost]);
        half.fds[lost] = -1;
        fill(out, LINKS * UNIT, 4, 0);
        for (int i = 0; i < lost; i++) assert_int_equal(msi_send(half.fds[i], out + i * UNIT, UNIT), UNIT);
        msi_link_receive(half.multi, &receive, in, (size_t)lost * UNIT);
        run_until_done(half.multi, NULL, &receive);
        check_bytes(in, (size_t)lost * UNIT, 4, 0);
        msi_link_receive(half.multi, &more, in, 1);
        run_until_failed(half.multi, NULL);
        assert_status(half.multi->status, MST_ERR_PEER_LOST);
        assert_contains(half.multi->why, "127.0.0.1");
        assert_int_equal(more.done, 0);
        close_half(&half);
    }
}

static void a_send_over_a_lost_link_fails(void **state) {
    (void)state;
    struct half half = open_half();
    struct msi_transfer send;
    close(half.fds[2]);
    half.fds[2] = -1;
    for (int64_t limit = msi_deadline(LIMIT_MS); half.multi->status == MST_OK; advance(half.multi)) {
        if (!msi_link_busy(half.multi)) msi_link_send(half.multi, &send, out, sizeof out);
        assert_true(msi_now() < limit);
    }
    assert_status(half.multi->status, MST_ERR_PEER_LOST);
    close_half(&half);
}

/* Without a reader some transfers cannot begin. Cancelling them leaves the stream intact. */
static void what_has_not_begun_can_be_withdrawn(void **state) {
    (void)state;
    enum { SENDS = 12, EACH = 5 << 20 };
    struct half half = open_half();
    struct msi_transfer sends[SENDS], last;
    char *data = malloc(EACH), *came = malloc(EACH);
    size_t kept = 0, units = 0;
    assert_true(data && came);
    fill(data, EACH, 6, 0);
    for (int i = 0; i < SENDS; i++) msi_link_send(half.multi, &sends[i], data, EACH);
    for (int i = 0; i < 200; i++) advance(half.multi);
    assert_true(sends[0].done > 0 && sends[SENDS - 1].done == 0);
    assert_false(msi_transfer_done(&sends[SENDS - 2]));
    assert_true(msi_link_cancel(half.multi, &sends[SENDS - 2]));
    for (int i = 0; i < 50; i++) advance(half.multi);
    assert_true(msi_link_cancel(half.multi, &sends[SENDS - 1]));
    msi_link_send(half.multi, &last, "end", 3);
    for (size_t at = 0, total = (size_t)(SENDS - 2) * EACH; at < total; units++) {
        size_t n = total - at < UNIT ? total - at : UNIT;
        struct pollfd ask = {.fd = half.fds[units % LINKS], .events = POLLIN};
        for (size_t got = 0; got < n;) {
            advance(half.multi);
            ssize_t more = poll(&ask, 1, 1) > 0 ? msi_recv(ask.fd, came + got, n - got) : 0;
            if (more > 0) got += (size_t)more;
        }
        for (size_t i = 0; i < n; i++) kept += came[i] == byte_at(6, (at + i) % EACH);
        at += n;
    }
    assert_int_equal(kept, (size_t)(SENDS - 2) * EACH);
    run_until_done(half.multi, NULL, &last);
    free(data);
    free(came);
    close_half(&half);
}

static void what_has_begun_cannot(void **state) {
    (void)state;
    struct half half = open_half();
    struct msi_transfer send, receive;
    char *data = calloc(1, 64 << 20);
    assert_non_null(data);
    msi_link_send(half.multi, &send, data, 64 << 20);
    msi_link_receive(half.multi, &receive, in, 3 * UNIT);
    assert_int_equal(msi_send(half.fds[2], out, 1), 1); /* bytes have arrived, but are not counted yet */
    for (int i = 0; i < 100; i++) advance(half.multi);
    assert_false(msi_link_cancel(half.multi, &send));
    assert_int_equal(receive.done, 0);
    assert_false(msi_link_cancel(half.multi, &receive));
    free(data);
    close_half(&half);
}

static void an_invalid_number_of_sockets_is_refused(void **state) {
    (void)state;
    struct msi_link *links[1], *made = NULL;
    assert_ok(msi_link_open_self(&links[0]));
    assert_status(msi_link_open_multi_socket(links, 0, UNIT, &made), MST_ERR_INVALID);
    assert_status(msi_link_open_multi_socket(links, MSI_MULTI_SOCKET_MOST + 1, UNIT, &made), MST_ERR_INVALID);
    assert_status(msi_link_open_multi_socket(links, 1, 0, &made), MST_ERR_INVALID);
    assert_null(made);
    close_link(links[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_go_round_the_links),
        cmocka_unit_test(bytes_that_overtake_others_wait_for_them),
        cmocka_unit_test(a_lost_socket_fails_the_link_when_it_is_needed),
        cmocka_unit_test(a_send_over_a_lost_link_fails),
        cmocka_unit_test(what_has_not_begun_can_be_withdrawn),
        cmocka_unit_test(what_has_begun_cannot),
        cmocka_unit_test(an_invalid_number_of_sockets_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
