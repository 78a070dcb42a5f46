/*
 * backend.h - the interface of backends: engines that execute the operations of a group.
 *
 * The backend "native" is built in. Other backends are tables like the one below. The program registers them,
 * or they are modules: muster loads the file mst_backend_NAME.so from the directories of MUSTER_BACKEND_PATH
 * and from its own module directory when NAME is requested; its function mst_backend_module() returns the
 * table. The modules mpi, gloo and nccl use only this header. examples/backend is a module outside of
 * muster's tree.
 *
 * muster does the following for every engine: argument checks, works, callbacks, waiting, deadlines,
 * cancellation, detection of dead ranks, error messages. It composes operations that an engine lacks from
 * those that it has, with a warning.
 *
 * Lifetimes and threads
 *  1. A table and everything that it points to must stay valid forever. All slots not marked optional are
 *     required.
 *  2. An engine serves one group. Its ranks open it together, submit the same collectives in the same order,
 *     and close it independently. Messages may have any order.
 *  3. One thread at a time calls the slots of an engine, not always the same thread (see own_thread). Engines
 *     of different groups are called concurrently. Only open, run and close may block, and only until their
 *     deadline.
 *  4. An engine borrows an operation, its buffers and its arrays from submit until progress reports that it
 *     is done or failed, or until abort returns. Several operations may be in progress.
 *  5. A slot fails by returning the result of host->fail, which takes the error message. After a failure of
 *     submit, run, progress or find muster calls abort and close. Exception: submit and find may reject a
 *     message, for example because of its tag, with MST_ERR_UNSUPPORTED or MST_ERR_INVALID; the engine stays
 *     usable.
 */
#ifndef MUSTER_BACKEND_H
#define MUSTER_BACKEND_H

#include <muster/comm.h>
#include <muster/group.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the tables below. Fields are only added at the end. */
enum { MST_BACKEND_VERSION = 1 };

/*  X(number, name, text): the kinds of operations. Numbers never change. */
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
    X(10, RECV, "recv")                                                                                      \
    X(11, SCAN, "scan")                                                                                      \
    X(12, EXSCAN, "exscan")
#define MST_KIND_ENTRY(number, name, text) MST_KIND_##name = (number),
typedef enum mst_kind { MST_KIND_TABLE(MST_KIND_ENTRY) MST_KIND_COUNT } mst_kind;
#undef MST_KIND_ENTRY

/* The tag of messages of which compositions consist. */
enum { MST_INTERNAL_TAG = -2 };

/* The memory of a buffer. */
typedef enum mst_memory { MST_MEMORY_HOST, MST_MEMORY_CUDA, MST_MEMORY_COUNT } mst_memory;

/* Properties of an operation besides its kind, as bits. */
enum mst_form {
    MST_FORM_UNEVEN = 1,   /* all_gather, gather, scatter, reduce_scatter, all_to_all: lengths differ */
    MST_FORM_LISTS = 2,    /* blocks that are not contiguous */
    MST_FORM_IN_PLACE = 4, /* in and out overlap: one buffer, or one is this rank's block of the other */
    MST_FORM_TAG = 8,      /* messages: a non-zero tag */
    MST_FORM_ANY_SOURCE = 16,
    MST_FORM_DETERMINISTIC = 32, /* the result of a reduction depends on the inputs alone, bit for bit */
    MST_FORM_ANY_TAG = 64,       /* recv: the tag is MST_ANY_TAG */
    MST_FORM_COUNT = 7,
};

/* A set of operations. An engine supports an operation if one of its rows has all bits of the operation. */
typedef struct mst_backend_capability {
    uint32_t kinds;    /* 1 << MST_KIND_…; 0: end of the array */
    uint32_t dtypes;   /* 1 << MST_F32, …; 0: all, for kinds that only move bytes */
    uint32_t ops;      /* 1 << MST_SUM, …; reductions only */
    uint32_t memories; /* 1 << MST_MEMORY_…; 0: host */
    uint32_t forms;    /* MST_FORM_…; muster submits no other forms of these kinds */
} mst_backend_capability;

/*
 * An operation with the arguments of the call in comm.h. Buffers that a rank does not need, such as gather's
 * out on ranks other than the root, are NULL or must not be accessed.
 */
typedef struct mst_backend_op {
    mst_kind kind;
    mst_dtype dtype;
    size_t element; /* bytes of an element */
    mst_op op;
    double factor; /* of PREMUL_SUM */
    int root;      /* group rank; -1: none */
    int peer;      /* messages: group rank; -1: any */
    /* Messages. MST_ANY_TAG (-1) matches all tags from 0 up; progress sets it to the message's tag when it
     * reports completion. MST_INTERNAL_TAG matches only itself. */
    int tag;
    size_t count;
    const void *in; /* broadcast: the root's data; equal to out on other ranks */
    void *out;
    /* UNEVEN: elements of each rank's block; the blocks are contiguous. NULL: count each. */
    const size_t *in_counts, *out_counts;
    /* LISTS: the address of each rank's block; in or out is NULL then. */
    const void *const *in_list;
    void *const *out_list;
    mst_memory memory;
    /*
     * A stream of the device. When submit returns (inside a group: group_end), the operation is enqueued on
     * it; submit may wait for that until the deadline. NULL: the operation starts after the work on the
     * device's default stream.
     */
    void *stream;
    int64_t
        deadline; /* of run, and of submit with a stream: CLOCK_MONOTONIC in ns; 0: the engine's own limit */

    /* For the engine. Zeroed before submit, except sender, which is -1. */
    int sender; /* recv: the group rank of the sender, set on completion */
    void *request;
    uint64_t word[2];

    bool timed; /* elapsed will be called; submit clears it if the time cannot be measured */
    /* With a stream: progress is not called. The operation counts as done when it is enqueued. */
    bool unwatched;
} mst_backend_op;

typedef struct mst_backend_engine mst_backend_engine; /* created by open */

/* Services of a group for its engine. Valid until close has returned. */
typedef struct mst_backend_host {
    size_t size; /* of this struct */
    void *context;
    int rank, ranks;                        /* in the group */
    const int *global;                      /* by group rank: the global rank */
    int world_rank, world_size, local_rank; /* of this process; local_rank is its rank on the host */
    const char *name;                       /* of the group; unique in the world and the same on all ranks */
    int64_t deadline;                       /* of open: CLOCK_MONOTONIC in ns */

    const char *address; /* of this process, reachable from other hosts */
    bool one_host;       /* all ranks of the group are on this host */

    /*
     * Access to keys of the world's store that are private to this engine. Any thread may call them. set
     * fails with MST_ERR_LIMIT for values larger than MUSTER_STORE_MAX_VALUE (64 MiB). get waits for a key
     * until the deadline or the loss of a rank of the group; the caller frees value->data with free().
     */
    mst_status (*set)(const struct mst_backend_host *host, const char *key, const void *value, size_t len);
    mst_status (*get)(const struct mst_backend_host *host, const char *key, int64_t deadline,
                      mst_bytes *value);

    /* Sets the error: what failed, remedy or NULL, and the group rank that caused it or -1; returns status */
    mst_status (*fail)(const struct mst_backend_host *host, mst_status status, int culprit,
                       const char *remedy, const char *what);
    /* Writes a line to the log: 'W' warning, 'I' information, 'D' debug. */
    void (*log)(const struct mst_backend_host *host, char level, const char *line);

    /*
     * Computes out = a op b for each element, rounded to the dtype. out may be a or b. Any thread may call
     * it. Returns false if the dtype does not support op, and for AVG and PREMUL_SUM.
     */
    bool (*combine)(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count);

    const void *buffer; /* of open: one of the group's first operation, or NULL */
} mst_backend_host;

/* Properties of an engine, set by open. Zeroed before open. */
typedef struct mst_backend_traits {
    /* Only the thread that opened it may call it. Works make progress only inside mst_wait and mst_test. */
    bool own_thread;
    /* Operations take effect in submission order, so that muster need not wait for one before the next. */
    bool ordered;
    /* A descriptor that is readable when progress has work; 0: none, muster polls. */
    int poll_fd;
} mst_backend_traits;

typedef struct mst_backend {
    unsigned version; /* MST_BACKEND_VERSION */
    /*
     * All ranks must open the engine of the world before the engine of a smaller group. mst_init and
     * mst_set_backend open it, if it is the world's backend. Otherwise the first operation of a group opens
     * its engine.
     */
    bool world_first;
    size_t size;       /* of this struct */
    const char *name;  /* for .backend = "name" */
    const char *title; /* one line for `muster info` */

    /*
     * Checks whether the backend is usable in this process. If not, returns false and writes the reason and
     * the remedy to text. Otherwise writes its version, or nothing. May load libraries, but must not change
     * the behaviour of the process. muster calls it before all other slots, and more than once.
     */
    bool (*probe)(char *text, size_t size);

    /* Returns its capabilities; the last row is zero. They may change once probe has found a library. */
    const mst_backend_capability *(*rows)(void);

    /*
     * Connects the ranks of the group and creates the engine. All ranks call it. On failure it releases
     * everything. After close the group may be opened again, with another host->name.
     */
    mst_status (*open)(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits);

    /* Starts an operation that rows() includes. */
    mst_status (*submit)(mst_backend_engine *engine, mst_backend_op *op);

    /* Advances the engine. Sets *done if the operation is complete. */
    mst_status (*progress)(mst_backend_engine *engine, mst_backend_op *op, bool *done);

    /*
     * Optional: runs an operation to completion on this thread, until op->deadline (MST_ERR_TIMEOUT). muster
     * uses it instead of submit for a blocking call without a cancellation token if no other operation is in
     * progress.
     */
    mst_status (*run)(mst_backend_engine *engine, mst_backend_op *op);

    /* Optional: cancels an unmatched message. If it returns false, muster aborts the engine. */
    bool (*cancel)(mst_backend_engine *engine, mst_backend_op *op);

    /*
     * Aborts all operations in progress after the group has failed. Must not need other ranks, which may be
     * dead. When it returns, the engine does not access their buffers any more. Only release and close
     * follow.
     */
    void (*abort)(mst_backend_engine *engine);

    /* Frees the engine. Aborts operations in progress. */
    void (*close)(mst_backend_engine *engine);

    /*
     * Optional, all or none, for engines with device memory. memory_of identifies the memory of a pointer.
     * alloc and release provide memory for compositions. copy copies in any direction, after all submitted
     * operations, and returns when done.
     */
    mst_memory (*memory_of)(const void *pointer);
    void *(*alloc)(mst_backend_engine *engine, size_t bytes); /* NULL: out of memory */
    void (*release)(mst_backend_engine *engine, void *memory);
    mst_status (*copy)(mst_backend_engine *engine, void *to, const void *from, size_t bytes);

    /*
     * Optional, both or none: group_end starts the operations submitted since group_begin together, in an
     * order that cannot deadlock; engines may merge them. All ranks group the same collectives. Between the
     * two muster calls only submit; groups are not nested. If group_end fails, all operations of the group
     * have failed, and muster aborts the engine.
     */
    mst_status (*group_begin)(mst_backend_engine *engine);
    mst_status (*group_end)(mst_backend_engine *engine);

    /*
     * Optional: returns the time that a timed operation took on the device, without waiting on its stream.
     * Valid after progress has reported completion, while the operation exists.
     */
    mst_status (*elapsed)(mst_backend_engine *engine, const mst_backend_op *op, double *seconds);

    /*
     * Optional: looks for a message that has arrived and that the receive op, which is not submitted, would
     * match. If there is one, sets *found, op->sender, op->tag, and op->count to its bytes. muster calls it
     * for probes, and before it submits a receive of unknown length. Without it, there are no probes, and a
     * message of unknown length is two messages of one tag: its length, and its bytes if there are any.
     */
    mst_status (*find)(mst_backend_engine *engine, mst_backend_op *op, bool *found);
} mst_backend;

/*
 * Registers a backend under its name; it replaces a module of that name. Fails if the table has another
 * version or lacks a slot, or if the name is in use or malformed (letters, digits and _ are allowed).
 */
mst_status mst_backend_register(const mst_backend *table);

/* Exported by each module: returns its table, or NULL if it does not support this MST_BACKEND_VERSION. */
const mst_backend *mst_backend_module(unsigned version);

/*
 * Lists the known backends, loaded or not: sets *name to the name of the i-th, valid until this thread's next
 * call, and returns false after the last. If text is not NULL, loads the backend, sets *usable, and writes
 * its version or why it is not usable. name, usable and text may be NULL.
 */
bool mst_backend_list(int i, const char **name, bool *usable, char *text, size_t size);
/* Returns the capabilities of a backend. Returns NULL and sets mst_error() if the name is unknown. */
const mst_backend_capability *mst_backend_rows(const char *name);

/*
 * Returns the backend of a group: "native", "mpi", …, or one for each kind of memory, such as
 * "cpu:native,cuda:nccl". The string is valid until the backend is exchanged or the group is destroyed.
 * Returns NULL and sets mst_error() if the group does not exist.
 */
const char *mst_get_backend(const mst_group *group);

#define mst_exchange_options_fields                                                                          \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(int timeout_ms); /* 0: the group's */                                                         \
    MST_OPTION(mst_cancel *cancel);
typedef struct mst_exchange_options {
    mst_exchange_options_fields
} mst_exchange_options;

/*
 * Exchanges the backend of a group; of a world, also that of all its groups without a backend of their own.
 * "auto" works as in mst_init. All ranks of the group call it at the same point, with no operation in
 * progress. The call blocks until all ranks have called it, and succeeds on all ranks or on none. Ranks that
 * request different backends get MST_ERR_MISMATCH. Completed works stay valid. Earlier backends are kept, so
 * that returning to one is cheap; a failed one is opened again. No other thread may create or destroy groups
 * of that world meanwhile.
 */
mst_status mst_set_backend_with(mst_group *group, const char *backend, const mst_exchange_options *options);

#ifdef __cplusplus
}
#endif

MST_WRAP_2(mst_set_backend, mst_exchange_options, mst_group *, const char *)

#define mst_set_backend(...) MST_CALL_2(mst_set_backend, mst_exchange_options, __VA_ARGS__)
#endif
