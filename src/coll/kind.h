/*
 * kind.h - the kinds of operations, with the names of the calls that make them. Calls of one family fit
 * together: a rank may use the list form where another uses the form with a single buffer.
 */
#ifndef MSI_COLL_KIND_H
#define MSI_COLL_KIND_H

/* X(id, family, name of the call) */
#define MSI_KINDS(X)                                                                                         \
    X(NONE, NONE, "nothing")                                                                                 \
    X(BARRIER, BARRIER, "mst_barrier")                                                                       \
    X(MONITORED_BARRIER, BARRIER, "mst_monitored_barrier")                                                   \
    X(BROADCAST, BROADCAST, "mst_broadcast")                                                                 \
    X(ALL_REDUCE, ALL_REDUCE, "mst_all_reduce")                                                              \
    X(INFERENCE_ALL_REDUCE, ALL_REDUCE, "mst_inference_all_reduce")                                          \
    X(REDUCE, REDUCE, "mst_reduce")                                                                          \
    X(ALL_GATHER, ALL_GATHER, "mst_all_gather")                                                              \
    X(ALL_GATHER_INTO_TENSOR, ALL_GATHER, "mst_all_gather_into_tensor")                                      \
    X(REDUCE_SCATTER, REDUCE_SCATTER, "mst_reduce_scatter")                                                  \
    X(REDUCE_SCATTER_TENSOR, REDUCE_SCATTER, "mst_reduce_scatter_tensor")                                    \
    X(ALL_TO_ALL, ALL_TO_ALL, "mst_all_to_all")                                                              \
    X(ALL_TO_ALL_SINGLE, ALL_TO_ALL, "mst_all_to_all_single")                                                \
    X(GATHER, GATHER, "mst_gather")                                                                          \
    X(SCATTER, SCATTER, "mst_scatter")                                                                       \
    X(SEND, SEND, "mst_send")                                                                                \
    X(RECV, RECV, "mst_recv")

#define MSI_KIND_ID(id, family, name) MSI_KIND_##id,
enum msi_kind { MSI_KINDS(MSI_KIND_ID) MSI_KIND_COUNT };
#undef MSI_KIND_ID

/* "mst_all_reduce"; "?" for a number that is none. */
const char *msi_kind_name(unsigned kind);
/* The kind that stands for the family; NONE for a number that is none. */
enum msi_kind msi_kind_family(unsigned kind);

#endif
