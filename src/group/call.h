/* call.h - how a public call on a group begins and ends: used by api/ and pipeline/. */
#ifndef MSI_GROUP_CALL_H
#define MSI_GROUP_CALL_H

#include "coll/kind.h"
#include "group/world.h"
#include "prof/record/op_trace.h"

/* A call that is being prepared. */
struct msi_call {
    mst_call options;
    mst_group *group;
    mst_work *work; /* NULL until the arguments are checked */
    const char *name;
    enum msi_kind kind;
    mst_dtype dtype;
    size_t element; /* bytes of one */
    size_t count;
    int root;                          /* group rank; -1: none */
    const struct msi_message *message; /* of messages alone */
    uint64_t number;                   /* of a message that is issued; MSI_FLIGHT_NO_NUMBER before */
    uint64_t entered;                  /* tick; 0: not looked at yet */
    const struct msi_reducer *reducer; /* NULL: none */
};

static inline bool msi_call_is_message(const struct msi_call *call) {
    return call->kind == MSI_KIND_SEND || call->kind == MSI_KIND_RECV;
}

/* The group's counter for this kind: collectives are counted equally on all ranks, messages are not. */
static inline uint64_t *msi_call_number(const struct msi_call *call) {
    return msi_call_is_message(call) ? &call->group->messages : &call->group->operations;
}

/* The default world, which a NULL group stands for; NULL if there is none. */
mst_group *msi_default_world(void);
void msi_set_default_world(mst_group *world);
/* The group of a handle (NULL: the default world), or NULL with the failure recorded. Names the call. */
mst_group *msi_call_group(const char *name, const mst_site *site, const mst_group *handle);

/* Reads the options and finds the group; fails if the caller is not in it. */
mst_status msi_call_open(enum msi_kind kind, const mst_call *given, struct msi_call *call);
/* The same for a call whose name differs from its kind. */
mst_status msi_call_open_as(const char *name, enum msi_kind kind, const mst_call *given,
                            struct msi_call *call);

/* Checks dtype and count, and the size of n times count. */
mst_status msi_call_tensor(struct msi_call *call, size_t n, size_t count, mst_dtype dtype);
/* Fails if a buffer with elements is NULL. */
mst_status msi_call_buffer(const char *name, const void *buffer, size_t count);
/* The root, from .src or .dst. */
mst_status msi_call_root(struct msi_call *call, bool source);
/* Finds the reducer for .op. */
mst_status msi_call_reducer(struct msi_call *call);

/* Allocates call->work for a buffer of the call; count and extra go into the signature that ranks compare. */
mst_status msi_call_alloc(struct msi_call *call, const void *buffer, size_t count, uint64_t extra);
/* Reports the call in the rank state; pass the result to msi_call_leave. */
uint64_t msi_call_note(const struct msi_call *call);
/* How its bandwidth is computed. */
enum msi_share msi_call_share(enum msi_kind kind);

/*
 * A call that consists of several operations, one after the other on this thread, is one record: that of the
 * last operation, with these values. Between msi_whole_begin and msi_whole_end the other operations of its
 * group are not recorded.
 */
struct msi_whole {
    const char *name;
    enum msi_kind kind;
    mst_dtype dtype;
    const mst_call *options;
    mst_group *group;
    uint64_t bytes;          /* set before the last begins */
    bool last;               /* the next operation is the last */
    bool told;               /* the last has begun */
    uint64_t begin, seq;     /* seq: of the first operation; 0: none has begun */
    struct msi_whole *outer; /* the interrupted one, in a callback; NULL: none */
};
void msi_whole_begin(struct msi_whole *whole);
/* Records a failure that happened before the last operation. Returns status. */
mst_status msi_whole_end(struct msi_whole *whole, mst_status status);

/* Fills in the trace of the call for profiler and flight recorder. */
void msi_call_trace(const struct msi_call *call, unsigned watch, struct msi_op_trace *mark);
/* Runs call->work, or submits it if .work is set. */
mst_status msi_call_submit(struct msi_call *call);
/* Allocates and submits the work of a message. */
mst_status msi_call_submit_message(struct msi_call *call, const struct msi_message *message);

#endif
