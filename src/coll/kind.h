/* kind.h - the kinds of operations, with the names of the calls that make them. Ranks compare the numbers. */
#ifndef MSI_COLL_KIND_H
#define MSI_COLL_KIND_H

#define MSI_KINDS(X)                                                                                         \
    X(NONE, "nothing")                                                                                       \
    X(BARRIER, "mst_barrier")                                                                                \
    X(BROADCAST, "mst_broadcast")                                                                            \
    X(ALL_REDUCE, "mst_all_reduce")                                                                          \
    X(REDUCE, "mst_reduce")                                                                                  \
    X(ALL_GATHER, "mst_all_gather")                                                                          \
    X(REDUCE_SCATTER, "mst_reduce_scatter")                                                                  \
    X(ALL_TO_ALL, "mst_all_to_all")                                                                          \
    X(GATHER, "mst_gather")                                                                                  \
    X(SCATTER, "mst_scatter")                                                                                \
    X(SEND, "mst_send")                                                                                      \
    X(RECV, "mst_recv")

#define MSI_KIND_ID(name, text) MSI_KIND_##name,
enum msi_kind { MSI_KINDS(MSI_KIND_ID) MSI_KIND_COUNT };
#undef MSI_KIND_ID

/* "mst_all_reduce"; "?" for a number that is none. */
const char *msi_kind_name(unsigned kind);

#endif
