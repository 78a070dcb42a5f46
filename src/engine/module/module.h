/*
 * module.h - operations of a comm whose engine is a module's (see <muster/backend.h>): described for it, composed where it lacks
 * them, submitted and advanced. A comm has a region, links or an engine.
 *
 *   engine.c        opens and closes it, and what it is offered
 *   op.c     what the comm's operations are in its words
 *   run.c    collectives: one after the other, unless the engine keeps order itself
 *   check.c  whether all ranks are about to call the same, where somebody asks for that
 *   p2p.c   messages, all at a time
 *   errors.c    who is to blame where it fails
 *
 *  1. All ranks of the group come to msi_engine_open, with the same backend, before any slot of it is called.
 *  2. One composition is under way at a time, and nothing behind it in the queue.
 *  3. Whatever fails ends the comm, and the engine is aborted before the operations' buffers are given back. But what cannot be done
 *     at all fails alone: ranks refuse it alike, and count it alike.
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
struct msi_head {
    uint64_t seq, signature;
    struct msi_call_signature told;
};

struct msi_engine {
    struct msi_comm *comm;
    const mst_backend *table;
    mst_backend_engine *made;
    mst_backend_host host;
    mst_backend_traits traits;
    struct msi_head head, *heads; /* this rank's, and those of all; NULL: they are not compared */
    size_t value_max;             /* bytes that the store takes as one value */
    bool aborted;
    bool blocking; /* the program waits, and nothing else is under way: the engine's run may be used */
    uint64_t seq;  /* of the last collective */

    struct msi_composer composer;
    struct mst_work *composed; /* whose composition is under way; NULL: none */
    size_t begun, over;        /* steps of it; all before over are */
    struct msi_scratch scratch[MST_MEMORY_COUNT];
    const void **sources; /* of a fold */
};

mst_status msi_engine_open(struct msi_comm *comm, const struct msi_wait *wait, struct msi_engine **engine);
void msi_engine_free(struct msi_engine *engine);
/* Ends what is under way, once. */
void msi_engine_abort(struct msi_engine *engine);

/* Advances the comm's queue; true if anything ended. */
bool msi_engine_advance(struct msi_comm *comm);
/*
 * Orders an operation on its stream, if the engine has it and everything before it has begun: then *through, and nobody waits for it.
 */
mst_status msi_engine_enqueue(struct msi_engine *engine, struct mst_work *op, bool *through);
/* Shall it be known how long it takes on the device? */
static inline bool msi_engine_times(const struct msi_engine *engine, const struct mst_work *op) {
    return engine->table->elapsed && op->op_trace.on & MSI_SINK_RECORD;
}
/* Has the device come past one that was ordered there, and that is timed? */
bool msi_engine_is_past(struct msi_engine *engine, struct mst_work *op);
/* Nanoseconds that an operation that is over took on the device; 0: not known. */
uint64_t msi_engine_elapsed(struct msi_engine *engine, const struct mst_work *op);
/*
 * Nobody waits for what is on streams, so this looks whether a rank has died, with whom it would never end. Lets go of the comm's lock
 * meanwhile.
 */
void msi_engine_watch(struct msi_comm *comm);
/* Advances its messages. */
bool msi_engine_advance_messages(struct msi_comm *comm);

/* Fails with who is to blame for what a slot returned as its failure. *culprit is a group rank or -1. */
mst_status msi_engine_say(struct msi_comm *comm, mst_status status, int *culprit);
/* An operation waits for long: has another rank given up, or called something else? Fails if so. Needs no lock. */
mst_status msi_engine_look(struct msi_comm *comm, const struct msi_waiting *at, int *culprit);

/* The operation as modules know it. */
void msi_engine_describe(struct mst_work *op, mst_backend_op *job);

/* Composes what tells all ranks what this one is about to call; and fails if they are not about to call the same. */
mst_status msi_engine_begin_check(struct msi_engine *engine, struct mst_work *op);
mst_status msi_engine_compare(struct msi_engine *engine, const struct mst_work *op);

/* For the files of an engine alone. */
void *msi_engine_scratch(void *engine, mst_memory memory, size_t bytes);
void msi_engine_scratch_reset(struct msi_engine *engine);
/* Says once in this process and kind that something is composed, and what it costs. */
void msi_engine_warn(const struct msi_engine *engine, const mst_backend_op *job);
/* Copies between any two kinds of memory. */
mst_status msi_engine_copy(struct msi_engine *engine, void *to, const void *from, size_t bytes);

#endif
