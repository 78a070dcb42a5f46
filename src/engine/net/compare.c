/* compare.c - compares a call on all ranks: rule 3 of net.c. See net.h. */
#include "engine/net/net.h"
#include "wire/cursor.h"

#include <string.h>

/* The rank at a distance from this one. */
static int rank_at(const struct msi_net *net, int distance) {
    int n = msi_net_comm(net)->size;
    return ((msi_net_comm(net)->rank + distance) % n + n) % n;
}

void msi_net_find_partners(struct msi_net *net) {
    for (int distance = 1; distance < msi_net_comm(net)->size; distance *= 2)
        net->peers[rank_at(net, distance)].compares = net->peers[rank_at(net, -distance)].compares = true;
}

bool msi_net_move_links(struct msi_net *net) {
    bool moved = false;
    for (int r = 0; r < msi_net_comm(net)->size; r++) {
        struct msi_link *link = net->peers[r].w.link;
        if (link && msi_link_busy(link)) moved |= link->ops->progress(link);
    }
    return moved;
}

void msi_net_begin_comparison(struct msi_net *net, enum msi_net_phase phase) {
    net->comparison.distance = 1;
    net->comparison.sent = false;
    net->comparison.culprit = -1;
    net->phase = phase;
}

/* Posts the messages of a round: this rank's header, and the report of a rank whose call differs. */
static void post_round(struct msi_net *net, const struct mst_work *work) {
    struct msi_comparison *c = &net->comparison;
    int to = rank_at(net, c->distance), from = rank_at(net, -c->distance);
    struct msi_buf report = {c->out + MSI_NET_HEADER_BYTES, 0, MSI_NET_REPORT_BYTES, false};
    msi_net_write_header(net, work, to, MSI_NET_HEADER_COMPARES, c->out);
    msi_put_u32(&report, (uint32_t)(c->culprit + 1));
    msi_buf_add(&report, c->culprit_header, MSI_NET_HEADER_BYTES);
    msi_link_send(net->peers[to].w.link, &c->to, c->out, sizeof c->out);
    msi_link_receive(net->peers[from].w.link, &c->header, net->peers[from].header_in, MSI_NET_HEADER_BYTES);
    c->rest = (struct msi_transfer){.len = MSI_NET_REPORT_BYTES};
    c->sent = true;
}

/* A rank's call differs from this rank's. Continues if that rank compares too, so that all ranks learn it. */
static enum msi_advance note_difference(struct msi_net *net, struct mst_work *work, int rank,
                                        const struct msi_net_header *h, const char *why) {
    struct msi_comparison *c = &net->comparison;
    if (msi_comm_has_rejected(work->comm, h->seq) || !h->compares)
        return msi_net_mismatch(net, work, rank, h, why);
    net->peers[rank].signature = h->signature;
    if (c->culprit < 0) {
        memcpy(c->culprit_header, net->peers[rank].header_in, MSI_NET_HEADER_BYTES);
        c->culprit = rank;
        work->fault.why = why;
    }
    return MSI_MOVED;
}

/* Reads the header of a round. A rank that does not compare has a call that was made before. */
static enum msi_advance read_partner(struct msi_net *net, struct mst_work *work, int from) {
    struct msi_comparison *c = &net->comparison;
    struct msi_net_header h = msi_net_read_header(net->peers[from].header_in);
    const char *why = msi_net_find_difference(net, work, from, &h);
    enum msi_advance got = why ? note_difference(net, work, from, &h, why) : MSI_MOVED;
    if (got == MSI_MOVED)
        msi_link_receive(net->peers[from].w.link, &c->rest, c->report, MSI_NET_REPORT_BYTES);
    return got;
}

/* Reads the report of a round. */
static void read_report(struct msi_net *net, struct mst_work *work) {
    struct msi_comparison *c = &net->comparison;
    struct msi_reader r = msi_reader(c->report, MSI_NET_REPORT_BYTES);
    uint32_t culprit = msi_read_u32(&r);
    if (c->culprit >= 0 || culprit == 0 || culprit > (uint32_t)msi_net_comm(net)->size) return;
    memcpy(c->culprit_header, c->report + MSI_NET_REPORT_BYTES - MSI_NET_HEADER_BYTES, MSI_NET_HEADER_BYTES);
    c->culprit = (int)culprit - 1;
    struct msi_net_header h = msi_net_read_header(c->culprit_header);
    net->peers[c->culprit].signature = h.signature;
    work->fault.why = msi_net_find_difference(net, work, c->culprit, &h);
}

/* A rank whose link has failed, of those that this round or a later one needs; -1: none. A rank of an earlier
 * round may have done its part of the call, and left. */
static int find_failed(const struct msi_net *net) {
    const struct msi_comparison *c = &net->comparison;
    for (int distance = c->distance; distance < msi_net_comm(net)->size; distance *= 2) {
        bool now = distance == c->distance;
        int to = rank_at(net, distance), from = rank_at(net, -distance);
        if (!(now && msi_transfer_done(&c->to)) && net->peers[to].w.link->status != MST_OK) return to;
        if (!(now && msi_transfer_done(&c->rest)) && net->peers[from].w.link->status != MST_OK) return from;
    }
    return -1;
}

/* Advances a round. MSI_DONE: it is over. */
static enum msi_advance advance_round(struct msi_net *net, struct mst_work *work) {
    struct msi_comparison *c = &net->comparison;
    int from = rank_at(net, -c->distance);
    if (!c->sent) post_round(net, work);
    bool moved = msi_net_move_links(net);
    if (msi_transfer_done(&c->header) && !c->rest.data) {
        if (read_partner(net, work, from) == MSI_FAILED) return MSI_FAILED;
        moved |= msi_net_move_links(net);
    }
    if (msi_transfer_done(&c->to) && msi_transfer_done(&c->rest)) {
        read_report(net, work);
        return MSI_DONE;
    }
    int failed = find_failed(net);
    if (failed >= 0 && c->culprit >= 0) return msi_fault(work, MST_ERR_MISMATCH, c->culprit, work->fault.why);
    if (failed >= 0)
        return msi_fault(work, net->peers[failed].w.link->status, failed, net->peers[failed].w.link->why);
    return moved ? MSI_MOVED : MSI_BLOCKED;
}

enum msi_advance msi_net_compare(struct msi_net *net, struct mst_work *work) {
    struct msi_comparison *c = &net->comparison;
    for (; c->distance < msi_net_comm(net)->size; c->distance *= 2) {
        enum msi_advance got = advance_round(net, work);
        if (got != MSI_DONE) return got;
        c->sent = false;
    }
    return c->culprit < 0 ? MSI_DONE : msi_fault(work, MST_ERR_MISMATCH, c->culprit, work->fault.why);
}
