/*
 * module.h - the engine of loaded backends (see <muster/backend.h>): submits the operations of a communicator
 * to a backend's engine, and composes those that the backend lacks.
 *
 *   module.c    opens and closes the backend's engine, and offers it the communicator's services
 *   run.c       collectives: one after the other, unless the backend keeps order itself
 *   check.c     compares what the ranks call, with MUSTER_CHECK
 *   p2p.c       messages, all at a time
 *   stream.c    operations that the program orders on a stream of its device
 *   errors.c    which rank is to blame for a failure
 *
 *  1. All ranks of the group reach open, with the same backend, before any slot of the backend is called.
 *  2. One composition is under way at a time; the operations after it in the queue have not begun.
 *  3. A failure ends the communicator, and the backend is aborted before the operations' buffers are given
 *     back. An operation that the backend can neither do nor compose fails alone: all ranks refuse it, and
 *     count it.
 */
#ifndef MSI_ENGINE_MODULE_MODULE_H
#define MSI_ENGINE_MODULE_MODULE_H

#include "comm/comm_internal.h"
#include "engine/module/compose.h"

/* Memory that compositions use, one after the other. */
struct msi_scratch {
    char *base;
    size_t size, used, wanted;
    void **more; /* what did not fit, until the end of the composition */
    int n_more;
};

/* What a rank is about to call. */
struct msi_check_header {
    uint64_t seq, hash;
    struct msi_call_signature signature;
};

/* The state of the engine. */
struct msi_module {
    struct msi_comm *comm;
    const mst_backend *table;
    mst_backend_engine *made;
    mst_backend_host host;
    mst_backend_traits traits;
    bool arrived;                             /* this rank was counted among those that open the backend */
    struct msi_check_header header, *headers; /* of this rank, and of all; NULL: they are not compared */
    size_t value_max;                         /* bytes that the store takes as one value */
    bool aborted;
    uint64_t seq; /* of the last collective */

    struct msi_composer composer;
    struct mst_work *composed; /* the operation whose composition is under way; NULL: none */
    size_t begun, over;        /* steps of the composition; all before over are done */
    struct msi_scratch scratch[MST_MEMORY_COUNT];
    const void **sources; /* of a local reduction */
    void **targets;       /* of a local scan */

    int64_t streamed;      /* until when an operation on a stream may be under way; 0: there is none */
    struct msi_list timed; /* operations on streams whose time on the device is wanted */
    int64_t watch_at;      /* when to check next whether the ranks are alive */
};

/* The state of one operation. See p2p.c for messages of variable length. */
struct msi_module_op {
    void *buf;
    uint64_t length;
    bool body;    /* the body is under way */
    bool looking; /* the backend looks for the message, and knows nothing of the operation */
};

static inline struct msi_module *msi_module(const struct msi_comm *comm) {
    return comm->state;
}

/* Ends what is under way, once. */
void msi_module_abort(struct msi_module *module);

/* Advances the collectives; true if anything ended. */
bool msi_module_advance(struct msi_module *module);
/* Advances the messages. */
bool msi_module_advance_messages(struct msi_module *module);

/* Does the backend do the operation itself? Completes the operation's description. */
bool msi_module_has(const struct msi_module *module, struct mst_work *work);
/* Fails an operation because of the status that a slot returned (rule 3). */
void msi_module_fail(struct msi_module *module, struct mst_work *work, mst_status status);
/* Does the profiler need the time on the device? */
static inline bool msi_module_times(const struct msi_module *module, const struct mst_work *work) {
    return module->table->elapsed && work->op_trace.on & MSI_SINK_RECORD;
}

/* The slots for streams. */
mst_status msi_module_enqueue(struct mst_work *work, bool *enqueued);
bool msi_module_watch_streams(struct msi_comm *comm);
/* At the end: operations on streams count as successful, and their time counts where it is known. */
void msi_module_leave_streams(struct msi_module *module);

/* Fails with the status that a slot returned, and finds the rank to blame. *culprit is a group rank or -1. */
mst_status msi_module_say(struct msi_comm *comm, mst_status status, int *culprit);
/* Has a rank died, or reported a failure? Then ends the communicator, so that operations on streams end.
 * Releases the lock meanwhile. */
void msi_module_watch_ranks(struct msi_module *module);

/* begin_check composes an all_gather of what the ranks are about to call; compare fails if they differ. */
mst_status msi_module_begin_check(struct msi_module *module, struct mst_work *work);
mst_status msi_module_compare(struct msi_module *module, const struct mst_work *work);

/* Memory that is valid until the composition ends. */
void *msi_module_scratch(void *module, mst_memory memory, size_t bytes);
void msi_module_scratch_reset(struct msi_module *module);
/* Copies between any two kinds of memory. */
mst_status msi_module_copy(struct msi_module *module, void *to, const void *from, size_t bytes);

/* Numbers a collective. */
static inline void msi_module_take_number(struct msi_module *m, struct mst_work *work) {
    work->seq = ++m->seq;
    msi_comm_numbered(work);
}

#endif
