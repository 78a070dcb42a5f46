/*
 * plan.h - a collective as data: the steps of one rank, in the order in which one would do them, and what each waits for.
 *
 *  1. A planner is a pure function of a request: it emits steps and does no I/O. The ranks' plans fit together because
 *     all are made from requests that differ in rank alone (and, for all_to_all, in the splits).
 *  2. Steps are emitted as if they ran one after the other. The plan itself finds out which of them depend on which, by
 *     the memory that they read and write; whatever does not depend may run at once, in any order.
 *  3. The k-th send from a to b meets the k-th receive of b from a, and their sizes agree; so sends to one peer are
 *     posted in their order, and so are receives. Empty messages are left out.
 *  4. Transfers and local work are cut into pieces of the request's chunk, each a step of its own with dependencies of
 *     its own: that is what makes a pipeline.
 *  5. Offsets and counts are in elements. RAW elements have the tensor's type, ACC elements the accumulation type, in
 *     which partial results travel, so that rounding happens once.
 *  6. Making a plan again in the same struct allocates nothing once its arrays have grown; msi_plan_free frees them. A
 *     plan is made and read by one thread at a time.
 */
#ifndef MSI_COLL_PLAN_H
#define MSI_COLL_PLAN_H

#include "base/kind.h"
#include "coll/hazard.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "all_reduce" */
const char *msi_coll_name(enum msi_kind kind);
/* Does it combine values, and so know ACC elements? */
bool msi_coll_reduces(enum msi_kind kind);

/* Which ranks share a host. */
struct msi_hosts {
    int n;         /* hosts */
    int largest;   /* ranks on the fullest */
    const int *of; /* of each rank: its host, 0 … n-1; NULL: all on host 0 */
};

/* What is wanted. Pointers are borrowed while the plan is made. */
struct msi_request {
    enum msi_kind kind;
    int rank, size;
    int root;
    size_t count;         /* as comm.h says: the whole buffer, or one rank's share */
    const size_t *counts; /* gathers and scatters: each rank's share, where they differ */
    const size_t *to;     /* all_to_all: elements to each rank, where they differ */
    const size_t *from;   /* all_to_all: elements from each rank, where they differ */
    bool in_place;        /* IN and OUT are one buffer, or the smaller is its own place in the larger */
    size_t chunk;         /* elements of a piece; 0: nothing is cut */
    int radix;            /* children of a tree's node at each level, plus one; 0: the planner's own */
    struct msi_hosts hosts;
};

enum msi_space {
    MSI_IN,
    MSI_OUT,
    MSI_RAW, /* scratch of the tensor's type */
    MSI_ACC, /* scratch of the accumulation type */
    MSI_SPACES,
};

struct msi_ref {
    enum msi_space space;
    size_t at;
};

enum msi_step_kind {
    MSI_SEND,         /* src to peer */
    MSI_RECV,         /* dst from peer */
    MSI_COPY,         /* dst = src, both raw */
    MSI_BEGIN,        /* dst (acc) = src (raw) */
    MSI_ADD,          /* dst (acc) = dst op src (raw) */
    MSI_MERGE,        /* dst (acc) = dst op src (acc) */
    MSI_END,          /* dst (raw) = src (acc), rounded */
    MSI_REDUCE_LOCAL, /* dst (raw) = sources[0] op sources[1] op …, rounded */
};

#define MSI_NO_STEP UINT32_MAX

struct msi_step {
    uint8_t kind;
    int32_t peer; /* FOLD: how many sources */
    struct msi_ref dst, src;
    size_t count;
    uint32_t sources; /* FOLD: the first, in the plan's sources */
    uint32_t waits;   /* how many times it must be released before it may start */
    uint32_t
        chain; /* the step that this one releases when it has started: the next message to or from the peer */
    uint32_t after, n_after; /* in the plan's after: the steps that this one releases when it is done */
};

struct msi_plan {
    struct msi_step *steps;
    uint32_t n;
    uint32_t *after;
    struct msi_ref *sources;    /* of FOLD */
    size_t scratch[MSI_SPACES]; /* elements; of IN and OUT 0 */
    const char *algorithm;

    /* Used while it is made. */
    struct msi_request request;
    struct msi_hazards hazards;
    struct msi_edge *edges;
    uint32_t *last; /* of each peer: the last send, then of each: the last receive */
    size_t
        *starts; /* where each rank's share begins, and the end; all_to_all: of what is sent, then received */
    struct msi_ref *reduce_local; /* sources of the fold that is being put together */
    int *ranks;                   /* the ranks sorted by host, then where each host begins, and the end */
    uint32_t n_edges, n_sources;
    size_t steps_cap, after_cap, sources_cap, edges_cap, last_cap, starts_cap, ranks_cap, reduce_cap;
    bool failed;
};

struct msi_planner;

/*
 * Makes the plan of request->rank. MST_ERR_MEMORY is the only failure: that the request makes sense, and that the planner
 * can do it, is for the caller to see to. A plan that starts as zeros is empty.
 */
mst_status msi_plan_make(struct msi_plan *plan, const struct msi_planner *planner,
                         const struct msi_request *request);
void msi_plan_free(struct msi_plan *plan);

#endif
