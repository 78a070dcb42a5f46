/* call.h - how a public call on a group begins and ends: used by api/ and pipeline/. */
#ifndef MSI_GROUP_CALL_H
#define MSI_GROUP_CALL_H

#include "coll/kind.h"
#include "group/world.h"
#include "prof/record/op_trace.h"

/* A call that is being put together. */
struct msi_call {
    mst_call options;
    mst_group *group;
    mst_work *work; /* NULL before it is known that all arguments make sense */
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

/* How many such the group has begun: ranks agree on their collectives, not on their messages. */
static inline uint64_t *msi_call_number(const struct msi_call *call) {
    return msi_call_is_message(call) ? &call->group->messages : &call->group->operations;
}

/* The default world, which a NULL group stands for; NULL if there is none. */
mst_group *msi_default_world(void);
void msi_set_default_world(mst_group *world);
/* The group of a handle (NULL: the default world), or NULL with the failure recorded. Names the call. */
mst_group *msi_call_group(const char *name, const mst_site *site, const mst_group *handle);

/* Takes the options and finds the group; fails if the caller is not in it. */
mst_status msi_call_open(enum msi_kind kind, const mst_call *given, struct msi_call *call);
/* The same for a call that has another name than its kind. */
mst_status msi_call_open_as(const char *name, enum msi_kind kind, const mst_call *given,
                            struct msi_call *call);

/* dtype and count make sense, and so does the number of bytes of n times count. */
mst_status msi_call_tensor(struct msi_call *call, size_t n, size_t count, mst_dtype dtype);
/* A buffer that is not NULL, unless it has no elements. */
mst_status msi_call_buffer(const char *name, const void *buffer, size_t count);
/* The root, from .src or .dst. */
mst_status msi_call_root(struct msi_call *call, bool source);
/* The reducer for .op, which msi_call_alloc hands on. */
mst_status msi_call_reducer(struct msi_call *call);

/* Gets call->work, described by what the call is about, for a buffer of it; count and extra go into what ranks compare. */
mst_status msi_call_alloc(struct msi_call *call, const void *buffer, size_t count, uint64_t extra);
/* Tells the launcher of the call, by the state; for msi_call_leave. */
uint64_t msi_call_note(const struct msi_call *call);
/* What its bandwidths are reckoned by. */
enum msi_share msi_call_share(enum msi_kind kind);

/*
 * A call that is made of others, one after the other on this thread, is one record: that of the last of them, with what is said here.
 * Between msi_whole_begin and msi_whole_end the others of its group are not recorded.
 */
struct msi_whole {
    const char *name;
    enum msi_kind kind;
    mst_dtype dtype;
    const mst_call *options;
    mst_group *group;
    uint64_t bytes;          /* to be known before the last begins */
    bool last;               /* what begins now is the last */
    bool told;               /* it was */
    uint64_t begin, seq;     /* seq: of the first of them; 0: none was begun */
    struct msi_whole *outer; /* that it came between, in a callback; NULL: none */
};
void msi_whole_begin(struct msi_whole *whole);
/* One that failed before the last began is recorded as that. Returns status. */
mst_status msi_whole_end(struct msi_whole *whole, mst_status status);

/* Fills in what whoever watches wants to know of the call. */
void msi_call_trace(const struct msi_call *call, unsigned watch, struct msi_op_trace *mark);
/* Runs call->work, or lets it run where .work asks for that. */
mst_status msi_call_submit(struct msi_call *call);
/* Allocates and submits the work of a message. */
mst_status msi_call_submit_message(struct msi_call *call, const struct msi_message *message);

#endif
