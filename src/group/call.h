/* call.h - how a public call on a group begins and ends: used by api/ and pipeline/. */
#ifndef MSI_GROUP_CALL_H
#define MSI_GROUP_CALL_H

#include "base/kind.h"
#include "group/world.h"
#include "prof/record/op_trace.h"

/* A public call. */
struct msi_call {
    const mst_call *options; /* the program's, or copy */
    mst_call copy;
    mst_group *group;
    mst_work *work; /* NULL before all arguments are checked */
    const char *name;
    enum msi_kind kind;
    mst_dtype dtype;
    size_t element; /* bytes of one */
    size_t count;
    int root;                          /* group rank, also of a message's peer; -1: none */
    bool gated;                        /* it has entered the group's gate */
    bool variable;                     /* message: only the sender knows its length */
    bool usual;                        /* it has none of the rare options */
    const struct msi_op *op;           /* its description, once there is one */
    uint64_t number;                   /* of a message that is issued; MSI_FLIGHT_NO_NUMBER before */
    uint64_t entered;                  /* tick; 0: not looked at yet */
    const struct msi_reducer *reducer; /* NULL: none */
    const struct msi_user_op *user;    /* NULL: .op is not user-defined */
};

static inline bool msi_call_is_message(const struct msi_call *call) {
    return call->kind == MSI_KIND_SEND || call->kind == MSI_KIND_RECV;
}

/* The number of collectives, or of messages, that the group has begun. Ranks agree on the former only. */
static inline _Atomic uint64_t *msi_call_number(const struct msi_call *call) {
    return msi_call_is_message(call) ? &call->group->messages : &call->group->operations;
}

/* Counts one up. Threads that send at the same time may count one for both: these are for display only. */
static inline uint64_t msi_count_up(_Atomic uint64_t *count) {
    uint64_t n = atomic_load_explicit(count, memory_order_relaxed) + 1;
    atomic_store_explicit(count, n, memory_order_relaxed);
    return n;
}

/*
 * A thread is in a collective of the group from enter to leave. MST_ERR_STATE: another thread is, and both
 * calls are named.
 */
mst_status msi_gate_enter(mst_group *group);
void msi_gate_leave(mst_group *group);
/* Its operation. Loaded by a thread that finds the gate held, and that has had the communicator's lock since
 * the work was made. */
static inline void msi_gate_set_work(mst_group *group, struct mst_work *work) {
    atomic_store_explicit(&group->gate.work, work, memory_order_relaxed);
}
/* msi_gate_leave without the lock: the operation uses it for all that other threads may see. */
static inline void msi_gate_open(mst_group *group) {
    msi_gate_set_work(group, NULL);
    atomic_store_explicit(&group->gate.held, false, memory_order_relaxed);
}

/* The default world, which a NULL group stands for; NULL if there is none. */
mst_group *msi_default_world(void);
void msi_set_default_world(mst_group *world);
/* The group of a handle (NULL: the default world), or NULL with the failure recorded. Names the call. */
mst_group *msi_call_group(const char *name, const mst_site *site, const mst_group *handle);

/* Fails: this rank is not in the group. */
mst_status msi_fail_not_member(const mst_group *group);

/* Checks the options and finds the group; fails if this rank is not in it. */
mst_status msi_call_open_as(const char *name, enum msi_kind kind, const mst_call *given,
                            struct msi_call *call);
/* The same for a call that has the name of its kind. */
static inline mst_status msi_call_open(enum msi_kind kind, const mst_call *given, struct msi_call *call) {
    return msi_call_open_as(msi_kind_names[kind], kind, given, call);
}

/* Fails if an option is given that calls of this kind do not use, or if .timeout_ms is negative. */
mst_status msi_call_check_options(const char *name, enum msi_kind kind, const mst_call *options);

/* Checks dtype and count; n times count elements must fit into memory. */
mst_status msi_call_tensor(struct msi_call *call, size_t n, size_t count, mst_dtype dtype);
/* Checks dtype and counts: one block for each rank, of count elements if counts is NULL. */
mst_status msi_call_blocks(struct msi_call *call, const size_t *counts, size_t count, mst_dtype dtype);
/* Checks that a buffer is not NULL, unless it has no elements. */
mst_status msi_call_buffer(const char *name, const void *buffer, size_t count);
/* Checks .root. */
mst_status msi_call_root(struct msi_call *call);
/* Checks the peer of a message, the argument with this name. */
mst_status msi_call_peer(struct msi_call *call, const char *name, int peer);
/* Fails if .quantize, which is given, does not go with these. */
mst_status msi_check_quantize(mst_quantize quantize, mst_dtype dtype, mst_op op, bool deterministic);
/* Finds the reducer for .op. A user-defined one requires that count, or each of counts, is whole units. */
mst_status msi_call_reducer(struct msi_call *call, const size_t *counts, size_t count);

/*
 * A collective of the group is rejected on this rank: status and the thread's last failure say why. If that
 * is because of its arguments, tells the other ranks, which get MST_ERR_MISMATCH if they make the call.
 * Returns status.
 */
mst_status msi_group_reject(mst_group *group, enum msi_kind kind, const struct msi_op_call *call,
                            mst_status status);
/* The same for a call that was opened, if it has no work yet. */
mst_status msi_call_reject(const struct msi_call *call, mst_status status);

/* Gets call->work, whose buffer tells which backend executes it, and describes it but for its count and
 * buffers. */
mst_status msi_call_alloc(struct msi_call *call, const void *buffer);
/* Writes the call to the rank state page, for the launcher; the result is for msi_call_leave. */
uint64_t msi_call_note(const struct msi_call *call);

/*
 * A call that makes several operations, one after the other on this thread, has one profiler record: that of
 * the last operation, with these values. Between msi_whole_begin and msi_whole_end the group's other
 * operations on this thread are not recorded, and other threads cannot enter collectives of the group.
 */
struct msi_whole {
    const char *name;
    enum msi_kind kind;
    mst_dtype dtype;
    uint8_t form; /* MSI_SIGNED_BYTES or MSI_SIGNED_COALESCED */
    int root;     /* -1: none */
    size_t parts; /* operations, if all ranks must have as many; else 0 */
    const mst_call *options;
    mst_group *group;
    uint64_t bytes;          /* set before the last operation begins */
    bool last;               /* the next operation is the last */
    bool recorded;           /* the last operation was recorded */
    uint64_t begin, seq;     /* seq: of the first operation; 0: none was begun */
    struct msi_whole *outer; /* the one that a callback interrupts; NULL: none */
};
mst_status msi_whole_begin(struct msi_whole *whole);
/* The one that this thread is in, on this group; NULL: none. */
const struct msi_whole *msi_whole_here(const mst_group *group);
extern _Atomic int msi_wholes; /* in all threads; reading it is cheaper than asking which are here */
static inline const struct msi_whole *msi_whole_of(const mst_group *group) {
    /* Only the changes of this thread matter. */
    return atomic_load_explicit(&msi_wholes, memory_order_relaxed) ? msi_whole_here(group) : NULL;
}
/* Records a failure before the last operation began. Returns status. */
mst_status msi_whole_end(struct msi_whole *whole, mst_status status);

/* Fills in what the profiler and the flight recorder keep of the call. */
void msi_call_trace(const struct msi_call *call, unsigned watch, struct msi_op_trace *op_trace);
/* Runs call->work, whose description is complete; with .work only starts it. */
mst_status msi_call_submit(struct msi_call *call);
/* Allocates and submits the work of a message, which op describes. */
mst_status msi_call_submit_message(struct msi_call *call, const struct msi_op *op);
/* The same, but only starts it: msi_comm_complete runs call->work to its end. */
mst_status msi_call_start_message(struct msi_call *call, const struct msi_op *op);
/* Looks for the message of a receive, once or until there is one. Profiles do not contain probes. */
mst_status msi_call_probe(struct msi_call *call, const struct msi_op *op, bool wait);

#endif
