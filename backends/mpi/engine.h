/*
 * engine.h - the MPI engine, compiled once for each MPI.
 *
 *  1. The first engine starts MPI unless the program has done so. The process finalizes MPI at exit.
 *  2. A group has two communicators, created by its members alone: one for the program's messages, and one
 *     for everything else, so that no receive with any tag matches muster's own messages. (In a group of one
 *     rank, it would also match the collectives of MPICH.) Group rank and MPI rank are equal in them. Their
 *     error handler returns errors.
 *  3. An operation in progress is a struct msm_request: the MPI requests of the operation, all started by
 *     submit. So all ranks start their collectives in the same order.
 *  4. With MPI_THREAD_SERIALIZED, every MPI call is made between msm_lock and msm_unlock. Below that level,
 *     only MPI's main thread may use the engine, and muster is told so (own_thread).
 */
#ifndef MSM_ENGINE_H
#define MSM_ENGINE_H

#include <muster/backend.h>

#include <mpi.h>
#include <pthread.h>

#ifdef MSM_OPENMPI
#define MSM_FLAVOUR "Open MPI"
#else
#define MSM_FLAVOUR "MPICH"
#endif

/* ---- engine_start.c: MPI in this process */

/* Starts MPI if necessary. With *own_thread only this thread may call it. */
mst_status msm_start(const mst_backend_host *host, bool *own_thread);
/* An operation that never completes may remain in MPI: skip MPI_Finalize at exit. */
void msm_leave_unfinalised(void);
/* Has MPI_Finalize not been called yet? */
bool msm_alive(void);
/* The name of the job of MPI_COMM_WORLD. */
const char *msm_job(void);
void msm_lock(void);
void msm_unlock(void);

/* ---- engine_timed_call.c: blocking MPI calls with a deadline */

typedef int (*msm_call)(void *argument);
/*
 * Runs a call on its own thread and waits for it until the host's deadline or the loss of a rank. *rc is its
 * result. If it does not return in time, fails with the message what; the call may still be running then.
 * argument is from malloc; on failure the call owns and frees it, otherwise the caller does.
 */
mst_status msm_timed_call(const mst_backend_host *host, msm_call run, void *argument, const char *what,
                          const char *remedy, int *rc);

/* ---- pmi_server.c: a PMI server for an MPICH that was started without a launcher */

/* Opens the PMI socket of MPICH and serves it from a thread. host is the group of the world. */
mst_status msm_pmi_serve(const mst_backend_host *host, int *fd);
/* Stops using the host after MPI has started. */
void msm_pmi_detach(void);
const char *msm_pmi_job(void);

/* ---- engine_types.c: dtypes and ops */

/* Creates the MPI operations, once per process. Returns an MPI error code. */
int msm_types_init(const mst_backend_host *host);
/* The MPI datatype and operation of a reduction. */
void msm_reducer(mst_dtype dtype, mst_op op, MPI_Datatype *type, MPI_Op *mpi_op);
/* Creates a committed datatype of so many bytes, at an offset from the start of the buffer. */
int msm_type_bytes_at(size_t start, size_t bytes, MPI_Datatype *type);

/* ---- the engine and its requests */

struct msm_request {
    struct msm_request *next, **back; /* in active or spare */
    mst_backend_op *op;
    int n, over; /* MPI requests; completed ones */
    MPI_Request one, *requests;
    bool blocking; /* use MPI's blocking calls */
    bool large;    /* its counts exceed msm_limit */
    int count;     /* op->count elements as an MPI count of … */
    MPI_Datatype type;
    MPI_Op how; /* of a reduction */
    /* Valid until completion: counts and displacements of the v-forms, and datatypes of this operation. */
    int *ints;
    MPI_Datatype *types;
    int n_types;
    /* The result, if it must be copied to the operation's out at completion. */
    void *scratch;
    size_t scratch_size, scratch_used;
};

struct mst_backend_engine {
    const mst_backend_host *host;
    MPI_Comm comm, messages;
    int rank, ranks;
    int tag_max;         /* largest tag of a user's message */
    MPI_Datatype *bytes; /* MPI_BYTE for each rank */
    bool failed;
    struct msm_request *active, *spare;
};

/* The largest count that is passed to MPI; smaller in tests. */
extern size_t msm_limit;

/* Fails if MPI was finalized, or if an operation was aborted: MPI would continue it in any later call. */
mst_status msm_check_usable(const mst_backend_host *host);
/* The same as a question. */
bool msm_may_call(void);

mst_status msm_open(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits);
void msm_close(mst_backend_engine *engine);

mst_status msm_submit(mst_backend_engine *engine, mst_backend_op *op);
mst_status msm_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done);
mst_status msm_run(mst_backend_engine *engine, mst_backend_op *op);
bool msm_cancel(mst_backend_engine *engine, mst_backend_op *op);
mst_status msm_find(mst_backend_engine *engine, mst_backend_op *op, bool *found);
void msm_abort(mst_backend_engine *engine);
void msm_requests_free(mst_backend_engine *engine);

/* Allocate arrays of a request; false without memory. */
bool msm_request_ints(mst_backend_engine *engine, struct msm_request *request);
bool msm_request_array(struct msm_request *request, size_t n);
bool msm_request_types(struct msm_request *request, size_t n);
bool msm_request_scratch(struct msm_request *request, size_t bytes);

/* Starts the MPI requests of an operation. Returns an MPI error code. */
typedef int (*msm_starter)(mst_backend_engine *engine, struct msm_request *request);
int msm_start_request(mst_backend_engine *engine, struct msm_request *request);
/* The function for a large operation; NULL if the normal one serves it, with one datatype per block. */
msm_starter msm_large_starter(const mst_backend_op *op);

static inline bool msm_reduces(const mst_backend_op *op) {
    return op->kind == MST_KIND_ALL_REDUCE || op->kind == MST_KIND_REDUCE ||
           op->kind == MST_KIND_REDUCE_SCATTER;
}
/* Do the counts of the operation exceed msm_limit? */
bool msm_is_large(const mst_backend_engine *engine, const mst_backend_op *op);

/* Elements of all blocks, and of one rank's block. counts may be NULL. */
size_t msm_total(const size_t *counts, size_t count, int ranks);
static inline size_t msm_count(const size_t *counts, size_t count, int rank) {
    return counts ? counts[rank] : count;
}

/* The source and the tag of a receive, as MPI calls them. */
static inline int msm_source(const mst_backend_op *op) {
    return op->peer < 0 ? MPI_ANY_SOURCE : op->peer;
}
static inline int msm_tag(const mst_backend_op *op) {
    return op->tag == MST_ANY_TAG ? MPI_ANY_TAG : op->tag;
}

/* Fails with the text of an MPI error code. */
mst_status msm_fail_mpi(const mst_backend_host *host, const char *what, int rc);

/* MPI_IN_PLACE is a cast that some compilers warn about; this keeps it in one place. */
static inline const void *msm_in(const void *in, bool in_place) {
    return in_place ? MPI_IN_PLACE : in;
}

static inline int64_t msm_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
