/*
 * group.h - the world of ranks, groups of some of them, and who sits where.
 *
 * Lifetimes and threads
 *  1. mst_init opens the world that NULL stands for in every call; mst_destroy_process_group(NULL) ends it.
 *  2. mst_world_open opens a world as an object. Several can live in one process, each used by one thread
 *     at a time: that is how thread-ranks work.
 *  3. A group belongs to its world and ends with it, or earlier by mst_destroy_process_group(group).
 *  4. Ranks are global (in the world) unless a name says group rank. A process outside a group has rank
 *     -1 there.
 */
#ifndef MUSTER_GROUP_H
#define MUSTER_GROUP_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How a world is opened. init_method is one of
 *   "env://"                               as the launcher says, see discover.h; no launcher: one process
 *   "tcp://host:port?rank=R&world_size=N"  rank 0 hosts the store there
 *   "file:///path?rank=R&world_size=N"     a file that all ranks can reach and that no earlier job used
 * and defaults to env://. rank and world_size may be given here instead; a non-zero world_size says so.
 */
typedef struct mst_init_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(const char *init_method);
    MST_OPTION(int rank);
    MST_OPTION(int world_size);
    /* For joining and as the default of later calls; 0: MUSTER_INIT_TIMEOUT_MS, MUSTER_TIMEOUT_MS. */
    MST_OPTION(int timeout_ms);
    MST_OPTION(mst_store *store); /* meet here instead; borrowed until the world is closed */
    MST_OPTION(mst_cancel *cancel);
    /* DeepSpeed's auto_mpi_discovery = False: no launcher but RANK, WORLD_SIZE, … */
    MST_OPTION(bool no_discovery);
    /* Set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. */
    MST_OPTION(bool set_env);
    MST_OPTION(bool verbose);            /* say in one line on standard error what was discovered */
    MST_OPTION(const char *backend);     /* see mst_get_backend; NULL: MUSTER_BACKEND */
    MST_OPTION(const char *comm_device); /* FlexLLMGen's way to say it: "cpu" is native, "gpu" is nccl */
} mst_init_options;

typedef struct mst_group_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *world);    /* NULL: the default world */
    MST_OPTION(int timeout_ms);      /* default deadline of calls on the group; 0: the world's */
    MST_OPTION(const char *name);    /* shown in errors */
    MST_OPTION(const char *backend); /* NULL: the world's */
} mst_group_options;

/* Opens the default world. A second call while it is open is harmless and changes nothing. */
mst_status mst_init_with(const mst_init_options *options);

/* Opens a world as an object; *world is the group of all its ranks. */
mst_status mst_world_open(const mst_init_options *options, mst_group **world);

/*
 * Ends a group, or for a world (NULL: the default one) the world and all its groups. Where rank 0 hosts the store
 * it leaves last: there the call waits for the others, at most MUSTER_STORE_LINGER_MS.
 */
mst_status mst_destroy_process_group(mst_group *group);

/*
 * Makes a group of n distinct global ranks; only its members need to call, in any order among groups. Group
 * ranks follow ascending global rank. Members pair up the first, second, … group they make of the same ranks.
 * A caller that is not in the list gets a group in which its rank is -1. Members that chose different backends get MST_ERR_MISMATCH,
 * here or in their first operation.
 */
mst_status mst_new_group_with(const int *ranks, int n, mst_group **group, const mst_group_options *options);

bool mst_is_available(void);
bool mst_is_initialized(void);

/* The calls below return -1 where there is no answer; mst_error() then says why. */
int mst_get_rank(const mst_group *group);
int mst_get_world_size(const mst_group *group);
int mst_get_group_rank(const mst_group *group, int global_rank);
int mst_get_global_rank(const mst_group *group, int group_rank);
/* Writes at most capacity ranks, ascending, and returns how many the group has. */
int mst_get_process_group_ranks(const mst_group *group, int *ranks, int capacity);

/*
 * Where ranks sit. Ranks share a host if they can map one rank's memory, which is tried, not guessed.
 * Local ranks count a host's ranks in ascending global rank; hosts are numbered by their lowest rank.
 */
int mst_get_local_rank(const mst_group *world);
int mst_get_local_size(const mst_group *world);
int mst_get_host_count(const mst_group *world);

/* Where one rank of the world sits. Strings live as long as the world. */
typedef struct mst_rank_info {
    int rank;
    int host; /* index of its host */
    int local_rank;
    int local_size;
    int pid;
    const char *host_name;
    const char *address; /* the address it would be reached at from other hosts */
} mst_rank_info;
mst_status mst_get_rank_info(const mst_group *world, int rank, mst_rank_info *info);

#ifdef __cplusplus
}
inline mst_status mst_init(mst_init_options options = {}, MST_SITE_PARAMETERS) {
    return mst_init_with(MST_FILL_OPTIONS(options));
}
inline mst_status mst_new_group(const int *ranks, int n, mst_group **group, mst_group_options options = {},
                                MST_SITE_PARAMETERS) {
    return mst_new_group_with(ranks, n, group, MST_FILL_OPTIONS(options));
}
#else
#define mst_init(...) mst_init_with(MST_OPTIONS(mst_init_options, __VA_ARGS__))
#define mst_new_group(ranks, n, ...)                                                                         \
    mst_new_group_with(ranks, n, MST_LAST_POSITIONAL(__VA_ARGS__),                                           \
                       MST_OPTIONS_AFTER(mst_group_options, __VA_ARGS__))
#endif
#endif
