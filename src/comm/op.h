/*
 * op.h - an operation, described once, in the terms of the public call.
 *
 * api/ fills in a struct msi_op. Every engine reads that one description and keeps its own state elsewhere
 * (engine.h). The part that loaded backends read is the public struct mst_backend_op, so that it is handed to
 * them as it is:
 *
 *   kind              in                           out                          count is
 *   broadcast         the root's tensor            the tensor                   the tensor
 *   all_reduce        the tensor                   the result                   the tensor
 *   reduce            the tensor                   the result, at the root      the tensor
 *   all_gather        this rank's block            a block for each rank        this rank's block
 *   gather            this rank's block            a block for each rank, root  this rank's block
 *   scatter           a block for each rank, root  this rank's block            this rank's block
 *   reduce_scatter    a block for each rank        this rank's block, reduced   this rank's block
 *   all_to_all        a block for each rank        a block for each rank        one block (even ones)
 *   scan, exscan      the tensor                   the result                   the tensor
 *   send, recv        the message (send)           the message (recv)           the message
 *   barrier           -                            -                            0
 */
#ifndef MSI_COMM_OP_H
#define MSI_COMM_OP_H

#include "base/kind.h"
#include "reduce/user.h"
#include "transport/shm_region.h"

#include <muster/backend.h>
#include <muster/comm.h>

struct msi_op {
    mst_backend_op desc; /* kind, dtype, op, root or peer, tag, count, buffers, memory, stream */
    enum msi_kind call;  /* the public call */
    const char *name;    /* of that call */
    mst_site site;
    const struct msi_reducer *reducer; /* NULL: it moves bytes only */
    bool quantize;                     /* all_reduce: .quantize is MST_Q8 */
    bool deterministic;                /* the bits of a result depend on the inputs alone */
    bool name_first;                   /* at the deadline name only the first rank that is missing */
    bool variable;                     /* message: only the sender knows its length */
    uint8_t flags;                     /* of the signature, but for SPLITS */
    enum msi_kind whole; /* BYTES, COALESCED: the kind of the call that the operation is a part of, … */
    int whole_root;      /* … its root, -1: none, … */
    size_t whole_parts;  /* … and the number of its operations, if all ranks must have as many */
    mst_bytes *bytes;    /* receive of a variable length: where the allocated bytes go */
    int *sender;         /* receive: where the sender's rank goes; may be NULL */

    /* Derived from the above by msi_op_sign: what all ranks must call alike. */
    struct msi_call_signature signature;
    uint32_t hash; /* of the signature */

    /* Of receives. */
    bool probe;                     /* it only looks for its message */
    mst_message *message;           /* where sender, tag and length go; may be NULL */
    const struct msi_user_op *user; /* the user-defined operation, user_copy of the work; NULL: none */
    struct msi_user_op user_copy;
};

/* Flags of a signature. */
enum {
    MSI_SIGNED_SPLITS = 1, /* all_to_all with .in_splits and .out_splits */
    MSI_SIGNED_DETERMINISTIC = 2,
    MSI_SIGNED_MONITORED = 4, /* a monitored barrier */
    MSI_SIGNED_BYTES = 8,     /* part of a call on byte strings */
    MSI_SIGNED_COALESCED = 16,
    MSI_SIGNED_REJECTED = 32, /* the call was rejected because of its arguments, and moves no data */
    MSI_SIGNED_COUNTS = 64,   /* .counts is given */
};

static inline bool msi_op_is_rejected(const struct msi_op *op) {
    return op->flags & MSI_SIGNED_REJECTED;
}

static inline bool msi_op_is_message(const struct msi_op *op) {
    return op->desc.kind == MST_KIND_SEND || op->desc.kind == MST_KIND_RECV;
}

/* Is it a receive that leaves the sender or the tag open? */
static inline bool msi_op_is_wild(const struct msi_op *op) {
    return op->desc.peer < 0 || op->desc.tag == MST_ANY_TAG;
}

static inline size_t msi_op_bytes(const struct msi_op *op) {
    return op->desc.count * op->desc.element;
}

/* The parameters of its reducer. */
static inline struct msi_reduce_scale msi_op_scale(const struct msi_op *op, int ranks) {
    return (struct msi_reduce_scale){op->desc.factor, ranks, op->desc.dtype, op->user};
}

/* Do the ranks' blocks differ in length? */
static inline bool msi_op_is_uneven(const struct msi_op *op) {
    return op->desc.in_counts || op->desc.out_counts;
}

/* Sets the kind, from the public call. */
void msi_op_set_call(struct msi_op *op, enum msi_kind call);
/* The public call that stands for a kind. */
enum msi_kind msi_op_call_of(mst_kind kind);
/* Does the kind reduce values? */
static inline bool msi_kind_reduces(mst_kind kind) {
    return kind == MST_KIND_ALL_REDUCE || kind == MST_KIND_REDUCE || kind == MST_KIND_REDUCE_SCATTER ||
           kind == MST_KIND_SCAN || kind == MST_KIND_EXSCAN;
}

/* The end of a call site's file name, kept from one operation to the next. The name is a literal, so its
 * address identifies it. */
struct msi_file_tail {
    const char *file;
    char text[sizeof((struct msi_call_signature *)NULL)->file];
};

/* Fills in signature and hash for a collective of the given number of ranks. */
void msi_op_sign(struct msi_op *op, struct msi_file_tail *tail, int ranks);
/* The hash of a sequence of calls, continued by a call with this hash. */
static inline uint32_t msi_history(uint32_t history, uint32_t hash) {
    return ((history ^ hash) * 0x9E3779B1u) ^ history >> 16;
}
/* Writes "mst_all_reduce of 17 f32 (SUM) at train.c:33"; returns out. */
const char *msi_call_signature_show(const struct msi_call_signature *signature, char *out, size_t size);
/* Writes how the .counts of two ranks differ; NULL if they are not the reason why the calls differ. */
const char *msi_op_compare_counts(const struct msi_op *op, const struct msi_call_signature *other, int rank,
                                  char *out, size_t size);

/* A tensor, or one block for each rank. */
struct msi_blocks {
    char *base;           /* block r begins r * each bytes after base … */
    size_t each;          /* … and has each bytes, unless counts is set */
    char *const *list;    /* not NULL: list[r] is the address of block r */
    const size_t *counts; /* not NULL: block r has counts[r] elements; with base, blocks are contiguous … */
    const size_t *starts; /* … and begin starts[r] bytes after base; needed by msi_block with counts */
    size_t element;
};

static inline struct msi_blocks msi_op_in(const struct msi_op *op) {
    const mst_backend_op *d = &op->desc;
    return (struct msi_blocks){.base = (char *)(uintptr_t)d->in,
                               .each = d->count * d->element,
                               .list = (char *const *)(uintptr_t)d->in_list,
                               .counts = d->in_counts,
                               .element = d->element};
}

static inline struct msi_blocks msi_op_out(const struct msi_op *op) {
    const mst_backend_op *d = &op->desc;
    return (struct msi_blocks){.base = d->out,
                               .each = d->count * d->element,
                               .list = (char *const *)(uintptr_t)d->out_list,
                               .counts = d->out_counts,
                               .element = d->element};
}

static inline char *msi_block(const struct msi_blocks *blocks, int rank) {
    if (blocks->list) return blocks->list[rank];
    return blocks->base + (blocks->starts ? blocks->starts[rank] : (size_t)rank * blocks->each);
}

static inline size_t msi_block_len(const struct msi_blocks *blocks, int rank) {
    return blocks->counts ? blocks->counts[rank] * blocks->element : blocks->each;
}

/* Bytes of the blocks of n ranks. */
static inline size_t msi_blocks_total(const struct msi_blocks *blocks, int n) {
    if (!blocks->counts) return (size_t)n * blocks->each;
    size_t elements = 0;
    for (int r = 0; r < n; r++) elements += blocks->counts[r];
    return elements * blocks->element;
}

/* Do the given number of bytes at in and at out overlap? */
static inline bool msi_blocks_overlap(const struct msi_blocks *in, const struct msi_blocks *out,
                                      size_t bytes) {
    return in->base < out->base + bytes && out->base < in->base + bytes;
}

#endif
