/* comm.h - communication among the ranks of a group. */
#ifndef MUSTER_COMM_H
#define MUSTER_COMM_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of a communication call. */
typedef struct mst_call {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *group); /* NULL: the default world */
    MST_OPTION(int timeout_ms);   /* 0: the group's */
    MST_OPTION(mst_cancel *cancel);
} mst_call;

/*
 * Returns once every rank of the group has called it. If one of them dies or leaves instead, the others get
 * MST_ERR_PEER_LOST at once; if one is late, MST_ERR_STALLED names it at the deadline.
 */
mst_status mst_barrier_with(const mst_call *call);

#ifdef __cplusplus
}
inline mst_status mst_barrier(mst_call call = {}, MST_SITE_PARAMETERS) {
    return mst_barrier_with(MST_FILL_OPTIONS(call));
}
#else
#define mst_barrier(...) mst_barrier_with(MST_OPTIONS(mst_call, __VA_ARGS__))
#endif
#endif
