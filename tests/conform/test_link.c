/* test_link.c - every link without failures: all bytes arrive, in order, in the right buffers. */
#include "link_kit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

enum { QUEUE = 40 };

/* Transfers of one direction at one end, in posting order. Each has a buffer of exactly its size. */
struct posts {
    struct msi_link *link;
    struct msi_transfer slots[QUEUE];
    unsigned first, count;
    uint64_t stream, at, end; /* offsets in the stream: the next byte to post, the end */
    uint64_t settled;         /* bytes of transfers that are done and checked */
    bool receives;
};

static void post_next(struct posts *p, size_t n) {
    struct msi_transfer *t = &p->slots[(p->first + p->count++) % QUEUE];
    char *data = malloc(n ? n : 1);
    assert_non_null(data);
    if (p->receives) {
        msi_link_receive(p->link, t, data, n);
    } else {
        fill(data, n, p->stream, p->at);
        msi_link_send(p->link, t, data, n);
    }
    p->at += n;
}

/* Removes completed transfers. A transfer completes only after all earlier ones. */
static void settle(struct posts *p) {
    while (p->count && msi_transfer_done(&p->slots[p->first])) {
        struct msi_transfer *t = &p->slots[p->first];
        if (p->receives) check_bytes(t->data, t->len, p->stream, p->settled);
        p->settled += t->len;
        free(t->data);
        p->first = (p->first + 1) % QUEUE;
        p->count--;
    }
    for (unsigned i = 1; i < p->count; i++) {
        const struct msi_transfer *t = &p->slots[(p->first + i) % QUEUE];
        assert_true(t->done == 0 || msi_transfer_done(&p->slots[(p->first + i - 1) % QUEUE]));
    }
}

static bool all_settled(const struct posts *p, int n) {
    for (int i = 0; i < n; i++)
        if (p[i].settled < p[i].end || p[i].count) return false;
    return true;
}

/*
 * Streams of total bytes in each direction, cut differently by sender and receiver, posted and moved in
 * random order. Each direction has two queues: sends and receives.
 */
static void run_streams(struct ends *ends, int ways, uint64_t total, size_t largest, uint64_t seed) {
    struct posts posts[4] = {{.link = NULL}};
    struct dice dice = {seed};
    int64_t limit = msi_deadline(LIMIT_MS);
    for (int i = 0; i < 2 * ways; i++) {
        posts[i].link = ends->end[i / 2 ^ i % 2];
        posts[i].receives = i % 2;
        posts[i].stream = seed * 2 + (uint64_t)i / 2;
        posts[i].end = total;
    }
    while (!all_settled(posts, 2 * ways)) {
        struct posts *p = &posts[roll(&dice, 2 * (uint64_t)ways)];
        for (uint64_t i = roll(&dice, 6); i > 0 && p->count < QUEUE && p->at < p->end; i--) {
            size_t n = roll_size(&dice, largest);
            post_next(p, n < p->end - p->at ? n : (size_t)(p->end - p->at));
        }
        for (uint64_t i = roll(&dice, 4); i > 0; i--) advance(ends->end[roll(&dice, 2)]);
        for (int i = 0; i < 2 * ways; i++) settle(&posts[i]);
        assert_status(ends->end[0]->status, MST_OK);
        assert_status(ends->end[1]->status, MST_OK);
        assert_true(msi_now() < limit);
    }
    assert_false(msi_link_busy(ends->end[0]) || msi_link_busy(ends->end[1]));
}

static void streams(struct ends *ends, const struct link_base *base, int fault) {
    size_t most = faults_of(fault).most_bytes;
    bool slow = fault && most && most < 10000;
    run_streams(ends, base->two_ends ? 2 : 1, (slow ? 60000 : 3000000) / SLOWER, slow ? 5000 : 300000,
                17 + (uint64_t)fault);
}

static void bytes_arrive_in_order_however_they_are_cut(void **state) {
    (void)state;
    over_all(streams, true);
}

/* Transfers much longer than the buffers of a link. */
static void long_transfers(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(link_bases); i++) {
        struct ends ends;
        for (int fault = 0; fault <= 2; fault += 2) {
            if (!open_ends(&link_bases[i], fault, &ends)) continue;
            run_streams(&ends, link_bases[i].two_ends ? 2 : 1, (24u << 20) / SLOWER, 9u << 20, 5);
            close_ends(&ends);
        }
    }
}

static void three_pieces_as_seven(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    static const size_t sent[3] = {5, 40000, 2000}, taken[7] = {1, 2, 30000, 0, 9000, 3001, 1};
    static char out[42005], in[42006];
    struct msi_transfer sends[3], receives[7];
    size_t at = 0;
    fill(out, sizeof out, 3, 0);
    memset(in, 0x55, sizeof in);
    for (int i = 0; i < 3; at += sent[i++]) msi_link_send(ends->end[0], &sends[i], out + at, sent[i]);
    at = 0;
    for (int i = 0; i < 7; at += taken[i++]) msi_link_receive(ends->end[1], &receives[i], in + at, taken[i]);
    assert_int_equal(at, sizeof out);
    run_until_done(ends->end[1], ends->end[0], &receives[6]);
    for (int i = 0; i < 3; i++) assert_true(msi_transfer_done(&sends[i]));
    check_bytes(in, sizeof out, 3, 0);
    assert_int_equal(in[sizeof out], 0x55);
}

static void sends_need_not_match_receives(void **state) {
    (void)state;
    over_all(three_pieces_as_seven, true);
}

static void take_four_of_ten(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    char in[16];
    struct msi_transfer send, first, second;
    memset(in, '-', sizeof in);
    msi_link_send(ends->end[0], &send, "0123456789", 10);
    msi_link_receive(ends->end[1], &first, in, 4);
    run_until_done(ends->end[1], ends->end[0], &first);
    for (int i = 0; i < 200; i++) {
        advance(ends->end[0]);
        advance(ends->end[1]);
    }
    assert_memory_equal(in, "0123------------", 16);
    assert_status(ends->end[1]->status, MST_OK);
    msi_link_receive(ends->end[1], &second, in + 4, 6);
    run_until_done(ends->end[1], ends->end[0], &second);
    assert_memory_equal(in, "0123456789------", 16);
    run_until_done(ends->end[0], ends->end[1], &send);
}

static void nothing_is_received_without_a_posted_receive(void **state) {
    (void)state;
    over_all(take_four_of_ten, true);
}

/* The unread bytes of the socket after a receive of the first bytes of many. */
static int left_after(size_t asked, size_t sent) {
    struct ends ends = {.memory = NULL};
    static char out[200000], in[200000];
    int left = 0;
    short events;
    struct msi_transfer send, receive;
    assert_true(open_tcp4(&ends) && asked <= sizeof in && sent <= sizeof out);
    msi_link_send(ends.end[0], &send, out, sent);
    run_until_done(ends.end[0], NULL, &send);
    msi_link_receive(ends.end[1], &receive, in, asked);
    run_until_done(ends.end[1], NULL, &receive);
    for (int i = 0; i < 500; i++) advance(ends.end[1]);
    assert_int_equal(ioctl(msi_link_descriptor(ends.end[1], &events), FIONREAD, &left), 0);
    close_ends(&ends);
    return left;
}

/* A small receive reads a little ahead; the rest stays in the socket. */
static void tcp_reads_little_further_than_posted(void **state) {
    (void)state;
    assert_int_equal(left_after(4, 10), 0);
    assert_int_equal(left_after(4, 100000), 100000 - 17408);
    assert_int_equal(left_after(20000, 100000), 100000 - 20000 - 17408);
    assert_int_equal(left_after(100000, 100010), 10);
}

/* The congestion control of a connection from one address to another, after msi_socket_unpace or before. */
static void congestion_control(const char *to, bool unpace, char name[32]) {
    struct msi_address address = {{0}, 0};
    struct msi_wait wait = {msi_deadline(5000), NULL};
    socklen_t len = 31;
    int listener, fd;
    snprintf(address.host, sizeof address.host, "%s", to);
    assert_ok(msi_listen(&address, &listener, &address.port));
    assert_ok(msi_connect(&address, false, &wait, &fd));
    if (unpace) msi_socket_unpace(fd);
    memset(name, 0, 32);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
    close(fd);
    close(listener);
}

/* 127.0.0.2 is reached from 127.0.0.1, so it stands for another host. */
static void one_address_is_not_paced(void **state) {
    (void)state;
    char here[32], there[32], preset[32];
    congestion_control("127.0.0.1", true, here);
    assert_string_equal(here, "reno");
    congestion_control("127.0.0.2", false, preset);
    congestion_control("127.0.0.2", true, there);
    assert_string_equal(there, preset);
}

/* Alternates between the fast path and the queue, with a posted receive that has not begun. */
static void peeked_at(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    struct msi_link *in = ends->end[1];
    struct msi_transfer send, receive;
    char out[100], rest[60];
    size_t n = 0;
    if (!in->ops->peek) return;
    assert_null(in->ops->peek(in, &n));
    fill(out, sizeof out, 7, 0);
    msi_link_receive(in, &receive, rest, sizeof rest);
    msi_link_send(ends->end[0], &send, out, sizeof out);
    run_until_done(ends->end[0], NULL, &send);
    const char *came = in->ops->peek(in, &n);
    assert_non_null(came);
    assert_true(n == sizeof out && n <= in->ops->peek_most);
    check_bytes(came, n, 7, 0);
    in->ops->consume(in, 10);
    came = in->ops->peek(in, &n);
    assert_true(came && n == sizeof out - 10);
    in->ops->consume(in, 30);
    run_until_done(in, NULL, &receive);
    check_bytes(rest, sizeof rest, 7, 40);
    assert_null(in->ops->peek(in, &n));
    assert_status(in->status, MST_OK);
}

static void what_has_come_can_be_looked_at(void **state) {
    (void)state;
    over_all(peeked_at, false);
}

static void empty_transfers(struct ends *ends, const struct link_base *base, int fault) {
    (void)base;
    (void)fault;
    struct msi_transfer transfer;
    msi_link_send(ends->end[0], &transfer, NULL, 0);
    assert_true(msi_transfer_done(&transfer));
    msi_link_receive(ends->end[0], &transfer, NULL, 0);
    assert_true(msi_transfer_done(&transfer));
    assert_false(msi_link_busy(ends->end[0]));
    assert_false(advance(ends->end[0]));
}

static void nothing_is_done_as_soon_as_it_is_posted(void **state) {
    (void)state;
    over_all(empty_transfers, true);
}

/* Advances a link only after poll, like a sleeper. */
static void advance_when_ready(struct msi_link *const end[2]) {
    struct pollfd ask[2];
    while (advance(end[0]) || advance(end[1])) {
    }
    if (!msi_link_busy(end[0]) && !msi_link_busy(end[1])) return;
    for (int i = 0; i < 2; i++) ask[i].fd = msi_link_descriptor(end[i], &ask[i].events);
    assert_true(ask[0].fd >= 0 && ask[1].fd >= 0);
    assert_true(poll(ask, 2, LIMIT_MS) > 0);
    for (int i = 0; i < 2; i++)
        if (ask[i].revents) advance(end[i]);
}

static void a_link_with_a_descriptor_can_be_slept_on(void **state) {
    (void)state;
    for (int fault = 0; fault < PLAIN_AND_FAULTS; fault++) {
        static char out[300000], in[300000];
        size_t n = fault == 1 || fault == 5 ? 5000 : sizeof out;
        struct ends ends;
        struct msi_transfer sends[2], receives[2];
        assert_true(open_ends(&link_bases[2], fault, &ends));
        fill(out, n, 9, 0);
        for (int way = 0; way < 2; way++) {
            memset(in, 0, n);
            msi_link_send(ends.end[way], &sends[way], out, n);
            msi_link_receive(ends.end[1 - way], &receives[way], in, n);
            while (!msi_transfer_done(&receives[way])) advance_when_ready(ends.end);
            check_bytes(in, n, 9, 0);
        }
        close_ends(&ends);
    }
}

static void a_link_in_memory_has_no_descriptor(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct ends ends;
        short events;
        open_ends(&link_bases[i], 0, &ends);
        assert_int_equal(msi_link_descriptor(ends.end[0], &events), -1);
        close_ends(&ends);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_in_order_however_they_are_cut),
        cmocka_unit_test(long_transfers),
        cmocka_unit_test(sends_need_not_match_receives),
        cmocka_unit_test(nothing_is_received_without_a_posted_receive),
        cmocka_unit_test(tcp_reads_little_further_than_posted),
        cmocka_unit_test(one_address_is_not_paced),
        cmocka_unit_test(what_has_come_can_be_looked_at),
        cmocka_unit_test(nothing_is_done_as_soon_as_it_is_posted),
        cmocka_unit_test(a_link_with_a_descriptor_can_be_slept_on),
        cmocka_unit_test(a_link_in_memory_has_no_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
