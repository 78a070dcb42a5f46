/*
 * engine.h - the engine over MPI, compiled once for each MPI.
 *
 *  1. MPI is started by the first engine that is opened, unless the program did; the process ends it at its exit.
 *  2. A group has one communicator, made by its members alone, in which group rank and MPI rank are equal. Its errors are returned.
 *  3. An operation under way is a flight: the MPI requests that it consists of, all begun by submit. So ranks begin
 *     their collectives in the same order whatever they advance first.
 *  4. Where MPI takes calls of one thread at a time, every call of it is made between msm_lock and msm_unlock. Where it takes
 *     those of its main thread alone, muster is told so (own_thread).
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

/* Starts MPI if nobody did. With *own_thread only this thread may call it. */
mst_status msm_start(const mst_backend_host *host, bool *own_thread);
/* Something may be left in MPI that never ends: it must not be finalised. */
void msm_leave_unfinalised(void);
/* Is MPI still there to be called? */
bool msm_alive(void);
/* Identifies the job that MPI_COMM_WORLD is. */
const char *msm_job(void);
void msm_lock(void);
void msm_unlock(void);

/* ---- engine_errand.c: calls of MPI that block, with a way out */

typedef int (*msm_errand_run)(void *argument);
/*
 * Runs a call on a thread of its own and waits for it, until the deadline or the loss of a rank; *rc is what it returned. Fails
 * with what as the words if it did not come back: it may still be running then, and argument, from malloc, is freed by it.
 */
mst_status msm_errand(const mst_backend_host *host, msm_errand_run run, void *argument, const char *what,
                      const char *remedy, int *rc);

/* ---- pmi_server.c: the launcher's part of PMI, for an MPICH that has none */

/* Opens the socket that MPICH shall speak to, and serves it from a thread. The world's group. */
mst_status msm_pmi_serve(const mst_backend_host *host, int *fd);
/* From now on the group is not asked any more. */
void msm_pmi_settle(void);
const char *msm_pmi_job(void);

/* ---- engine_types.c: dtypes and ops */

/* Of the process, made once. */
int msm_types_init(const mst_backend_host *host);
/* What MPI reduces a pair of the rows as; false for AVG and the like. */
bool msm_reducer(mst_dtype dtype, mst_op op, MPI_Datatype *type, MPI_Op *mpi_op);
/* A committed type of so many bytes. */
int msm_type_bytes(size_t bytes, MPI_Datatype *type);
/* The same at a distance from the buffer's start. */
int msm_type_bytes_at(size_t start, size_t bytes, MPI_Datatype *type);

/* ---- the engine and its flights */

struct msm_flight {
    struct msm_flight *next, **back; /* under way, or spare */
    mst_backend_op *op;
    int n, over; /* requests, and how many of them are over */
    MPI_Request one, *requests;
    bool blocking; /* the calls shall not return before they are done */
    /* What MPI reads until the end: counts and displacements of the v-forms, and types that were made for it. */
    int *ints;
    MPI_Datatype *types;
    int n_types;
    /* The result, to be copied to the operation's out at the end. */
    void *scratch;
    size_t scratch_size, scratch_used;
};

struct mst_backend_engine {
    const mst_backend_host *host;
    MPI_Comm comm;
    int rank, ranks;
    int tag_max;         /* of muster's tags */
    MPI_Datatype *bytes; /* MPI_BYTE for each rank */
    bool failed;
    struct msm_flight *active, *spare;
};

/* The longest count that is given to MPI; smaller in tests. */
extern size_t msm_limit;

mst_status msm_open(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits);
void msm_close(mst_backend_engine *engine);

/* May MPI be called? Not once an operation was given up. */
mst_status msm_check_usable(const mst_backend_host *host);
mst_status msm_submit(mst_backend_engine *engine, mst_backend_op *op);
mst_status msm_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done);
mst_status msm_run(mst_backend_engine *engine, mst_backend_op *op);
bool msm_cancel(mst_backend_engine *engine, mst_backend_op *op);
void msm_abort(mst_backend_engine *engine);
void msm_flights_free(mst_backend_engine *engine);

/* Room in a flight; false: there is none. */
bool msm_flight_ints(mst_backend_engine *engine, struct msm_flight *f);
bool msm_flight_requests(struct msm_flight *f, size_t n);
bool msm_flight_types(struct msm_flight *f, size_t n);
bool msm_flight_scratch(struct msm_flight *f, size_t bytes);

/* Begin the requests of an operation; an MPI error code. */
int msm_begin(mst_backend_engine *engine, struct msm_flight *f);
int msm_begin_large(mst_backend_engine *engine, struct msm_flight *f);

/* The MPI tag of a message. */
int msm_tag(const mst_backend_op *op);

/* Must it be begun as a large one? */
bool msm_is_large(const mst_backend_engine *engine, const mst_backend_op *op);

/* Elements of all blocks, and of a rank's; counts may be NULL. */
size_t msm_total(const size_t *counts, size_t count, int ranks);
static inline size_t msm_count(const size_t *counts, size_t count, int rank) {
    return counts ? counts[rank] : count;
}

/* Says what MPI's error code means. */
mst_status msm_say(const mst_backend_host *host, const char *what, int rc);

/* What MPI_IN_PLACE is; the macro is a cast that some compilers' warnings dislike. */
static inline const void *msm_in(const void *in, bool in_place) {
    return in_place ? MPI_IN_PLACE : in;
}

static inline int64_t msm_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
