/* comm_internal.h - what the files of a comm share. See comm.h. */
#ifndef MSI_COMM_COMM_INTERNAL_H
#define MSI_COMM_COMM_INTERNAL_H

#include "comm/comm.h"
#include "prof/record/message_seq.h"

/* How long a wait has gone on. */
struct msi_idle {
    uint32_t turns;
    int64_t since;  /* 0 before the clock was looked at */
    int64_t looked; /* when the store was last asked */
    int sleep_ms;
};

struct msi_comm {
    int rank, size;
    int local;           /* ranks on this host */
    bool oversubscribed; /* more ranks than processors */
    bool met;            /* all ranks of this host have opened the region */
    bool joined;         /* this rank has what its operations need: a region, links or an engine */
    int *pids;
    char *key;
    uint64_t number; /* made of the key: in hellos to other hosts it stands for the group */
    struct msi_hosts hosts;
    const struct msi_tuning *tuning;
    struct msi_endpoint *endpoint;
    struct msi_net *net;       /* where the ranks are on several hosts; NULL before they have met … */
    int *ports;                /* … at these ports, by rank */
    int streams;               /* connections with a rank of another host; 0: as is best */
    int owed;                  /* barriers that this rank gave up before it had met the others … */
    struct mst_work left;      /* … and that are like this one */
    const mst_backend *table;  /* whose engine runs it; NULL: it has a region or links */
    struct msi_engine *engine; /* NULL before it was opened */
    uint32_t forced;           /* as in struct msi_comm_place */
    bool stage, check;
    bool arrived; /* this rank was counted in among those who come to open the engine */
    int *globals; /* by rank: its rank in the world */
    int world_size, local_rank;
    struct msi_comm_hooks hooks;
    int *places; /* by rank: its place among those of this host; -1: it is on another */
    /* Of this host; NULL before it was found, and for the only rank of one of several hosts. */
    struct msi_shm_region *region;
    struct msi_maps *maps; /* of other ranks' memory */
    struct msi_failure failure;
    struct msi_list queue;          /* of struct mst_work under way; the first one is being run */
    struct msi_list messages;       /* likewise, all at a time */
    struct msi_p2p *p2p;            /* NULL before the first message */
    struct msi_message_seq message_seq; /* of messages, while somebody watches */
    struct msi_list kept;           /* done, and not waited for yet */
    struct msi_list spare;
    struct msi_list ended;   /* those whose callbacks are still to be called */
    pthread_t caller;        /* if calling, this thread calls them, … */
    struct mst_work *called; /* … and is in that one's */

    pthread_mutex_t lock; /* rule 2 */
    pthread_cond_t changed;
    bool threaded, ending;
    bool calling;            /* the callbacks of what ended */
    bool sleeping;           /* the thread sleeps until something that it knew of happens */
    bool batched_messages;   /* some may not have begun */
    unsigned batch, batches; /* the number of the one that is being submitted, 0: none; how many there were */
    pthread_t batcher;       /* the thread that submits that one: batches do not mix */
    /* Until when something that was left alone on a stream may be under way; 0: there is none. */
    int64_t streamed;
    struct msi_list timed; /* struct mst_work on streams whose time on the device shall be known */
    int64_t watch_at;      /* when to look next whether those who take part are still there */
    pthread_t thread;
    uint64_t noted;        /* what the store was told of this rank's waiting; 0: nothing */
    struct msi_idle tests; /* of whoever asks again and again whether an operation is done */

    struct pollfd *watched; /* what a sleeper polls for; NULL before it is needed */
};

/* Rule 2. */
static inline void msi_comm_lock(struct msi_comm *comm) {
    if (comm->threaded) pthread_mutex_lock(&comm->lock);
}
static inline void msi_comm_unlock(struct msi_comm *comm) {
    if (comm->threaded) pthread_mutex_unlock(&comm->lock);
}

/*
 * Whoever holds the lock lets go of it, to ask the store: what it knew of the comm may have changed then. Returns what msi_comm_hold
 * wants to know.
 */
static inline bool msi_comm_let_go(struct msi_comm *comm) {
    bool locked = comm->threaded;
    if (locked) pthread_mutex_unlock(&comm->lock);
    return locked;
}
static inline void msi_comm_hold(struct msi_comm *comm, bool locked) {
    if (locked) pthread_mutex_lock(&comm->lock);
}

/* Of a wait whose clock does not run yet. */
#define MSI_NO_DEADLINE INT64_MAX

/* How often to look for something before the processor is given away: where others need it, at once; looks over connections
 * are system calls themselves. */
static inline uint32_t msi_comm_spins(const struct msi_comm *comm) {
    return comm->oversubscribed ? 1 : comm->net ? 200 : 4000;
}

/* Between two looks. */
static inline void msi_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__("yield" ::: "memory");
#endif
}

/* A comm of the same ranks without a table, for the native engine of a comm with one. */
mst_status msi_comm_new_inside(const struct msi_comm *comm, const char *key, struct msi_comm **inside);
/* Begins an operation of such a comm, without waiting for it; once it is done it is returned. */
mst_status msi_comm_begin_here(struct mst_work *op);

/* The group rank of a global one; -1: none. */
static inline int msi_comm_rank_of(const struct msi_comm *comm, int global) {
    for (int r = 0; r < comm->size && global >= 0; r++)
        if (comm->globals[r] == global) return r;
    return -1;
}

/* What is needed before the first operation; this is it, or another that comes first. */
mst_status msi_comm_join(struct mst_work *op);

/* All ranks of this host have opened the region: nobody needs to find it any more. */
void msi_comm_met(struct msi_comm *comm);

/* Starts the comm's thread, if there is none. */
mst_status msi_comm_start_thread(struct msi_comm *comm);
/* For that thread, when it has nothing else to do: waits a little and looks after what is on streams; false: there is nothing. */
bool msi_comm_watch_streams(struct msi_comm *comm);
/* Without that thread, at the end: what is on streams went well as far as is known, and its time counts where it is over. */
void msi_comm_leave_streams(struct msi_comm *comm);

/* It cannot begin: whoever wants to know hears of it, and it is taken back. Returns the status. */
mst_status msi_comm_refuse(struct mst_work *op, mst_status status);
/* Tells who wants to know that it is over. */
void msi_comm_mark_over(struct mst_work *op);
/* An operation is over, well or not. */
void msi_comm_end(struct mst_work *op);

/* The message is issued, or, if it is from any source, was met: the rank at its other end is known. Under the lock. */
static inline void msi_comm_number(struct mst_work *op, int peer) {
    if (!msi_watch_on()) return;
    op->message.numbered = op->message.peer >= 0;
    uint64_t number = msi_message_seq_next(&op->comm->message_seq, peer, op->message.tag, op->message.send);
    if (op->mark.on) msi_op_trace_number(&op->mark, number);
}
/* It was withdrawn, and the other side has seen nothing of it. Twice is harmless. */
static inline void msi_comm_unnumber(struct mst_work *op) {
    struct msi_message *m = &op->message;
    if (m->numbered && !m->met) msi_message_seq_undo(&op->comm->message_seq, m->peer, m->tag, m->send);
    m->numbered = false;
}
/* One from any source is from this rank. */
static inline void msi_comm_number_any(struct mst_work *op, int peer) {
    struct msi_comm *comm = op->comm;
    msi_comm_number(op, peer);
    if (op->mark.on) msi_op_trace_peer(&op->mark, comm->hooks.global(comm->hooks.context, peer));
}

/* Advances the first operation and all that can follow; true if anything moved or ended. */
bool msi_comm_advance(struct msi_comm *comm);

/*
 * Nothing moved: waits a little, in whatever way is best by now. Fails the comm if the first operation's deadline has
 * passed, it was cancelled or a rank that it needs is gone. may_sleep false: only spins or yields.
 */
void msi_comm_idle(struct msi_comm *comm, struct msi_idle *idle, bool may_sleep);
/* Has it waited so shortly that it is not to sleep yet? */
bool msi_comm_is_patient(const struct msi_idle *idle);

/* Does the comm's own thread advance what was submitted? */
bool msi_comm_has_thread(const struct msi_comm *comm);

/* Has another rank of this host given up the group? Then it is over here, too. */
bool msi_comm_heard(struct msi_comm *comm);

/*
 * On another thread than the comm's own, which, if it sleeps, does not know what there is to wait for now: msi_comm_advance, and
 * the callbacks of what ended.
 */
bool msi_comm_help(struct msi_comm *comm);
/* Under the lock: nobody needs it any more, whichever list it is in. */
static inline void msi_comm_spare(struct mst_work *op) {
    msi_list_remove(&op->node);
    msi_list_push(&op->comm->spare, &op->node);
}

/* Done, or so for its own callback. */
bool msi_comm_is_over(const struct mst_work *op);
/* How one that is over went. */
mst_status msi_comm_explain(const struct mst_work *op);
/* Under the lock: waits for one that the program holds as of this turn, and takes it back. */
mst_status msi_comm_wait_for(struct mst_work *op, unsigned turn, const struct msi_wait *wait);

/* Calls a work's callback. */
void msi_comm_tell(void (*callback)(mst_status, void *), mst_status status, void *arg);

/* The group is being destroyed: tells the callbacks of works that will not be done. */
void msi_comm_call_off(struct msi_comm *comm);

/* Ends what was begun to watch other ranks while this one sleeps. */
void msi_comm_stop_watching(struct msi_comm *comm);

/*
 * Ends the operation with the thread's last failure, which blames a group rank or nobody (-1), and with it the comm, unless
 * rule 3 spares it; the others are told.
 */
void msi_comm_fail(struct msi_comm *comm, struct mst_work *op, mst_status status, int culprit);
/* Keeps the thread's last failure, which blames a group rank or nobody (-1). */
void msi_comm_keep(struct msi_comm *comm, struct msi_failure *failure, mst_status status, int culprit);
/* Ends the comm with the failure of an operation; the others are told. */
void msi_comm_give_up(struct msi_comm *comm, const struct mst_work *op);
/* Fails this thread with a failure that was kept. */
mst_status msi_comm_repeat(const struct msi_failure *failure);

/* Words for what a rank announced: "mst_all_reduce of 17 f32 (SUM) at train.c:33"; returns out. */
const char *msi_call_signature_show(const struct msi_call_signature *told, char *out, size_t size);

/* Fails with what became of a rank that cannot be reached any more, and why. */
mst_status msi_comm_say_cut_off(struct msi_comm *comm, mst_status status, int rank, const char *why);
/* Fail with what the host operation found, and with who has not come at a deadline. *culprit is a group rank or -1. */
mst_status msi_comm_say(struct msi_comm *comm, const struct msi_shm_coll *op, int *culprit);
mst_status msi_comm_say_stalled(struct msi_comm *comm, const struct mst_work *op, int *culprit);
/* The same for a message. */
mst_status msi_comm_say_unmet(struct msi_comm *comm, const struct mst_work *op, int *culprit);

#endif
