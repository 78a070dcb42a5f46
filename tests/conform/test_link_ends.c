/* test_link_ends.c - links whose peer closes, sends wrong data, or is lost by fault injection. */
#include "link_kit.h"

#include <poll.h>
#include <stdatomic.h>

static char out[1 << 20], in[1 << 20];

static void run_both(struct ends *ends, int calls) {
    for (int i = 0; i < calls; i++) {
        if (ends->end[0]) advance(ends->end[0]);
        if (ends->end[1]) advance(ends->end[1]);
    }
}

static void close_end(struct ends *ends, int i) {
    close_link(ends->end[i]);
    ends->end[i] = NULL;
}

static void expect_lost(struct msi_link *link, const struct ends *ends) {
    run_until_failed(link, NULL);
    assert_status(link->status, MST_ERR_PEER_LOST);
    if (ends->host) {
        assert_contains(link->why, "the connection to ");
        assert_contains(link->why, ends->host);
    } else {
        assert_contains(link->why, "closed");
    }
}

static void closed_midway(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    struct msi_transfer send, whole, rest, later;
    fill(out, 100, 1, 0);
    msi_link_send(ends->end[0], &send, out, 100);
    msi_link_receive(ends->end[1], &whole, in, 60);
    msi_link_receive(ends->end[1], &rest, in + 60, 90);
    run_until_done(ends->end[0], ends->end[1], &send);
    close_end(ends, 0);
    expect_lost(ends->end[1], ends);
    assert_true(msi_transfer_done(&whole));
    assert_int_equal(rest.done, 40);
    check_bytes(in, 100, 1, 0);
    msi_link_send(ends->end[1], &later, out, 1);
    assert_false(msi_link_busy(ends->end[1]));
    assert_false(msi_transfer_done(&later));
}

static void a_peer_that_closes_midway_is_lost(void **state) {
    (void)state;
    over_all(closed_midway, false);
}

static void closed_before_anything(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    run_both(ends, 10);
    close_end(ends, 1);
    expect_lost(ends->end[0], ends);
}

static void an_idle_link_notices_the_end(void **state) {
    (void)state;
    over_all(closed_before_anything, false);
}

/* Few enough bytes to fit into the link even if each is a separate piece. */
static void closed_with_bytes_unread(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    struct msi_transfer send, receive;
    fill(out, 12, 8, 0);
    msi_link_send(ends->end[0], &send, out, 12);
    run_until_done(ends->end[0], NULL, &send);
    close_end(ends, 0);
    run_both(ends, 500);
    assert_status(ends->end[1]->status, MST_OK);
    msi_link_receive(ends->end[1], &receive, in, 12);
    run_until_done(ends->end[1], NULL, &receive);
    check_bytes(in, 12, 8, 0);
    expect_lost(ends->end[1], ends);
}

static void what_was_sent_before_the_end_can_be_received(void **state) {
    (void)state;
    over_all(closed_with_bytes_unread, false);
}

/* The link may have read ahead with the first bytes. */
static void closed_with_bytes_half_read(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    struct msi_transfer send, first, rest, none;
    fill(out, 12, 8, 0);
    msi_link_send(ends->end[0], &send, out, 12);
    msi_link_receive(ends->end[1], &first, in, 4);
    run_until_done(ends->end[0], ends->end[1], &send);
    run_until_done(ends->end[1], NULL, &first);
    close_end(ends, 0);
    run_both(ends, 500);
    assert_status(ends->end[1]->status, MST_OK);
    msi_link_receive(ends->end[1], &rest, in + 4, 8);
    run_until_done(ends->end[1], NULL, &rest);
    check_bytes(in, 12, 8, 0);
    msi_link_receive(ends->end[1], &none, in, 1);
    expect_lost(ends->end[1], ends);
}

static void what_was_read_before_the_end_can_be_received(void **state) {
    (void)state;
    over_all(closed_with_bytes_half_read, false);
}

/* The peer may have read an offered send, though none of it counts as sent. */
static void an_offered_send_has_begun(void **state) {
    (void)state;
    struct ends ends = {.memory = NULL};
    struct msi_transfer offered, behind;
    open_cma(&ends);
    run_both(&ends, 4); /* each side checks whether it can use CMA */
    msi_link_send(ends.end[0], &offered, out, sizeof out);
    msi_link_send(ends.end[0], &behind, out, 4);
    advance(ends.end[0]);
    assert_true(msi_link_cancel(ends.end[0], &behind));
    assert_false(msi_link_cancel(ends.end[0], &offered));
    close_ends(&ends);
}

static void closed_while_sending(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    struct msi_transfer sends[20], receive;
    if (fault == 1) return; /* with three bytes per call it would never fill the link */
    for (int i = 0; i < 20; i++) msi_link_send(ends->end[0], &sends[i], out, sizeof out);
    msi_link_receive(ends->end[1], &receive, in, 5000);
    run_until_done(ends->end[1], ends->end[0], &receive);
    close_end(ends, 1);
    expect_lost(ends->end[0], ends);
    assert_false(msi_transfer_done(&sends[19]));
}

static void a_sender_detects_a_closed_peer(void **state) {
    (void)state;
    over_all(closed_while_sending, false);
}

/* Only poll tells that an idle peer hung up; it must not keep a sleeper awake for unread bytes. */
static void an_idle_sleeper_is_woken_once(void **state) {
    (void)state;
    struct ends ends = {.memory = NULL};
    struct msi_transfer send, receive;
    struct pollfd ask;
    assert_true(open_tcp4(&ends));
    msi_link_send(ends.end[0], &send, out, 10);
    run_until_done(ends.end[0], NULL, &send);
    close_end(&ends, 0);
    int64_t limit = msi_deadline(LIMIT_MS);
    for (;; advance(ends.end[1])) {
        ask.fd = msi_link_descriptor(ends.end[1], &ask.events);
        if (!(ask.events & POLLRDHUP)) break;
        assert_true(poll(&ask, 1, LIMIT_MS) > 0 && msi_now() < limit);
    }
    assert_status(ends.end[1]->status, MST_OK);
    assert_int_equal(poll(&ask, 1, 0), 0);
    msi_link_receive(ends.end[1], &receive, in, 10);
    run_until_done(ends.end[1], NULL, &receive);
    expect_lost(ends.end[1], &ends);
    assert_int_equal(msi_link_descriptor(ends.end[1], &ask.events), -1);
    close_ends(&ends);
}

/* A connection that is reset, not closed. */
static void a_reset_connection_is_lost(void **state) {
    (void)state;
    int fds[2];
    struct msi_link *link;
    struct msi_transfer receive;
    struct linger none = {.l_onoff = 1};
    assert_true(connect_sockets("127.0.0.1", fds));
    assert_ok(msi_link_open_tcp((struct msi_stream){.fd = fds[0]}, &link));
    msi_link_receive(link, &receive, in, 10);
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
    close(fds[1]);
    run_until_failed(link, NULL);
    assert_status(link->status, MST_ERR_PEER_LOST);
    assert_contains(link->why, "failed: ");
    close_link(link);
}

static void a_bad_buffer_is_not_the_peers_fault(void **state) {
    (void)state;
    struct ends ends = {.memory = NULL};
    struct msi_transfer send;
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(open_tcp4(&ends) && page != MAP_FAILED);
    msi_link_send(ends.end[0], &send, page, 100);
    run_until_failed(ends.end[0], NULL);
    assert_status(ends.end[0]->status, MST_ERR_SYSTEM);
    munmap(page, 4096);
    close_ends(&ends);
}

/*
 * Layout of the shared memory: a line of flags for each side; then for each a line with a count, and cells.
 */
enum { LINE = 128, CELLS = 16, CELLS_WIDE = 66, CELL = 16512, CELL_BYTES = 16384, NUMBER_SHIFT = 18 };

static _Atomic uint64_t *atomic_at(const struct ends *ends, size_t offset) {
    return (_Atomic uint64_t *)((char *)ends->memory + offset);
}

static void a_cell_with_a_wrong_length_breaks_the_link(void **state) {
    (void)state;
    static const uint32_t wrong[] = {0, CELL_BYTES + 1, 1u << 16, 1u << 17, (1u << NUMBER_SHIFT) - 1};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct ends ends;
        struct msi_transfer receive;
        assert_true(open_ends(&link_bases[1], 0, &ends));
        assert_int_equal(msi_link_shm_bytes(), 2 * LINE + 2 * (LINE + CELLS_WIDE * CELL));
        atomic_store(atomic_at(&ends, (size_t)3 * LINE), (uint64_t)1 << NUMBER_SHIFT | wrong[i]);
        msi_link_receive(ends.end[1], &receive, in, sizeof in);
        run_until_failed(ends.end[1], NULL);
        assert_status(ends.end[1]->status, MST_ERR_PROTOCOL);
        assert_int_equal(receive.done, 0);
        close_ends(&ends);
    }
}

static void a_wrong_count_of_emptied_cells_breaks_the_link(void **state) {
    (void)state;
    static const uint64_t wrong[] = {CELLS + 1, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct ends ends;
        struct msi_transfer send;
        assert_true(open_ends(&link_bases[1], 0, &ends));
        atomic_store(atomic_at(&ends, (size_t)2 * LINE), wrong[i]);
        msi_link_send(ends.end[0], &send, out, sizeof out);
        run_until_failed(ends.end[0], NULL);
        assert_status(ends.end[0]->status, MST_ERR_PROTOCOL);
        close_ends(&ends);
    }
}

/* A sender that never sets the flag for cell 0 gets there all the same. */
static void a_ring_that_never_ends_is_taken_for_one_that_does(void **state) {
    (void)state;
    struct ends ends;
    struct msi_transfer receive;
    assert_true(open_ends(&link_bases[1], 0, &ends));
    for (uint64_t i = 0; i <= CELLS_WIDE; i++) {
        size_t cell = (size_t)3 * LINE + i % CELLS_WIDE * CELL;
        atomic_store((_Atomic char *)atomic_at(&ends, cell + 8), (char)i);
        atomic_store(atomic_at(&ends, cell), (i + 1) << NUMBER_SHIFT | 1);
        msi_link_receive(ends.end[1], &receive, in, 1);
        run_until_done(ends.end[1], NULL, &receive);
        assert_int_equal(in[0], (char)i);
    }
    close_ends(&ends);
}

/* How many calls a transfer takes under faults. */
static int calls_for(size_t n, const struct link_faults *faults, size_t most) {
    struct ends ends;
    struct msi_transfer send, receive;
    int calls = 0;
    assert_true(open_ends(&link_bases[0], 0, &ends));
    wrap(&ends, false, faults);
    msi_link_send(ends.end[0], &send, out, n);
    msi_link_receive(ends.end[0], &receive, in, n);
    for (size_t before = 0; !msi_transfer_done(&receive); calls++) {
        assert_true(advance(ends.end[0])); /* no caller may sleep on it */
        assert_true(receive.done - before <= most);
        before = receive.done;
    }
    close_ends(&ends);
    return calls;
}

static void faults_follow_from_the_seed(void **state) {
    (void)state;
    struct link_faults faults = {
        .seed = 5, .most_bytes = 50, .delay_calls = 9, .stall_percent = 30, .stall_calls = 7};
    int calls = calls_for(20000, &faults, 50);
    assert_true(calls > 20000 / 50);
    assert_int_equal(calls_for(20000, &faults, 50), calls);
    faults.seed = 6;
    assert_int_not_equal(calls_for(20000, &faults, 50), calls);
    assert_int_equal(calls_for(20000, &(struct link_faults){.seed = 1}, 20000), 1);
}

static void lost_after_some_bytes(void **state) {
    (void)state;
    for (size_t i = 1; i < COUNT_OF(link_bases); i++) {
        struct ends ends;
        struct msi_transfer send, receive;
        struct link_faults faults = {.seed = 1, .most_bytes = 100, .lose_after = 5000};
        if (!open_ends(&link_bases[i], 0, &ends)) continue;
        assert_ok(open_fault_link(ends.end[0], &faults, &ends.end[0]));
        msi_link_send(ends.end[0], &send, out, 20000);
        msi_link_receive(ends.end[1], &receive, in, 20000);
        run_until_failed(ends.end[0], ends.end[1]);
        assert_status(ends.end[0]->status, MST_ERR_PEER_LOST);
        assert_contains(ends.end[0]->why, "fault injection");
        assert_int_equal(send.done, 5000);
        expect_lost(ends.end[1], &ends);
        assert_int_equal(receive.done, 5000);
        close_ends(&ends);
    }
}

/* Sends that are in an encrypted record cannot be cancelled without a trace; those behind them can. */
static void cancelled_sends_with_tls(void **state) {
    (void)state;
    enum { N = 8000, LEN = 1000 };
    static char data[LEN];
    static struct msi_transfer sends[N];
    struct ends ends = {.memory = NULL};
    if (!open_tls(&ends)) skip();
    for (int i = 0; i < N; i++) msi_link_send(ends.end[0], &sends[i], data, LEN);
    while (advance(ends.end[0])) {
    }
    int first = 0;
    while (msi_transfer_done(&sends[first])) first++;
    assert_true(first > 0 && first < N - 200);
    assert_false(msi_link_cancel(ends.end[0], &sends[first + 1]));
    assert_true(msi_link_cancel(ends.end[0], &sends[N - 1]));
    assert_true(msi_link_cancel(ends.end[0], &sends[first + 150])); /* one call encrypts up to 128 KiB */
    close_ends(&ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_sends_with_tls),
        cmocka_unit_test(a_peer_that_closes_midway_is_lost),
        cmocka_unit_test(an_idle_link_notices_the_end),
        cmocka_unit_test(what_was_sent_before_the_end_can_be_received),
        cmocka_unit_test(what_was_read_before_the_end_can_be_received),
        cmocka_unit_test(an_offered_send_has_begun),
        cmocka_unit_test(a_sender_detects_a_closed_peer),
        cmocka_unit_test(an_idle_sleeper_is_woken_once),
        cmocka_unit_test(a_reset_connection_is_lost),
        cmocka_unit_test(a_bad_buffer_is_not_the_peers_fault),
        cmocka_unit_test(a_cell_with_a_wrong_length_breaks_the_link),
        cmocka_unit_test(a_wrong_count_of_emptied_cells_breaks_the_link),
        cmocka_unit_test(a_ring_that_never_ends_is_taken_for_one_that_does),
        cmocka_unit_test(faults_follow_from_the_seed),
        cmocka_unit_test(lost_after_some_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
