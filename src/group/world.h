/*
 * world.h - a world of ranks and the groups in it.
 *
 *  1. A world and its groups are used by one thread at a time, except that different groups may be used by
 *     different threads at once: what they share is behind the world's lock.
 *  2. The world owns its groups; the group of all its ranks is the handle that users have of it.
 *  3. A group fails when one of its ranks dies or leaves, and stays failed; groups without that rank go on.
 */
#ifndef MSI_GROUP_WORLD_H
#define MSI_GROUP_WORLD_H

#include "base/handles.h"
#include "base/list.h"
#include "bootstrap/join.h"
#include "comm/comm.h"
#include "os/host.h"
#include "prof/record/recorder.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MSI_GROUP_NAME_MAX = 64 };

/* What became of a rank: how ('D' died, 'L' left, 'F' failed to join), and as the how many-th; 0 while it is there. */
struct msi_gone {
    char how;
    int order;
};

struct msi_world {
    struct mst_store *store;
    bool owns_store;
    char prefix[MSI_PREFIX_MAX];
    char where[MSI_ADDRESS_TEXT_MAX]; /* its store, for messages */
    int rank, size, timeout_ms;
    int forks;         /* msi_forks() when it was opened: a forked child is no rank */
    int64_t linger_ms; /* how long the rank that hosts the store waits for the others at its end */
    struct msi_members members;
    struct msi_endpoint endpoint; /* for ranks of other hosts */
    struct msi_tuning tuning;
    int streams; /* connections between ranks of different hosts; 0: as is best */
    char backend_path[MSI_SETTING_TEXT_MAX];
    uint32_t forced;      /* kinds that are composed even where the backend has them */
    bool stage;           /* memory that a backend cannot use is copied */
    bool check;           /* engines compare collectives before they begin */
    bool hosted;          /* rank 0 hosts the store */
    _Atomic bool cut_off; /* the store is lost, and with it everything that needs it */
    mst_group *all;       /* the group of all ranks */
    struct msi_prof_world *prof;
    bool prints_profile;       /* rank 0 does, in the end */
    struct msi_summed *summed; /* NULL: no summary was made yet */
    pthread_mutex_t lock;      /* of what follows */
    struct msi_list groups;
    struct msi_group_count *counts; /* how many groups were made of the same ranks */
    size_t n_counts;
    struct msi_gone *gone; /* by rank */
    int64_t events_seen;   /* how many bytes of the world's events gone knows of */
};

/* A comm that a group has had: one for each backend, and kept. One that has failed is replaced when the backend is chosen again. */
struct msi_group_comm {
    const mst_backend *table; /* NULL: another has its place, and it is kept for its works */
    struct msi_comm *comm;    /* NULL: it has not been needed yet */
    char generation
        [16]; /* "": the first of that backend; else the exchange that brought it, as all ranks call it */
};

struct mst_group {
    struct msi_list node;
    struct msi_world *world;
    int rank, size; /* rank -1: not a member */
    int *ranks;     /* global, ascending; NULL for the world itself, where they are 0, 1, 2, … */
    int timeout_ms;
    uint64_t operations;     /* begun so far, alike on all its ranks, … */
    uint64_t messages;       /* … and messages, which are not */
    uint64_t barriers;       /* those among them that went through the store */
    int lost;                /* the rank that ended the group; -1 while it works */
    bool one_host;           /* all its ranks share this rank's host */
    struct msi_comm *comm;   /* for memory of the host; NULL before the first operation there */
    struct msi_comm *device; /* likewise, for memory of the device */
    struct msi_backends backends;
    bool own_backends; /* it was given them, and does not follow its world */
    bool declared;     /* it has told the others what it is for */
    bool agreed;       /* it has told the others what it chose, and none is known to have chosen otherwise */
    int exchanges;     /* how often they were, or should have been, exchanged; counts alike on all ranks */
    struct msi_group_comm *comms;
    int n_comms;
    uint32_t flight;                       /* as the flight recorder knows it, if this rank is a member */
    const struct msi_prof_group *recorded; /* as records know it; NULL: none of it was made */
    mst_group *handle;                     /* what the program has of it */
    char id[48];                           /* its part of the world's keys */
    char name[MSI_GROUP_NAME_MAX];
};

/* Opens a world and joins it; *world is the group of all its ranks. */
mst_status msi_world_open(const mst_init_options *options, mst_group **world);

/* Opens the world's engine, if it is one that all ranks must start together; they all call it. */
mst_status msi_world_open_engine(struct msi_world *world, int64_t timeout_ms, mst_cancel *cancel);

/* Begins what is recorded of the world, as the environment says. */
mst_status msi_world_begin_prof(struct msi_world *world, const struct msi_settings *settings);
/*
 * The profiles of all ranks as a table or as JSON, into out on rank 0; elsewhere out stays empty. All ranks call it, and only rank 0
 * waits for the others: those that are gone, or have not come by the deadline, are missing and named.
 */
mst_status msi_world_summarize(struct msi_world *world, const struct msi_wait *wait, bool show_straggler,
                               bool json, struct msi_buf *out);
/* Has the table printed at the world's end, or the program's, where the environment asks for it. */
typedef void (*msi_printer)(const void *text, size_t len);
void msi_world_print_profile(struct msi_world *world, msi_printer print);
void msi_summed_free(struct msi_summed *summed);
/* The group as records know it; NULL if there is no memory. */
const struct msi_prof_group *msi_group_recorded(mst_group *group);

/* Leaves: ends all groups and the world. */
void msi_world_close(struct msi_world *world, msi_printer print);

/*
 * What a group is made for: members pair up the first, second, … that they make of the same ranks with the same label. One that
 * is made once needs no counting, and so may be made in any order among others.
 */
struct msi_group_label {
    const char *text;
    bool once;
};

/* Makes a group of ascending, distinct ranks that are in the world; label NULL: none; backends NULL: the world's. */
mst_status msi_group_new(struct msi_world *world, const int *ranks, int n,
                         const struct msi_group_label *label, const mst_group_options *options,
                         const struct msi_backends *backends, mst_group **group);
/* The same with the backend that the options name, on which its ranks agree. */
mst_status msi_group_make(struct msi_world *world, const int *ranks, int n,
                          const struct msi_group_label *label, const mst_group_options *options,
                          mst_group **group);
/* Sorts ranks and checks that each is in the world and named once. */
mst_status msi_group_check_ranks(int *ranks, int n, int world_size);
/*
 * Tells the other ranks what this one made the group for, a line of text, without waiting. MST_ERR_MISMATCH blames the one who
 * came first and said otherwise.
 */
mst_status msi_group_declare(mst_group *group, const char *what, const struct msi_wait *wait);
void msi_group_free(mst_group *group);

/* The group of a handle; NULL: it has ended, or never was. */
static inline mst_group *msi_group_of(const mst_group *handle) {
    return msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
}
/* Says why a program cannot use a group: NULL, there is none; or this process was forked from a rank of it. */
mst_status msi_group_refuse(const mst_group *group);
/* Fails unless a program can use what msi_group_of found. */
static inline mst_status msi_group_check_use(const mst_group *group) {
    return group && group->world->forks == msi_forks_known ? MST_OK : msi_group_refuse(group);
}
/* Ends the group of a handle, if that and its world have not ended; *handle, which may be NULL, becomes NULL. */
void msi_group_end(mst_group **handle);

/* Counts this rank out of what the group has in the store; the last one deletes it. */
void msi_group_forget(mst_group *group);
/* The same for the world, and tells the others; a rank 0 that hosts the store waits for them, at most linger_ms. */
void msi_world_leave(struct msi_world *world);

int msi_group_global_rank(const mst_group *group, int group_rank);
int msi_group_rank_of(const mst_group *group, int global_rank);

/* "group NAME" or "the world", for messages. Returns out. */
const char *msi_group_show(const mst_group *group, char *out, size_t size);

/*
 * The comm for a buffer (NULL: none in particular), made at its first use, and the memory that the buffer is. Groups without a
 * backend for devices do not ask what memory it is.
 */
mst_status msi_group_find_comm(mst_group *group, const void *buffer, struct msi_comm **comm,
                               mst_memory *memory);
/* The one for a memory: the device's also serves the host's where there is no other. */
mst_status msi_group_comm_of(mst_group *group, mst_memory memory, struct msi_comm **comm);
static inline mst_status msi_group_comm(mst_group *group, const void *buffer, struct msi_comm **comm,
                                        mst_memory *memory) {
    if (!group->comm || group->backends.of[MST_MEMORY_CUDA])
        return msi_group_find_comm(group, buffer, comm, memory);
    *comm = group->comm;
    *memory = MST_MEMORY_HOST;
    return MST_OK;
}

/* Tells the other ranks what this one chose for a new group, without waiting; MST_ERR_MISMATCH if another chose otherwise. */
mst_status msi_group_agree(mst_group *group, const struct msi_wait *wait);
/*
 * An operation of the group waits: has another rank chosen other backends, or come to an exchange of them in its place? Fails with
 * MST_ERR_MISMATCH if so, and tells the others.
 */
mst_status msi_group_look(mst_group *group, const struct msi_waiting *at);

/*
 * Exchanges the group's backends, which are its own from then on, or the world's and those of the groups that follow it: on all ranks
 * or on none, and they all call it. wanted NULL: this rank cannot, for the thread's last failure. Fails while operations are under way.
 */
mst_status msi_group_exchange(mst_group *group, const struct msi_backends *wanted,
                              const struct msi_wait *wait);
/* Writes " ID/NAME" for each backend whose comm has failed here. */
void msi_group_list_failed(const mst_group *group, struct msi_buf *out);
/* Has the group make a new comm for that backend; all its ranks call it, with the same generation. */
mst_status msi_group_renew(mst_group *group, const mst_backend *table, const char *generation);
/* Takes the world's exchange back, as all ranks do. */
mst_status msi_world_return(struct msi_world *world, const struct msi_backends *before);

/* Waits until all ranks of the group have come so far. */
mst_status msi_group_barrier(mst_group *group, const struct msi_wait *wait);

/* Runs requests on the world's store. One that waits ends when a rank of the group is lost. context is the group. */
mst_status msi_group_exec(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n);
/* keys.c: puts a value under a name; puts it there unless there is one, and reads what is then; deletes it, if it can; reads it, empty if
 * there is none. */
mst_status msi_world_put(struct msi_world *world, const struct msi_wait *wait, const char *name,
                         struct msi_str value);
mst_status msi_world_register(struct msi_world *world, const struct msi_wait *wait, const char *name,
                              struct msi_str value, struct msi_buf *there);
void msi_world_drop(struct msi_world *world, const struct msi_wait *wait, const char *name);
mst_status msi_world_look(struct msi_world *world, const struct msi_wait *wait, const char *name,
                          struct msi_buf *value);
/* Waits for what a rank puts there, which stays empty if that is gone without it. */
mst_status msi_world_get(struct msi_world *world, const struct msi_wait *wait, const char *name, int rank,
                         struct msi_buf *value);
/* Tells the other ranks why this one ends the group, by the thread's last failure: those that wait for it need not look for reasons. */
void msi_group_tell_end(mst_group *group, mst_status status);
/* Runs requests on the world's store. Once it was lost every call fails at once; where rank 0 hosted it, that
 * is said. */
mst_status msi_world_exec(struct msi_world *world, const struct msi_wait *wait, struct msi_store_rpc *x,
                          size_t n);

/* Reads what became of ranks. */
mst_status msi_world_read_events(struct msi_world *world, const struct msi_wait *wait);
/* 'D': it died, 'L': it left in good order, 0: it is there, as far as was read. */
char msi_world_how_gone(struct msi_world *world, int rank);

/*
 * Takes in what became of ranks, as far as the store tells, and fails if that ends the group:
 * MST_ERR_PEER_LOST blames the rank. read false: only looks at what is known already.
 */
mst_status msi_group_check(mst_group *group, bool read);

/* Fails with what became of a global rank: how is as in struct msi_gone. */
mst_status msi_group_say_lost(const mst_group *group, int rank, char how);

#endif
