/*
 * kind.h - the one table of operation kinds: names of the calls, families, and their share of bandwidth.
 *
 * Calls of one family match: a rank may use the list form where another uses the form with a single buffer.
 */
#ifndef MSI_BASE_KIND_H
#define MSI_BASE_KIND_H

#include <stdbool.h>

/* Bytes that the connection of each of n ranks carries per byte of the message; busbw is algbw times this. */
enum msi_share {
    MSI_SHARE_NONE,  /* 0: barriers */
    MSI_SHARE_WHOLE, /* 1: broadcast, reduce, gather, scatter, scan, send, recv */
    MSI_SHARE_PART,  /* (n-1)/n: all_gather, reduce_scatter, all_to_all */
    MSI_SHARE_TWICE, /* 2(n-1)/n: all_reduce */
};

/* X(id, family, share, name of the call) */
#define MSI_KINDS(X)                                                                                         \
    X(NONE, NONE, WHOLE, "nothing")                                                                          \
    X(BARRIER, BARRIER, NONE, "mst_barrier")                                                                 \
    X(MONITORED_BARRIER, BARRIER, NONE, "mst_monitored_barrier")                                             \
    X(BROADCAST, BROADCAST, WHOLE, "mst_broadcast")                                                          \
    X(ALL_REDUCE, ALL_REDUCE, TWICE, "mst_all_reduce")                                                       \
    X(INFERENCE_ALL_REDUCE, ALL_REDUCE, TWICE, "mst_inference_all_reduce")                                   \
    X(REDUCE, REDUCE, WHOLE, "mst_reduce")                                                                   \
    X(ALL_GATHER, ALL_GATHER, PART, "mst_all_gather")                                                        \
    X(ALL_GATHER_INTO_TENSOR, ALL_GATHER, PART, "mst_all_gather_into_tensor")                                \
    X(REDUCE_SCATTER, REDUCE_SCATTER, PART, "mst_reduce_scatter")                                            \
    X(REDUCE_SCATTER_TENSOR, REDUCE_SCATTER, PART, "mst_reduce_scatter_tensor")                              \
    X(ALL_TO_ALL, ALL_TO_ALL, PART, "mst_all_to_all")                                                        \
    X(ALL_TO_ALL_SINGLE, ALL_TO_ALL, PART, "mst_all_to_all_single")                                          \
    X(GATHER, GATHER, WHOLE, "mst_gather")                                                                   \
    X(SCATTER, SCATTER, WHOLE, "mst_scatter")                                                                \
    X(SCAN, SCAN, WHOLE, "mst_scan")                                                                         \
    X(EXSCAN, EXSCAN, WHOLE, "mst_exscan")                                                                   \
    X(SEND, SEND, WHOLE, "mst_send")                                                                         \
    X(RECV, RECV, WHOLE, "mst_recv")

#define MSI_KIND_ID(id, family, share, name) MSI_KIND_##id,
enum msi_kind { MSI_KINDS(MSI_KIND_ID) MSI_KIND_COUNT };
#undef MSI_KIND_ID

/* "mst_all_reduce" */
extern const char *const msi_kind_names[MSI_KIND_COUNT];
/* The same; "?" for an invalid number. */
const char *msi_kind_name(unsigned kind);
/* The kind that stands for the family; NONE for an invalid number. */
enum msi_kind msi_kind_family(unsigned kind);
enum msi_share msi_kind_share(enum msi_kind kind);
/*
 * The kind of a call by its name without "mst_": "all_gather_bytes" is ALL_GATHER, as the longest kind that
 * its name begins with. NONE: the call is not of any kind.
 */
enum msi_kind msi_kind_find(const char *name);

/* n: size of the group */
double msi_bus_factor(enum msi_share share, int n);

/* Operations as bytes, in signatures and records: user-defined ones by the order of their creation. */
enum { MSI_OP_BYTE_Q8 = 16, MSI_OP_BYTE_USER = 32 }; /* Q8: added, the call quantises */
static inline unsigned char msi_op_byte(int op) {
    enum { FIRST = 1 << 16 }; /* MST_OP_USER */
    return (unsigned char)(op < FIRST ? op : MSI_OP_BYTE_USER + (op - FIRST) % (256 - MSI_OP_BYTE_USER));
}
static inline bool msi_op_is_user_byte(unsigned op) {
    return op >= MSI_OP_BYTE_USER && op < 256;
}

#endif
