/*
 * recovery.h - going on after the death of ranks, without a restart.
 *
 * A death fails the calls that need the dead rank: they return MST_ERR_PEER_LOST on all other ranks. The
 * survivors then
 *   - shrink a group or the world to the ranks that live, or
 *   - let the world grow by processes that were started later, which take the places of dead ranks.
 * These calls return the same result on all survivors, even if more ranks die meanwhile. They need the store
 * of the world; `muster run` hosts it. All surviving ranks of the group call them, in the same order.
 */
#ifndef MUSTER_RECOVERY_H
#define MUSTER_RECOVERY_H

#include <muster/dtype.h>
#include <muster/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

#define mst_agree_options_fields                                                                             \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group *group); /* NULL: the default world */                                              \
    MST_OPTION(int timeout_ms);   /* 0: the group's */                                                       \
    MST_OPTION(mst_cancel *cancel);
typedef struct mst_agree_options {
    mst_agree_options_fields
} mst_agree_options;
/*
 * Agrees on flags, as MPIX_Comm_agree: *flags becomes the bitwise and of the flags of all ranks that take
 * part, on each of them. It works after the group has failed or was aborted. MST_ERR_PEER_LOST, with *flags
 * set: a rank is lost that not all ranks have acknowledged with mst_ack_lost_ranks; all ranks get the same.
 * The same status with *flags as before: a rank that has not come waits in mst_shrink_world or
 * mst_shrink_group for this one.
 */
mst_status mst_agree_with(uint64_t *flags, const mst_agree_options *options);

#define mst_shrink_options_fields                                                                            \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(int timeout_ms);   /* of this call, and default of calls on the new group; 0: as before */    \
    MST_OPTION(const char *name); /* of the new group; NULL: as before */                                    \
    MST_OPTION(mst_cancel *cancel);
typedef struct mst_shrink_options {
    mst_shrink_options_fields
} mst_shrink_options;
/*
 * Makes a group of the ranks of group (NULL: the default world) that live, in their old order. Aborts the old
 * group first, so that calls of other ranks on it end and these ranks can take part; destroy it. Ranks that
 * die meanwhile may still be in the new group: its first call then fails, and it can be shrunk again.
 */
mst_status mst_shrink_group_with(mst_group *group, mst_group **survivors, const mst_shrink_options *options);

#define mst_reform_options_fields                                                                            \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group **world); /* a world of mst_world_open, which is replaced; NULL: the default */     \
    MST_OPTION(int timeout_ms);    /* 0: the world's */                                                      \
    MST_OPTION(mst_cancel *cancel);
typedef struct mst_reform_options {
    mst_reform_options_fields
} mst_reform_options;
/*
 * Replaces the default world, or *.world, by a world of the ranks that live, which are numbered from 0 in
 * their old order. Groups and meshes of the old world stay as they are: mst_check_group says whether they are
 * usable. Their ranks are numbered as in the old world. They end with the new world.
 */
mst_status mst_shrink_world_with(const mst_reform_options *options);
/*
 * The same, and admits processes that called mst_init with .join or MUSTER_JOIN=1. Waits until at least n of
 * them wait, then admits all that wait. They take the numbers of lost ranks first, then the numbers behind
 * the last rank; ranks that live keep theirs, unless too few processes came for the lost ones.
 * MST_ERR_STALLED: fewer than n came in time; the old world stays.
 */
mst_status mst_grow_world_with(int n, const mst_reform_options *options);

/*
 * Can calls on the group (NULL: the default world) still succeed? Else the reason: a rank is lost, or the
 * group has failed or was aborted.
 */
mst_status mst_check_group(mst_group *group);
/* Do all ranks of the mesh, or of the slice, live? Else MST_ERR_PEER_LOST names one that does not. */
mst_status mst_check_mesh(const mst_mesh *mesh);

/*
 * Registers a buffer of this process for mst_broadcast_registered. All ranks register the same buffers in the
 * same order, also those that join later. A buffer that is registered again gets another count and dtype.
 */
mst_status mst_register_buffer(void *buffer, size_t count, mst_dtype dtype);
mst_status mst_unregister_buffer(void *buffer);
/*
 * Sends the contents of all registered buffers to all ranks of the default world, or of .world, from its
 * first rank that was there before it last grew. New ranks call it after mst_init, the others after
 * mst_grow_world.
 */
mst_status mst_broadcast_registered_with(const mst_reform_options *options);

#ifdef __cplusplus
}
#endif

MST_WRAP_1(mst_agree, mst_agree_options, uint64_t *)
MST_WRAP_2(mst_shrink_group, mst_shrink_options, mst_group *, mst_group **)
MST_WRAP_0(mst_shrink_world, mst_reform_options)
MST_WRAP_1(mst_grow_world, mst_reform_options, int)
MST_WRAP_0(mst_broadcast_registered, mst_reform_options)

#define mst_agree(...)                MST_CALL_1(mst_agree, mst_agree_options, __VA_ARGS__)
#define mst_shrink_group(...)         MST_CALL_2(mst_shrink_group, mst_shrink_options, __VA_ARGS__)
#define mst_shrink_world(...)         MST_CALL_0(mst_shrink_world, mst_reform_options, __VA_ARGS__)
#define mst_grow_world(...)           MST_CALL_1(mst_grow_world, mst_reform_options, __VA_ARGS__)
#define mst_broadcast_registered(...) MST_CALL_0(mst_broadcast_registered, mst_reform_options, __VA_ARGS__)

#endif
