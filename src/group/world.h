/*
 * world.h - a world of ranks and the groups in it.
 *
 *  1. One thread at a time uses a group. Different threads may use different groups; the world's lock
 *     protects what the groups share.
 *  2. The world owns its groups. Programs refer to the world by the handle of the group of all its ranks.
 *  3. A group fails when one of its ranks dies or leaves, and stays failed. Groups without that rank
 *     continue.
 */
#ifndef MSI_GROUP_WORLD_H
#define MSI_GROUP_WORLD_H

#include "base/handles.h"
#include "base/list.h"
#include "bootstrap/report.h"
#include "comm/comm.h"
#include "engine/module/registry.h"
#include "os/host.h"
#include "prof/record/recorder.h"
#include "wireup/endpoint.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MSI_GROUP_NAME_MAX = 64, MSI_STORE_HOSTS = 16 };

/* How a rank was lost. */
struct msi_lost_rank {
    char event;  /* 'D' died, 'L' left, 'F' failed to join */
    int order;   /* 1 for the first lost rank of the world; 0: not lost */
    bool silent; /* died: its host does not answer */
    int cause;   /* 1 + the rank because of which it has ended; 0: not known */
    bool failed; /* a call of this rank has failed because of it; the store need not report it */
};

struct msi_world {
    struct msi_world *previous;   /* whose survivors this world consists of; NULL: none */
    struct msi_join_spec spec;    /* how this rank joined */
    char rank_0[MSI_PROCESS_MAX]; /* host and pid of rank 0, once it is known; for messages */
    char lineage[MSI_RUN_MAX];    /* the run of the first world, which later ones are reformed from */
    _Atomic bool continued;       /* a later world, which owns this one, continues it */
    int first_old;                /* a rank that was in the world before; 0 in the first world */
    _Atomic uint64_t reforms;     /* votes about the next world that were decided */
    struct mst_store *store;
    bool owns_store;
    char prefix[MSI_PREFIX_MAX];
    char where[MSI_ADDRESS_TEXT_MAX]; /* address of its store, for messages */
    int rank, size, timeout_ms;
    /* [t] hosts the store after t takeovers, and [t + 1] is its standby; -1: none of this world. See
     * standby.c, which stores it and standby_port; they order nothing (relaxed). */
    _Atomic int store_ranks[MSI_STORE_HOSTS];
    _Atomic int standby_port;     /* 0: there is no standby */
    int standbys;                 /* that replaced another one */
    pthread_mutex_t standby_lock; /* protects standbys */
    int forks;                    /* msi_forks() at the opening: a forked child is not a rank */
    int streams;                  /* connections between two ranks of different hosts; 0: automatic */
    int64_t slow_s;               /* MUSTER_SLOW_S */
    int64_t spin_us;              /* MUSTER_SPIN_US */
    enum msi_copy_mode cma;       /* MUSTER_CMA */
    enum msi_copy_mode nt_stores; /* MUSTER_NT_STORES */
    struct msi_team *team;        /* MUSTER_THREADS; NULL: one thread */
    int64_t linger_ms; /* how long the rank that hosts the store waits for the others before it ends */
    struct msi_members members;
    struct msi_endpoint endpoint; /* for ranks of other hosts */
    struct msi_tuning tuning;
    char backend_path[MSI_SETTING_TEXT_MAX];
    uint32_t forced;      /* kinds that are composed even if the backend has them */
    bool stage;           /* copy memory that a backend cannot use */
    bool check;           /* engines compare collectives before they begin */
    bool hosted;          /* a rank hosts the store: rank 0 of the first world, or its standby */
    _Atomic bool cut_off; /* the store is lost */
    _Atomic int cause;    /* because of which the last call has failed; -1: none; stored under cause_lock */
    bool cause_waits;     /* for which a call waits, instead */
    bool cause_stored;    /* the store knows it */
    pthread_mutex_t cause_lock;
    mst_group *all; /* the group of all ranks */
    /* The world is being closed, and no request takes longer than that; 0: it is not. */
    _Atomic int64_t leave_by;
    struct msi_prof_world *prof;
    bool prints_profile;        /* rank 0 prints it at the end */
    struct msi_summed *summed;  /* NULL: no summary was made yet */
    pthread_mutex_t votes_lock; /* held while recovers/RANK is written: rule 3 of vote.h */
    struct msi_list votes;      /* in which threads of this rank wait, and of which other ranks know */
    pthread_mutex_t lock;       /* of what follows */
    struct msi_list groups;
    struct msi_group_count *counts; /* number of groups made of the same ranks */
    size_t n_counts;
    struct msi_lost_rank *lost_ranks; /* by rank */
    int noted;                        /* losses that this rank has found out without the store */
    bool excluded;                    /* the store has reported this rank as lost */
    int64_t events_seen;              /* bytes of the world's events that lost_ranks covers */
};

/* One communicator for each backend. A failed one is replaced when its backend is chosen again. */
struct msi_group_comm {
    const mst_backend *table; /* NULL: it was replaced, and exists only for its works */
    struct msi_comm *comm;    /* NULL: not needed yet */
    char generation[16]; /* "": the first of that backend; else the number of the exchange that made it */
};

/* Held by the thread that is in a collective of the group. */
struct msi_group_gate {
    _Atomic bool held;               /* set under the lock of a communicator of the group: msi_comm_claim */
    _Atomic(struct mst_work *) work; /* its operation; NULL: none yet, or not held */
};

struct mst_group {
    struct msi_list node;
    struct msi_world *world;
    int rank, size;         /* rank -1: not a member */
    int *ranks;             /* global; NULL for the world itself, where they are 0, 1, 2, … */
    bool ascending;         /* the ranks are; only mst_split_group orders them otherwise */
    _Atomic int timeout_ms; /* read and written by msi_group_timeout and msi_group_set_timeout */
    struct msi_group_gate gate;
    struct msi_prepared_calls *prepared;  /* prepared.h; NULL before the first */
    _Atomic uint64_t operations;          /* collectives begun; the same on all ranks */
    _Atomic uint64_t messages;            /* messages begun, about; differs between ranks */
    uint64_t barriers;                    /* barriers through the store */
    _Atomic uint64_t agreements, shrinks; /* votes that were decided; the same on all ranks that survive */
    int lost;                          /* the rank that was lost first, as far as this rank knew; -1: none */
    int blamed;                        /* the rank because of which it was lost */
    bool reported;                     /* the program has got a failure that blames that rank */
    bool *acknowledged;                /* by group rank: dead ranks that the program knows; NULL: none */
    bool one_host;                     /* all its ranks share this rank's host */
    _Atomic(struct msi_comm *) comm;   /* for host memory; NULL before the first operation */
    _Atomic(struct msi_comm *) device; /* for device memory; likewise */
    struct msi_backends backends;
    bool own_backends; /* it has backends of its own and does not follow its world */
    bool declared;     /* this rank has declared the purpose of the group */
    bool agreed;       /* this rank has published its choice of backends, and no other choice is known */
    int exchanges;     /* number of exchanges of backends, including failed ones; the same on all ranks */
    struct msi_group_comm *comms;
    int n_comms;
    uint32_t flight;                       /* its id in the flight recorder, if this rank is a member */
    const struct msi_prof_group *recorded; /* its id in records; NULL: no record yet */
    unsigned number;   /* among groups of the same ranks and label; 0: it is not counted */
    size_t counted_at; /* index into world->counts */
    mst_group *handle; /* what programs use */
    char id[48];       /* its part of the world's keys */
    char name[MSI_GROUP_NAME_MAX];
    char *desc;              /* NULL: none */
    struct mst_store *store; /* the program's view of the world's store; NULL: not used yet; world->lock */
};

/* Opens a world and joins it; *world is the group of all its ranks. */
mst_status msi_world_open(const mst_init_options *options, mst_group **world);

/* This rank's place in a world that continues another one. */
struct msi_place {
    int rank, size;
    char run[MSI_RUN_MAX];
    int first_old;      /* a rank that was in the world before */
    int store_ranks[2]; /* the first two of struct msi_world */
    /* As in struct msi_join_spec. */
    mst_status (*check)(void *context);
    void *context;
};
/* Opens a world that continues previous, which it owns after that. */
mst_status msi_world_continue(struct msi_world *previous, const struct msi_place *place,
                              const struct msi_wait *wait, mst_group **world);

/* Opens the world's engine if all ranks must start it together. All ranks call it. */
mst_status msi_world_open_engine(struct msi_world *world, int64_t timeout_ms, mst_cancel *cancel);

/* Starts profiling, as the environment says. */
mst_status msi_world_begin_prof(struct msi_world *world, const struct msi_settings *settings);
/*
 * Writes the profiles of all ranks as a table or as JSON into out on rank 0; on other ranks out stays empty.
 * All ranks call it. Only rank 0 waits for the others; ranks that are lost or late are missing, and out names
 * them.
 */
mst_status msi_world_summarize(struct msi_world *world, const struct msi_wait *wait, bool show_straggler,
                               bool json, struct msi_buf *out);
/* Prints the table at the end of the world or the program, if the environment asks for it. */
typedef void (*msi_printer)(const void *text, size_t len);
void msi_world_print_profile(struct msi_world *world, msi_printer print);
void msi_summed_free(struct msi_summed *summed);
/* The group's id in records; NULL without memory. */
const struct msi_prof_group *msi_group_recorded(mst_group *group);

/* Ends all groups, leaves the world and the previous ones, and frees them. */
void msi_world_close(struct msi_world *world, msi_printer print);

/*
 * Distinguishes groups of the same ranks. Ranks match the k-th groups that they make with the same ranks and
 * label. A label that is used once needs no count, so groups with it can be made in any order.
 */
struct msi_group_label {
    const char *text;
    bool once;
    bool ordered; /* the program chose the order of the ranks: members compare it */
};

/* What a group is made of. */
struct msi_group_spec {
    const int *ranks; /* distinct, in the world, in the order of group ranks; NULL: the world itself */
    int n;            /* 0: an empty group */
    const struct msi_group_label *label; /* NULL: none */
    const struct msi_backends *backends; /* NULL: the world's */
    const mst_group_options *options;
};
mst_status msi_group_new(struct msi_world *world, const struct msi_group_spec *spec, mst_group **group);
/* The same with the backend that the options name instead of spec->backends; the ranks agree on it. */
mst_status msi_group_make(struct msi_world *world, const struct msi_group_spec *spec, mst_group **group);
/*
 * Another group of the same ranks and backends; msi_group_end ends it. The label, which is also its name,
 * separates it from groups that the program makes of the same ranks. Does not wait.
 */
mst_status msi_group_duplicate(const mst_group *group, const char *label, mst_group **handle)
    __attribute__((nonnull));
/* Sorts ranks and checks that each is in the world and named once. */
mst_status msi_group_check_ranks(int *ranks, int n, int world_size);
/*
 * Publishes the purpose of the group, a line of text, and compares it with the first rank's, without waiting.
 * MST_ERR_MISMATCH blames that rank.
 */
mst_status msi_group_declare(mst_group *group, const char *what, const struct msi_wait *wait);
/* The same for the order of its ranks. */
mst_status msi_group_declare_order(mst_group *group, const struct msi_wait *wait);
/* Wait for callbacks of works that may wait, before the group or world ends: they may use it. The first one
 * returns false if there were none. */
bool msi_group_drain_callbacks(mst_group *group);
void msi_world_drain_callbacks(struct msi_world *world);
void msi_group_free(mst_group *group);
/* Frees a group whose making has failed on this rank alone. The rank's next group of the same ranks and label
 * has its number: it belongs to the one that the other ranks have made. */
void msi_group_discard(mst_group *group);

/* The group of a handle; NULL: it has ended, or the handle is invalid. */
static inline mst_group *msi_group_of(const mst_group *handle) {
    return msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
}
/* Fails: the group does not exist (NULL), or this process was forked from a rank of it. */
mst_status msi_group_refuse(const mst_group *group);
/* Fails unless the program can use the result of msi_group_of. */
static inline mst_status msi_group_check_use(const mst_group *group) {
    return group && group->world->forks == msi_forks_known ? MST_OK : msi_group_refuse(group);
}
/* Ends the group of a handle, unless it or its world has ended; *handle may be NULL and becomes NULL. */
void msi_group_end(mst_group **handle);

/* Leaves the group in the store; the last rank deletes its keys. */
void msi_group_leave(mst_group *group);
/* The same for the world. If it ends, a rank that hosts the store waits for the others, at most linger_ms. */
void msi_world_leave(struct msi_world *world, bool ends);

/* The rank that hosts the store now; -1: none of this world, as far as this rank knows. */
int msi_world_store_host(const struct msi_world *world);
/* Is the store lost because its host does not answer? Not if that is the host of this rank. */
bool msi_world_store_is_silent(const struct msi_world *world);
/* The same, and its standby. */
void msi_world_store_ranks(const struct msi_world *world, int ranks[2]);
/* Is this rank the last one that can serve the store: its standby, or its host if there is no standby? */
bool msi_world_keeps_store(struct msi_world *world);
/* If a rank hosts the store: another one keeps a copy of it. Without one, the store ends with that rank. */
void msi_world_copy_store(struct msi_world *world, struct msi_world *previous,
                          const struct msi_settings *settings);
/* The survivors of a group replace a standby that is lost or serves now. */
void msi_world_renew_standby(const mst_group *survivors, const struct msi_wait *wait);
/* Sets the rank that hosts the store, and its standby. */
void msi_world_set_store_ranks(struct msi_world *world, int host, int standby);

int msi_group_global_rank(const mst_group *group, int group_rank);
int msi_group_rank_of(const mst_group *group, int global_rank);

/* The default deadline of its calls. It orders nothing: a call has the old one or the new one. */
static inline int msi_group_timeout(const mst_group *group) {
    return atomic_load_explicit(&group->timeout_ms, memory_order_relaxed);
}
static inline void msi_group_set_timeout(mst_group *group, int timeout_ms) {
    atomic_store_explicit(&group->timeout_ms, timeout_ms, memory_order_relaxed);
}

/* The program's keys of the group; made at its first use. This rank is a member. */
mst_status msi_group_store(mst_group *group, struct mst_store **store);
/* The number of groups that exist in the world, which is one of them. */
int msi_world_count_groups(struct msi_world *world);

/* "group NAME" or "the world", for messages. Returns out. */
const char *msi_group_show(const mst_group *group, char *out, size_t size);

/*
 * The communicator for a buffer (NULL: none in particular), made at its first use, and the buffer's kind of
 * memory. Groups without a backend for devices do not query it.
 */
mst_status msi_group_find_comm(mst_group *group, const void *buffer, struct msi_comm **comm,
                               mst_memory *memory);
/* The communicator for a kind of memory: host memory falls back to the device's. */
mst_status msi_group_comm_of(mst_group *group, mst_memory memory, struct msi_comm **comm);
static inline mst_status msi_group_comm(mst_group *group, const void *buffer, struct msi_comm **comm,
                                        mst_memory *memory) {
    /* Stored by msi_group_comm_of. */
    struct msi_comm *made = atomic_load_explicit(&group->comm, memory_order_acquire);
    if (!made || group->backends.of[MST_MEMORY_CUDA]) return msi_group_find_comm(group, buffer, comm, memory);
    *comm = made;
    *memory = MST_MEMORY_HOST;
    return MST_OK;
}

/* Publishes this rank's backends for a new group, without waiting; MST_ERR_MISMATCH: others differ. */
mst_status msi_group_agree(mst_group *group, const struct msi_wait *wait);
/*
 * While an operation of the group waits: fails with MST_ERR_MISMATCH, and reports it to the others, if
 * another rank has chosen other backends or has called an exchange of backends instead of the operation.
 */
mst_status msi_group_check_choice(mst_group *group, const struct msi_waiting *at);

/*
 * Replaces the group's backends, or the world's and those of the groups that follow it, on all ranks or on
 * none. All ranks call it. wanted NULL: this rank cannot, because of the thread's last failure. Fails while
 * operations are in flight.
 */
mst_status msi_group_exchange(mst_group *group, const struct msi_backends *wanted,
                              const struct msi_wait *wait);
/* Writes " ID/NAME" for each backend whose communicator has failed on this rank. */
void msi_group_list_failed(const mst_group *group, struct msi_buf *out);
/* Replaces the communicator of that backend. All ranks of the group call it, with the same generation. */
mst_status msi_group_renew(mst_group *group, const mst_backend *table, const char *generation);
/* Reverts the world's exchange; all ranks do. */
mst_status msi_world_return(struct msi_world *world, const struct msi_backends *before);

/* A barrier through the store. call: the public call that it is, which is compared with those of ranks that
 * do not come; NULL: none. */
mst_status msi_group_barrier(mst_group *group, const struct msi_wait *wait, const struct msi_op_call *call);

/* Runs requests on the world's store; fails when a rank of the group, which is context, is lost. */
mst_status msi_group_exec(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n);
/*
 * keys.c: values under keys of the world. put_once sets the key unless it exists, and returns the first
 * value. read returns an empty value for a missing key. delete ignores failures.
 */
mst_status msi_world_put(struct msi_world *world, const struct msi_wait *wait, const char *name,
                         struct msi_str value);
mst_status msi_world_put_once(struct msi_world *world, const struct msi_wait *wait, const char *name,
                              struct msi_str value, struct msi_buf *first);
void msi_world_delete(struct msi_world *world, const struct msi_wait *wait, const char *name);
mst_status msi_world_read(struct msi_world *world, const struct msi_wait *wait, const char *name,
                          struct msi_buf *value);
/* Waits for the value that a rank puts there; it stays empty if the rank is lost before. */
mst_status msi_world_get(struct msi_world *world, const struct msi_wait *wait, const char *name, int rank,
                         struct msi_buf *value);
/*
 * cause.c: a call has failed, and the thread's last failure says why. If this rank ends, the others blame the
 * rank to blame for that. wait NULL: the store is not told. After a success that is taken back. told does
 * either, for a call on the group that waits in the store, and returns status. If the store is lost, its
 * message names the rank because of which the host has ended.
 */
void msi_world_tell_cause(struct msi_world *world, mst_status status, const struct msi_wait *wait);
/* The same for a call that waits for that rank for long. */
void msi_world_tell_wait(struct msi_world *world, int rank, const struct msi_wait *wait);
void msi_world_take_cause_back(struct msi_world *world);
mst_status msi_group_told(mst_group *group, mst_status status);
/* The rank that was told; -1: none. */
static inline int msi_world_cause(const struct msi_world *world) {
    return atomic_load_explicit(&world->cause, memory_order_relaxed);
}
/* What another rank has told; waits: also if it waits; -1: nothing. */
int msi_world_read_cause(struct msi_world *world, int rank, bool waits, const struct msi_wait *wait);
/* The world ends. */
void msi_world_forget_cause(struct msi_world *world);
/* A rank has ended because of another one. */
void msi_world_note_cause(struct msi_world *world, int rank, int cause);
/* The rank because of which a lost rank has ended, directly or not; that rank itself if it is not known. */
int msi_world_root_cause(struct msi_world *world, int rank);
/* The same, without asking the store. */
int msi_world_noted_cause(struct msi_world *world, int rank);

/* Reports the thread's last failure to ranks that wait in the group: it is why this rank ends it. */
void msi_group_report_end(mst_group *group, mst_status status);
/* Ends the calls on the group here and on its other ranks; their messages have the site and the reason. */
mst_status msi_group_abort(mst_group *group, const mst_site *site, const char *reason);
/* The same because this rank calls a function that all ranks must come to; blames a lost rank, if any. */
mst_status msi_group_leave_calls(mst_group *group, const mst_site *site, const char *call);
/* Fails if a rank has aborted the group; asks the store. */
mst_status msi_group_check_abort(mst_group *group);
/* Runs requests on the world's store. After the store is lost, every call fails at once. */
mst_status msi_world_exec(struct msi_world *world, const struct msi_wait *wait, struct msi_store_rpc *x,
                          size_t n);

/* Fails because the store is lost. */
mst_status msi_world_fail_store(struct msi_world *world);

/* Reads the world's events. */
mst_status msi_world_read_events(struct msi_world *world, const struct msi_wait *wait);
/* The event of a lost rank, as in struct msi_lost_rank; 0: not lost, as far as events were read. */
char msi_world_rank_event(struct msi_world *world, int rank);
/* Has the store reported this rank as lost, as far as events were read? Then others go on without it. */
bool msi_world_excludes(struct msi_world *world);
/* Has a rank died or left, as far as events were read? */
bool msi_world_has_events(struct msi_world *world);
/*
 * Tells the store which ranks of the group have ended: processes of this host, and after a standby has taken
 * over also ranks whose endpoint on another host is closed. The store knows it from their connections, unless
 * they ended before they had connected to the standby.
 */
mst_status msi_group_report_ended(const mst_group *group, const struct msi_wait *wait);

/*
 * Fails with MST_ERR_PEER_LOST, which blames the rank, if a rank of the group is lost. read: reads new events
 * from the store first.
 */
mst_status msi_group_check(mst_group *group, bool read);

/* The same without reading, and without the conclusion that the program knows it. needed: the global rank
 * that a call needs; -1: none in particular. */
mst_status msi_group_say_first_lost(mst_group *group, int needed);

/*
 * Under the world's lock: the global rank of the group that was lost first, because others may have ended as
 * a consequence; -1: none. A rank that has left in order counts if it is needed, or if no rank has died: it
 * may have left after its last call.
 */
int msi_group_first_lost(const mst_group *group, int needed);
/* See mst_ack_lost_ranks. */
mst_status msi_group_acknowledge(mst_group *group, int *ranks, int max, int *n);
/* Fails because a global rank is lost; event as in struct msi_lost_rank. */
mst_status msi_group_fail_lost(const mst_group *group, int rank, char event);
/* The same, but blames the rank because of which it has ended, if it has said so. */
mst_status msi_group_fail_ended(const mst_group *group, int rank, char event);

#endif
