/* test_net_compare.c - which ranks may leave while this rank still compares a call with the others. */
#include "harness.h"

#include "engine/net/net.h"

enum { RANKS = 3, ME = 1, BEFORE = 0, AFTER = 2 };

/* Links that send at once, and that receive if the other rank has sent. */
struct end {
    struct msi_link link;
    bool came; /* a message of a round */
};

static struct {
    struct msi_comm comm;
    struct mst_work work;
    struct msi_net net;
    struct msi_net_peer peers[RANKS];
    struct end ends[RANKS];
    unsigned char message[MSI_NET_HEADER_BYTES + MSI_NET_REPORT_BYTES];
} w;

static bool progress(struct msi_link *link) {
    struct end *end = msi_container(link, struct end, link);
    bool moved = false;
    while (!msi_list_empty(&link->sends)) {
        msi_link_advance(msi_link_first(&link->sends), msi_transfer_left(msi_link_first(&link->sends)));
        moved = true;
    }
    while (end->came && !msi_list_empty(&link->receives)) {
        struct msi_transfer *receive = msi_link_first(&link->receives);
        bool header = receive->len == MSI_NET_HEADER_BYTES;
        memcpy(receive->data, w.message + (header ? 0 : MSI_NET_HEADER_BYTES), receive->len);
        end->came = header;
        msi_link_advance(receive, receive->len);
        moved = true;
    }
    return moved;
}

/* Begins to compare a call that is the same on all ranks. */
static void begin(void) {
    static const struct msi_link_ops ops = {.progress = progress};
    memset(&w, 0, sizeof w);
    w.comm.rank = ME;
    w.comm.size = RANKS;
    w.comm.state = &w.net;
    w.net.native.peers.comm = &w.comm;
    w.net.peers = w.peers;
    w.work.comm = &w.comm;
    for (int r = 0; r < RANKS; r++) {
        msi_link_init(&w.ends[r].link, &ops);
        w.peers[r].w.link = &w.ends[r].link;
    }
    msi_net_find_partners(&w.net);
    msi_net_begin_comparison(&w.net, MSI_NET_COMPARE);
    msi_net_write_header(&w.net, &w.work, ME, MSI_NET_HEADER_COMPARES, w.message);
}

/* Compares as far as possible. */
static enum msi_advance compare(void) {
    enum msi_advance got;
    do got = msi_net_compare(&w.net, &w.work);
    while (got == MSI_MOVED);
    return got;
}

static void leave(int rank) {
    msi_link_fail(&w.ends[rank].link, MST_ERR_PEER_LOST, "closed");
}

static void assert_lost(int rank) {
    assert_int_equal(compare(), MSI_FAILED);
    assert_int_equal(w.work.fault.status, MST_ERR_PEER_LOST);
    assert_int_equal(w.work.fault.culprit, rank);
}

/* Rank 0 has the messages of all ranks. If it has nothing else to do in the call, it may leave. */
static void a_rank_that_has_compared_may_leave(void **state) {
    (void)state;
    begin();
    w.ends[BEFORE].came = true;
    assert_int_equal(compare(), MSI_BLOCKED);
    leave(BEFORE);
    assert_int_equal(compare(), MSI_BLOCKED);
    w.ends[AFTER].came = true;
    assert_int_equal(compare(), MSI_DONE);
}

static void a_rank_that_is_needed_must_not_leave(void **state) {
    (void)state;
    begin();
    leave(BEFORE); /* before its message of the first round */
    assert_lost(BEFORE);
    begin();
    leave(AFTER); /* which gets a message in this round, and sends one in the next */
    assert_lost(AFTER);
    begin();
    w.ends[BEFORE].came = true;
    assert_int_equal(compare(), MSI_BLOCKED);
    leave(AFTER); /* before its message of the second round */
    assert_lost(AFTER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_has_compared_may_leave),
        cmocka_unit_test(a_rank_that_is_needed_must_not_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
