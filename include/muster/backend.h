/*
 * backend.h - engines: who executes the operations of a group, and how to add one.
 *
 * "native" is always there. Others are tables like the one below, registered by the program or found as modules: every file
 * mst_backend_NAME.so in the directories of MUSTER_BACKEND_PATH and in the one that muster was installed with is loaded when NAME
 * is asked for, and its function mst_backend_module() gives the table. The modules mpi, gloo and nccl use nothing but
 * this header; examples/backend is one that lives outside of muster's tree.
 *
 * What muster does for every engine, so that none has to: checks of arguments, works, callbacks, waiting, deadlines, cancellation,
 * the death of ranks, words for errors; and what an engine lacks is composed from what it has, with a warning.
 *
 * Lifetimes and threads
 *  1. A table and all that it points to stay for ever. Slots without "optional" must be there.
 *  2. An engine serves one group. Its ranks open it together, submit the same operations in the same order (but for
 *     messages), and close it whenever they are through with it.
 *  3. The slots of one engine are called by one thread at a time, not always the same (see own_thread); engines of different groups at
 *     once. No slot may block, except open, run and close, and those only until their deadline.
 *  4. An operation, its buffers and arrays are borrowed from submit until progress says that it is done or fails, or until abort
 *     returns. Several may be under way.
 *  5. Slots fail by returning what host->fail returned, which takes the words of the error. A failure of submit, run or progress ends
 *     the engine: abort and close follow. But submit may refuse a message, as for its tag, with MST_ERR_UNSUPPORTED or
 *     MST_ERR_INVALID: nothing has begun then, and the engine goes on.
 */
#ifndef MUSTER_BACKEND_H
#define MUSTER_BACKEND_H

#include <muster/comm.h>
#include <muster/group.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the tables below. muster takes tables of this version; fields are only ever added at the end. */
enum { MST_BACKEND_VERSION = 1 };

/*  X(number, name, text). What engines do; numbers never change. */
#define MST_KIND_TABLE(X)                                                                                    \
    X(0, BARRIER, "barrier")                                                                                 \
    X(1, BROADCAST, "broadcast")                                                                             \
    X(2, ALL_REDUCE, "all_reduce")                                                                           \
    X(3, REDUCE, "reduce")                                                                                   \
    X(4, ALL_GATHER, "all_gather")                                                                           \
    X(5, REDUCE_SCATTER, "reduce_scatter")                                                                   \
    X(6, ALL_TO_ALL, "all_to_all")                                                                           \
    X(7, GATHER, "gather")                                                                                   \
    X(8, SCATTER, "scatter")                                                                                 \
    X(9, SEND, "send")                                                                                       \
    X(10, RECV, "recv")
#define MST_KIND_ENTRY(number, name, text) MST_KIND_##name = (number),
typedef enum mst_kind { MST_KIND_TABLE(MST_KIND_ENTRY) MST_KIND_COUNT } mst_kind;
#undef MST_KIND_ENTRY

/* Where buffers lie. */
typedef enum mst_memory { MST_MEMORY_HOST, MST_MEMORY_CUDA, MST_MEMORY_COUNT } mst_memory;

/* What an operation may ask for beyond its kind, as bits. */
enum mst_form {
    MST_FORM_UNEVEN = 1,   /* all_gather, reduce_scatter, all_to_all: blocks of different lengths */
    MST_FORM_LISTS = 2,    /* blocks that lie apart */
    MST_FORM_IN_PLACE = 4, /* in and out overlap: one buffer, or one is this rank's block of the other */
    MST_FORM_TAG = 8,      /* messages: a tag that is not 0 */
    MST_FORM_ANY_SOURCE = 16,
    MST_FORM_DETERMINISTIC = 32, /* the bits of a reduction depend on the inputs alone */
    MST_FORM_COUNT = 6,
};

/* One row of what an engine can do; it can do an operation if some row has all its bits. */
typedef struct mst_backend_capability {
    uint32_t kinds;    /* 1 << MST_KIND_…; 0: the end of the rows */
    uint32_t dtypes;   /* 1 << MST_F32, …; 0: all of them, as of kinds that only move bytes */
    uint32_t ops;      /* 1 << MST_SUM, …; of reductions alone */
    uint32_t memories; /* 1 << MST_MEMORY_…; 0: host */
    uint32_t forms;    /* MST_FORM_…; what is not here is not given to the engine in these kinds */
} mst_backend_capability;

/*
 * An operation, as the calls of comm.h mean it. count is that of the call; buffers that a rank does not need, as gather's out
 * on other ranks than the root, are NULL or to be left alone.
 */
typedef struct mst_backend_op {
    mst_kind kind;
    mst_dtype dtype;
    size_t element; /* bytes of one */
    mst_op op;
    double factor; /* of PREMUL_SUM */
    int root;      /* group rank; -1: none */
    int peer;      /* of messages: group rank; -1: any */
    int tag;       /* of messages; -1: one of muster's own, which meets no other */
    size_t count;
    const void *in; /* broadcast: what the root sends; elsewhere equal to out */
    void *out;
    /* UNEVEN: elements of each rank's block; the blocks lie one behind the other. NULL: count each. */
    const size_t *in_counts, *out_counts;
    /* LISTS: where each rank's block is; in or out is NULL then. */
    const void *const *in_list;
    void *const *out_list;
    mst_memory memory;
    /*
     * Of the device: the operation is enqueued there when submit returns (group_end, inside a group), behind all that is on it;
     * submit may wait for that until the deadline. NULL: none; then it begins behind what is on the device's default stream.
     */
    void *stream;
    int64_t deadline; /* of run, and of submit with a stream: CLOCK_MONOTONIC in ns; 0: some minutes */

    /* The engine's. Zeroed before submit, but for sender, which is -1. */
    int sender; /* recv: the group rank that it came from, once it is done */
    void *request;
    uint64_t word[2];

    bool timed; /* elapsed will be asked for; submit clears it where that cannot be told */
    /* With a stream: nobody asks how it goes. It counts as over when it is enqueued, and the engine lets go of it then. */
    bool unwatched;
} mst_backend_op;

typedef struct mst_backend_engine mst_backend_engine; /* what open makes */

/* What a group offers its engine. It stays until close has returned. */
typedef struct mst_backend_host {
    size_t size; /* of this struct */
    void *context;
    int rank, ranks;                        /* in the group */
    const int *global;                      /* by group rank: the rank in the world */
    int world_rank, world_size, local_rank; /* of this process; local_rank counts on its host */
    const char *name; /* of the group; unlike any other of the world's, and the same on all its ranks */
    int64_t deadline; /* of open: CLOCK_MONOTONIC in ns */

    const char *address; /* this process's, as other hosts reach it */
    bool one_host;       /* all ranks of the group share this process's host */

    /*
     * Keys of the group's engine alone, in the world's store. get waits for a key, until the deadline or until a rank of the group
     * is lost, and gives back memory whose data free() frees. set refuses values beyond MUSTER_STORE_MAX_VALUE (64 MiB) with
     * MST_ERR_LIMIT. From any thread.
     */
    mst_status (*set)(const struct mst_backend_host *host, const char *key, const void *value, size_t len);
    mst_status (*get)(const struct mst_backend_host *host, const char *key, int64_t deadline,
                      mst_bytes *value);

    /* Says what failed, and how to mend it (NULL: nobody knows); culprit is the group rank to blame, or -1. Returns status. */
    mst_status (*fail)(const struct mst_backend_host *host, mst_status status, int culprit,
                       const char *remedy, const char *what);
    /* A line in the log: 'W' warning, 'I' information, 'D' for whoever looks for faults. */
    void (*log)(const struct mst_backend_host *host, char level, const char *line);

    /*
     * out = a op b, element by element, rounded to the dtype; out may be a or b. Vectorised. Neither AVG nor PREMUL_SUM. False
     * where the pair has no meaning. From any thread.
     */
    bool (*combine)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);
} mst_backend_host;

/* What open says of an engine; zeroed before. */
typedef struct mst_backend_traits {
    /* Only the thread that opened it may call: works advance while the program waits or tests. */
    bool own_thread;
    /* Operations take effect in the order of submission: none need be over before the next is submitted. */
    bool ordered;
    /* Readable when progress would get somewhere; 0: there is none, and muster looks again and again. */
    int poll_fd;
} mst_backend_traits;

typedef struct mst_backend {
    unsigned version; /* MST_BACKEND_VERSION */
    /*
     * All ranks of a world must have opened the world's engine before one of some of them is: mst_init and mst_set_backend open it then, if it
     * is the world's backend. Else the first operation of a group opens its engine.
     */
    bool world_first;
    size_t size;       /* of this struct */
    const char *name;  /* as in .backend = "name" */
    const char *title; /* a few words for `muster info` */

    /*
     * Can it be used in this process? False with the reason, a line that says how to change it. On success, its version and what
     * else is worth knowing, or nothing. May load libraries; must not change how the process behaves. Called before all others and
     * more than once.
     */
    bool (*probe)(char *text, size_t size);

    /* What it can do; the last row is zero. Called at any time; after a probe that found a library, for that one's version. */
    const mst_backend_capability *(*rows)(void);

    /*
     * Joins the ranks of the group, who all call it, and gives back the engine. What it has made when it fails it has undone. A group
     * may be opened again after it was closed: host->name differs then.
     */
    mst_status (*open)(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits);

    /* Begins an operation that rows() has. */
    mst_status (*submit)(mst_backend_engine *engine, mst_backend_op *op);

    /* Advances the engine, and says whether the operation is over. */
    mst_status (*progress)(mst_backend_engine *engine, mst_backend_op *op, bool *done);

    /*
     * Optional: runs an operation on this thread to its end, at most until op->deadline (MST_ERR_TIMEOUT). Used in place of submit
     * where the program waits, nothing else is under way and no cancellation was given: for engines that have a faster way, or no other.
     */
    mst_status (*run)(mst_backend_engine *engine, mst_backend_op *op);

    /* Optional: takes back a message that has not met its counterpart. False: it is too late, the engine must be aborted. */
    bool (*cancel)(mst_backend_engine *engine, mst_backend_op *op);

    /*
     * The group has failed: ends all operations under way, without the help of other ranks, which may be dead. Their buffers are
     * the program's again when it returns. Only release and close follow.
     */
    void (*abort)(mst_backend_engine *engine);

    /* Ends the engine. Operations that are under way are aborted. */
    void (*close)(mst_backend_engine *engine);

    /*
     * Optional, all or none, for engines whose memory is not the host's: where a pointer points; memory for compositions; copies
     * in any direction, done when they return and behind all that was submitted before.
     */
    mst_memory (*memory_of)(const void *pointer);
    void *(*alloc)(mst_backend_engine *engine, size_t bytes); /* NULL: there is none */
    void (*release)(mst_backend_engine *engine, void *memory);
    mst_status (*copy)(mst_backend_engine *engine, void *to, const void *from, size_t bytes);

    /*
     * Optional, both or none: what is submitted between them is begun together, by group_end, in an order in which it cannot block
     * itself; engines may join it into fewer steps. All ranks group the same collectives. No other slot but submit is called in
     * between, and groups are not nested. A failure of group_end is one of all that was submitted, and ends the engine.
     */
    mst_status (*group_begin)(mst_backend_engine *engine);
    mst_status (*group_end)(mst_backend_engine *engine);

    /*
     * Optional: how long an operation that was submitted as timed took on the device, without what it waited for on its stream. Once
     * progress has said that it is done, as long as the operation is kept.
     */
    mst_status (*elapsed)(mst_backend_engine *engine, const mst_backend_op *op, double *seconds);
} mst_backend;

/*
 * Makes an engine known under its name, in place of a module of that name. Fails if the table is of another version, lacks a slot,
 * or the name is taken or malformed (letters, digits and _).
 */
mst_status mst_backend_register(const mst_backend *table);

/* The function of a module, by which muster gets its table; version: MST_BACKEND_VERSION of that muster. NULL: it cannot serve that. */
const mst_backend *mst_backend_module(unsigned version);

/*
 * The backends that are known, loaded or not: false behind the last, else *name is that of the i-th, until this thread's next call.
 * With a text, *usable says whether it can be used here, and text why not, or its version. Without one nothing is loaded. Each of the
 * three may be NULL.
 */
bool mst_backend_list(int i, const char **name, bool *usable, char *text, size_t size);
/* What a backend can do where it can be used, for tables; NULL, and mst_error() says why, if there is none of that name. */
const mst_backend_capability *mst_backend_rows(const char *name);

/*
 * Which backend a group uses: "native", "mpi", …, or one for each kind of memory as "cpu:native,cuda:nccl". NULL, and
 * mst_error() says why, if there is no such group. Lives as long as the group, until it is exchanged.
 */
const char *mst_get_backend(const mst_group *group);

typedef struct mst_exchange_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(int timeout_ms); /* 0: the group's */
    MST_OPTION(mst_cancel *cancel);
} mst_exchange_options;

/*
 * Exchanges it, for the group and, if that is a world, for all its groups that were not given one of their own. All ranks of the
 * group call it at the same point, with nothing under way, and it waits for them: it succeeds on all or on none, and ranks that want
 * different ones get MST_ERR_MISMATCH. Works that are done and were not waited for stay valid. Backends that were used before are kept
 * and cost nothing to return to; where one has failed, its group gets it anew. "auto" as in mst_init. Meanwhile no other thread makes or ends groups of that world.
 */
mst_status mst_set_backend_with(mst_group *group, const char *backend, const mst_exchange_options *options);

#ifdef __cplusplus
}
inline mst_status mst_set_backend(mst_group *group, const char *backend, mst_exchange_options options = {},
                                  MST_SITE_PARAMETERS) {
    return mst_set_backend_with(group, backend, MST_FILL_OPTIONS(options));
}
#else
#define mst_set_backend(group, ...)                                                                          \
    mst_set_backend_with(group, MST_LAST_POSITIONAL(__VA_ARGS__),                                            \
                         MST_OPTIONS_AFTER(mst_exchange_options, __VA_ARGS__))
#endif
#endif
