/*
 * group.h - the world of ranks, its groups, and the location of ranks on hosts.
 *
 * Lifetimes and threads
 *  1. mst_init opens the default world, for which NULL stands in every call. mst_destroy_process_group(NULL)
 *     closes it.
 *  2. mst_world_open opens a world as an object. A process may have several worlds, so threads can be ranks.
 *  3. A group belongs to its world. It is destroyed with its world or by mst_destroy_process_group(group).
 *  4. Groups and meshes are made of global ranks: ranks in the world. Roots and peers of calls on a group
 *     are group ranks: 0 to its size - 1. A process that is not in a group has rank -1 there.
 */
#ifndef MUSTER_GROUP_H
#define MUSTER_GROUP_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How a world is opened. init_method is one of
 *   "env://"                               from the launcher, see discover.h; without a launcher one process
 *   "tcp://host:port?rank=R&world_size=N"  rank 0 hosts the store at this address
 *   "file:///path?rank=R&world_size=N"     a file on a shared file system that no earlier job has used
 * and defaults to env://. A non-zero world_size means that rank and world_size are given in the options.
 */
#define mst_init_options_fields                                                                              \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(const char *init_method);                                                                     \
    MST_OPTION(int rank);                                                                                    \
    MST_OPTION(int world_size);                                                                              \
    /* Of the rendezvous and, by default, of later calls; 0: MUSTER_INIT_TIMEOUT_MS, MUSTER_TIMEOUT_MS. */   \
    MST_OPTION(int timeout_ms);                                                                              \
    MST_OPTION(mst_store *store); /* for the rendezvous; borrowed until the world is closed */               \
    MST_OPTION(mst_cancel *cancel);                                                                          \
    /* DeepSpeed's auto_mpi_discovery = False: use only RANK, WORLD_SIZE, … */                             \
    MST_OPTION(bool no_discovery);                                                                           \
    /* Set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. */                      \
    MST_OPTION(bool set_env);                                                                                \
    MST_OPTION(bool verbose);            /* print what was discovered on standard error in one line */       \
    MST_OPTION(const char *backend);     /* see mst_get_backend; NULL: MUSTER_BACKEND */                     \
    MST_OPTION(const char *comm_device); /* as in FlexLLMGen: "cpu" is native, "gpu" is nccl */              \
    /* Join a world that runs already, when its ranks call mst_grow_world; also MUSTER_JOIN=1. */            \
    MST_OPTION(bool join);                                                                                   \
    MST_OPTION(bool tls); /* TLS 1.3 to the store and between ranks; also MUSTER_TLS=1 */
typedef struct mst_init_options {
    mst_init_options_fields
} mst_init_options;

#define mst_group_options_fields                                                                             \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group *world);    /* NULL: the default world */                                           \
    MST_OPTION(int timeout_ms);      /* default deadline of calls on the group; 0: the world's */            \
    MST_OPTION(const char *name);    /* shown in errors; see mst_new_group */                                \
    MST_OPTION(const char *backend); /* NULL: the world's */                                                 \
    MST_OPTION(const char *desc);    /* any text, for mst_get_group_desc; copied */
typedef struct mst_group_options {
    mst_group_options_fields
} mst_group_options;

#define mst_split_options_fields                                                                             \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group *group);    /* the parent; NULL: the default world */                               \
    MST_OPTION(int timeout_ms);      /* default deadline of calls on the new group; 0: the parent's */       \
    MST_OPTION(const char *name);    /* as in mst_group_options */                                           \
    MST_OPTION(const char *backend); /* NULL: the parent's */                                                \
    MST_OPTION(const char *desc);    /* as in mst_group_options */                                           \
    MST_OPTION(mst_cancel *cancel);  /* of the exchange in the parent */
typedef struct mst_split_options {
    mst_split_options_fields
} mst_split_options;

/* Opens the default world: blocks until all ranks have joined. Does nothing if it is open. */
mst_status mst_init_with(const mst_init_options *options);

/* Opens a world as an object: blocks until all ranks have joined. *world is the group of all its ranks. */
mst_status mst_world_open(const mst_init_options *options, mst_group **world);

/*
 * Destroys a group, or a world (NULL: the default world) with all its groups. The rank that hosts the store,
 * or rank 0 if it is a custom store, waits for the other ranks, at most MUSTER_STORE_LINGER_MS and at most
 * the timeout of the world. The other ranks do not wait; a store that does not answer delays them by a few
 * seconds.
 */
mst_status mst_destroy_process_group(mst_group *group);

#define mst_abort_options_fields MST_OPTIONS_HEAD /* no option of its own */
typedef struct mst_abort_options {
    mst_abort_options_fields
} mst_abort_options;
/*
 * Aborts a group (NULL: the default world), as ncclCommAbort: the calls of other threads on it return
 * MST_ERR_CANCELLED. The other ranks of the group get MST_ERR_PEER_LOST in their present or next call on it,
 * within a second if they wait. All messages have this rank, this call and the reason, which may be NULL.
 * Later calls on the group fail in the same way; destroy it. Other groups stay usable. Any thread may call
 * it, also in a callback of a work. A group that has been aborted or has failed stays as it is. The opening
 * of a backend and calls with MUSTER_MPI_BLOCKING are not interrupted. After an abort of an operation of MPI
 * the process makes no MPI calls any more.
 */
mst_status mst_abort_with(mst_group *group, const char *reason, const mst_abort_options *options);

/*
 * Acknowledges the ranks of the group (NULL: the default world) that have died: receives and probes with
 * MST_ANY_SOURCE do not fail any more because of them, unless a collective has failed the group. Writes
 * their group ranks, at most max, to ranks, and their number to *n. Both may be NULL, with max 0.
 */
mst_status mst_ack_lost_ranks(mst_group *group, int *ranks, int max, int *n);

/*
 * Creates a group of n distinct global ranks. Only its members need to call it; the order among groups does
 * not matter. Does not wait for the other members. Group ranks follow ascending global ranks. The members'
 * first, second, … groups of the same ranks belong together. A caller that is not in the list gets a group in
 * which its rank is -1. Members with different backends get MST_ERR_MISMATCH, here or in their first
 * operation.
 *
 * With .name the members meet under that name: their first, second, … groups of the same name and ranks
 * belong together, so that threads and modules can create groups independently. Group ranks are in the order
 * of the list, which must be the same on all members; else all but the first get MST_ERR_MISMATCH.
 */
mst_status mst_new_group_with(const int *ranks, int n, mst_group **group, const mst_group_options *options);

/*
 * Divides the parent .group by color, as MPI_Comm_split: ranks with the same color get one group. Its ranks
 * are ordered by key, equal keys by their rank in the parent. A caller with a negative color gets an empty
 * group, in which its rank is -1, and not NULL, which is the default world. It is a collective of the parent:
 * all its ranks call it, and it fails at the parent's deadline.
 */
mst_status mst_split_group_with(int color, int key, mst_group **group, const mst_split_options *options);

/*
 * Divides the world into groups of size consecutive ranks, as torch's new_subgroups. *mine is the group of
 * this rank; the groups of other ranks are not created here. As mst_new_group in all else. MST_ERR_INVALID
 * unless size divides the size of the world.
 */
mst_status mst_new_subgroups_with(int size, mst_group **mine, const mst_group_options *options);

/*
 * The same for n given groups: lists[i] has sizes[i] global ranks. All callers pass the same lists. A rank
 * may be in one list. A caller in none gets an empty group, in which its rank is -1.
 */
mst_status mst_new_subgroups_by_enumeration_with(const int *const *lists, const int *sizes, int n,
                                                 mst_group **mine, const mst_group_options *options);

/*
 * Sets the default deadline of later calls on the group (NULL: the default world), in milliseconds. Calls
 * under way keep theirs. It is local to this process. Groups that are created later without .timeout_ms have
 * the deadline of the world. MST_ERR_INVALID if timeout_ms is not positive.
 */
mst_status mst_group_set_timeout(mst_group *group, int timeout_ms);

/*
 * Returns a view of the world's store with a name space of the group: its members share the keys, which no
 * other group has. NULL on failure; sets mst_error(). MST_ERR_NOT_MEMBER if this process is not in the group.
 * The group owns the handle: do not free it, and do not use it after the group was destroyed. Its calls have
 * the group's deadline at the time of the first call by default. The keys stay in the store until the program
 * deletes them or the store ends.
 */
mst_store *mst_get_group_store(mst_group *group);

/*
 * Return .name and .desc of the group, "" if it has none. The name of a world is "world". A long name is cut
 * to 63 bytes. The strings are valid until the group is destroyed. NULL on failure; set mst_error().
 */
const char *mst_get_group_name(const mst_group *group);
const char *mst_get_group_desc(const mst_group *group);

bool mst_is_available(void);
bool mst_is_initialized(void);

/* The calls below return -1 and set mst_error() on failure. */
int mst_get_rank(const mst_group *group);
int mst_get_world_size(const mst_group *group);
int mst_get_group_rank(const mst_group *group, int global_rank);
int mst_get_global_rank(const mst_group *group, int group_rank);
/* Writes at most capacity global ranks in the order of their group ranks. Returns the size of the group. */
int mst_get_process_group_ranks(const mst_group *group, int *ranks, int capacity);
/*
 * The number of groups that this process has in the world and has not destroyed. The world is one of them.
 * Groups of meshes and pipelines count, and groups in which this process has rank -1.
 */
int mst_get_pg_count(const mst_group *world);

/*
 * The location of ranks. Ranks share a host if they can map each other's memory; muster verifies this. Local
 * ranks number the ranks of a host in ascending global rank. Hosts are numbered by their lowest rank.
 */
int mst_get_local_rank(const mst_group *world);
int mst_get_local_size(const mst_group *world);
int mst_get_host_count(const mst_group *world);

/* The location of one rank of the world. The strings are valid while the world is open. */
typedef struct mst_rank_info {
    int rank;
    int host; /* number of its host */
    int local_rank;
    int local_size;
    int pid;
    const char *host_name;
    const char *address; /* its address for other hosts */
} mst_rank_info;
mst_status mst_get_rank_info(const mst_group *world, int rank, mst_rank_info *info);

/*
 * Returns the address at which other hosts reach this process: MUSTER_ADVERTISE_ADDR, else the address of
 * MUSTER_SOCKET_IFNAME, else that of the first interface that is up. Needs no world; the one that a world
 * uses is that of mst_get_rank_info. The string is valid until the thread's next call of it. NULL on failure;
 * sets mst_error().
 */
const char *mst_get_advertised_address(void);

#ifdef __cplusplus
}
#endif

MST_WRAP_0(mst_init, mst_init_options)
MST_WRAP_2(mst_abort, mst_abort_options, mst_group *, const char *)
MST_WRAP_3(mst_new_group, mst_group_options, const int *, int, mst_group **)
MST_WRAP_3(mst_split_group, mst_split_options, int, int, mst_group **)
MST_WRAP_2(mst_new_subgroups, mst_group_options, int, mst_group **)
MST_WRAP_4(mst_new_subgroups_by_enumeration, mst_group_options, const int *const *, const int *, int,
           mst_group **)

#define mst_init(...)          MST_CALL_0(mst_init, mst_init_options, __VA_ARGS__)
#define mst_abort(...)         MST_CALL_2(mst_abort, mst_abort_options, __VA_ARGS__)
#define mst_new_group(...)     MST_CALL_3(mst_new_group, mst_group_options, __VA_ARGS__)
#define mst_split_group(...)   MST_CALL_3(mst_split_group, mst_split_options, __VA_ARGS__)
#define mst_new_subgroups(...) MST_CALL_2(mst_new_subgroups, mst_group_options, __VA_ARGS__)
#define mst_new_subgroups_by_enumeration(...)                                                                \
    MST_CALL_4(mst_new_subgroups_by_enumeration, mst_group_options, __VA_ARGS__)
#endif
