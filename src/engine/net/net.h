/*
 * net.h - the state of the network engine, and what its files share. net.c is the engine and has the rules.
 */
#ifndef MSI_ENGINE_NET_NET_H
#define MSI_ENGINE_NET_NET_H

#include "coll/cost/select.h"
#include "coll/executor.h"
#include "engine/native.h"
#include "engine/net/layout.h"
#include "wireup/endpoint.h"

enum {
    MSI_NET_HEADER_BYTES = 16 + 40,
    MSI_NET_REPORT_BYTES = 4 + MSI_NET_HEADER_BYTES, /* a rank whose call differs, and its header */
    MSI_NET_HEADER_COMPARES = 0x80,                  /* among the flags: a report follows */
};

_Static_assert((MSI_NET_HEADER_COMPARES & (2 * MSI_SIGNED_REJECTED - 1)) == 0, "is no flag of a signature");

/* The link with one other rank. */
struct msi_net_peer {
    struct msi_wireup w;
    bool sends, receives; /* does the plan send to it, receive from it? */
    bool compares;        /* is it a partner when calls are compared? */
    bool checked;         /* its header was right */
    unsigned char header_out[MSI_NET_HEADER_BYTES], header_in[MSI_NET_HEADER_BYTES];
    struct msi_transfer out, in;
    struct msi_call_signature signature; /* what it called */
};

/* What a collective does: opens links, compares calls, runs the plan, compares once more. */
enum msi_net_phase { MSI_NET_IDLE, MSI_NET_CONNECT, MSI_NET_COMPARE, MSI_NET_RUN, MSI_NET_CONFIRM };

/* The comparison of a call (rule 3). */
struct msi_comparison {
    bool needed;
    bool sent; /* the messages of this round are posted */
    int distance;
    int culprit; /* a rank whose call differs from this rank's, or from another's; -1: none is known */
    unsigned char culprit_header[MSI_NET_HEADER_BYTES]; /* its header */
    unsigned char out[MSI_NET_HEADER_BYTES + MSI_NET_REPORT_BYTES], report[MSI_NET_REPORT_BYTES];
    struct msi_transfer to, header, rest;
};

/* The first one is for requests that are large, or whose plan cannot be used again. */
enum { MSI_NET_PLANS = 8 };

/* A plan, and what it was made for, besides its request. */
struct msi_net_plan {
    struct msi_plan plan;
    bool reusable;
    struct msi_cost_input input;
    const struct msi_planner *override; /* the algorithm that was asked for */
    const struct msi_planner *selected;
};

/* The state of the engine. */
struct msi_net {
    struct msi_native native;
    bool open;
    struct msi_listener_wake
        wake; /* ends this rank's sleep: a rank has connected, or there is something else to wait for */
    struct msi_net_layout layout;
    struct msi_net_plan plans[MSI_NET_PLANS]; /* of the last calls: programs repeat them in turns */
    struct msi_net_plan *current;             /* of the last call; NULL: there was none */
    int replaced;                             /* the plan that was made last, of those after the first */
    struct msi_exec exec;
    enum msi_net_phase phase;
    struct msi_comparison comparison;
    uint64_t seq;
    uint32_t history, next_history; /* hash of the calls before the current one, and with it */
    char why[120];                  /* a fault that is described with numbers */
    struct mst_work barrier;        /* the first pending call, if it is a barrier; it may be under way */
    struct msi_net_peer *peers;     /* by rank */
};

/* What a header says. */
struct msi_net_header {
    uint64_t seq;
    uint32_t hash, history;
    bool compares; /* a report follows */
    struct msi_call_signature signature;
};

static inline struct msi_net *msi_net_of(const struct msi_comm *comm) {
    return comm->state;
}

static inline struct msi_comm *msi_net_comm(const struct msi_net *net) {
    return net->native.peers.comm;
}

/* headers.c: the header of this rank's call for a receiver; flags: 0 or MSI_NET_HEADER_COMPARES. */
void msi_net_write_header(const struct msi_net *net, const struct mst_work *work, int receiver,
                          unsigned flags, unsigned char out[MSI_NET_HEADER_BYTES]);
struct msi_net_header msi_net_read_header(const unsigned char bytes[MSI_NET_HEADER_BYTES]);
/* Why a rank's header does not fit the call of this rank; NULL: it does. */
const char *msi_net_find_difference(struct msi_net *net, const struct mst_work *work, int rank,
                                    const struct msi_net_header *h);
/* Fails because another rank has made another call. If it is at a call that this rank has rejected, that is
 * the fault. */
enum msi_advance msi_net_mismatch(struct msi_net *net, struct mst_work *work, int rank,
                                  const struct msi_net_header *h, const char *why);

/* compare.c: finds the ranks with which this one compares a call; their links must be open before it does. */
void msi_net_find_partners(struct msi_net *net);
/* Begins a comparison, as phase MSI_NET_COMPARE or MSI_NET_CONFIRM. */
void msi_net_begin_comparison(struct msi_net *net, enum msi_net_phase phase);
/* Advances the comparison. MSI_DONE: all ranks have made the same call. */
enum msi_advance msi_net_compare(struct msi_net *net, struct mst_work *work);
/* Advances the links on which something is posted; true if anything moved. */
bool msi_net_move_links(struct msi_net *net);

#endif
