/*
 * plan.h - a collective as data: the steps of one rank and the dependencies between them.
 *
 *  1. A planner is a pure function of a request: it emits steps and does no I/O. The plans of the ranks match
 *     because their requests differ only in rank (and, for all_to_all, in the splits).
 *  2. A planner emits steps in sequential order. The plan derives the dependencies from the memory that the
 *     steps read and write. Independent steps may run concurrently and in any order.
 *  3. The k-th send from a to b matches the k-th receive of b from a, and their sizes agree. Sends to one
 *     peer are posted in order, and so are receives from one peer. Empty messages are omitted.
 *  4. Transfers and local work are cut into pieces of the request's chunk. Each piece is a step with its own
 *     dependencies, which makes a pipeline.
 *  5. Offsets and counts are in elements. RAW elements have the tensor's type. ACC elements have the
 *     accumulation type; partial results are sent in it, so that rounding happens once. PACKED elements are
 *     quantised (reduce/q8.h); their offsets are multiples of MSI_Q8_VALUES.
 *  6. Making a plan again in the same struct allocates nothing once its arrays have grown. msi_plan_free
 *     frees them. One thread at a time uses a plan.
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
/* Does the kind reduce values, and so use ACC elements? */
bool msi_coll_reduces(enum msi_kind kind);

/* Which ranks share a host. */
struct msi_hosts {
    int n;         /* hosts */
    int largest;   /* ranks on the largest host */
    const int *of; /* the host of each rank, 0 … n-1; NULL: all ranks on host 0 */
};

/* Describes the collective. msi_plan_make borrows the pointers. */
struct msi_request {
    enum msi_kind kind;
    int rank, size;
    int root;
    size_t count;         /* as in comm.h: the whole buffer, or one rank's share */
    const size_t *counts; /* gathers and scatters: the share of each rank; NULL: count each */
    const size_t *to;     /* all_to_all: elements to each rank; NULL: count each */
    const size_t *from;   /* all_to_all: elements from each rank; NULL: count each */
    bool in_place;        /* IN and OUT are one buffer, or the smaller is this rank's block of the larger */
    bool quantize;        /* all_reduce: send quantised elements between hosts */
    size_t unit;          /* elements of counts that are one element of the plan; 0: 1 */
    size_t chunk;         /* elements of a piece; 0: do not cut */
    int radix;            /* of a k-nomial tree; 0: the planner's default */
    struct msi_hosts hosts;
};

enum msi_space {
    MSI_IN,
    MSI_OUT,
    MSI_RAW,    /* scratch of the tensor's type */
    MSI_ACC,    /* scratch of the accumulation type */
    MSI_PACKED, /* quantised scratch */
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
    MSI_UNPACK,       /* dst (raw) = src (packed), scaled and rounded */
    MSI_PACK,         /* dst (packed) = sources[0] (raw or acc) + sources[1] (packed) + …, quantised */
    MSI_REDUCE_LOCAL, /* dst (raw) = sources[0] op sources[1] op …, rounded */
};

#define MSI_NO_STEP UINT32_MAX

struct msi_step {
    uint8_t kind;
    int32_t peer; /* PACK, REDUCE_LOCAL: the number of sources */
    struct msi_ref dst, src;
    size_t count;
    uint32_t sources; /* PACK, REDUCE_LOCAL: index of the first source in the plan's sources */
    uint32_t waits;   /* the number of releases before it may start */
    uint32_t chain;   /* the next message in this direction with the peer; released when this one starts */
    uint32_t after, n_after; /* range of the plan's after: the steps that this one releases when it is done */
};

struct msi_plan {
    struct msi_step *steps;
    uint32_t n;
    uint32_t *after;
    struct msi_ref *sources;    /* of PACK and REDUCE_LOCAL */
    size_t scratch[MSI_SPACES]; /* elements; 0 for IN and OUT */
    const char *algorithm;

    /* Used while the plan is made. */
    struct msi_request request;
    struct msi_hazards hazards;
    struct msi_edge *edges;
    uint32_t *last; /* the last send to each peer, then the last receive from each */
    size_t *starts; /* where each rank's share begins, and the end; all_to_all: sent, then received */
    struct msi_ref *reduce_local; /* sources of the step under construction */
    int *ranks;                   /* memory of msi_host_map */
    uint32_t n_edges, n_sources;
    size_t steps_cap, after_cap, sources_cap, edges_cap, last_cap, starts_cap, ranks_cap, reduce_cap;
    bool failed;
};

struct msi_planner;

/*
 * Makes the plan of request->rank. A zeroed struct is an empty plan. The only error is MST_ERR_MEMORY. The
 * caller checks that the request is valid and that the planner supports it.
 */
mst_status msi_plan_make(struct msi_plan *plan, const struct msi_planner *planner,
                         const struct msi_request *request);
void msi_plan_free(struct msi_plan *plan);

#endif
