/*
 * compose.h - composes the operations that a backend lacks of those that it has. No I/O: a composition is a
 * list of steps, which run.c runs.
 *
 *   missing              composed of, the first that is possible                 bytes sent per rank
 *   AVG                  SUM, and a division (f32, f64, i32, ...)                as SUM
 *   PREMUL_SUM           a multiplication, and SUM (f32, f64)                    as SUM
 *   all_reduce           reduce + broadcast; reduce_scatter + all_gather         as those
 *                        all_to_all + local reduction + all_gather (above 8 KiB) 2 (n-1)/n S
 *                        all_gather + local reduction                            (n-1) S
 *   reduce               all_reduce; gather + local reduction at the root        as those
 *   reduce_scatter       all_to_all + local reduction; all_reduce, own part      (n-1)/n S; as all_reduce
 *                        all_gather + local reduction of the own part            (n-1) S
 *   scan, exscan         all_to_all + local scan + all_to_all (above 8 KiB)      2 (n-1)/n S
 *                        all_gather + local reduction                            (n-1) S
 *   all_gather           a broadcast of each rank; messages between all pairs    as those; (n-1) S/n
 *   all_to_all           messages between all pairs; all_gather, own parts       (n-1)/n S; (n-1) S
 *   gather               messages to the root; all_gather                        S/n; (n-1) S/n
 *   scatter              messages from the root; broadcast, own part             (n-1)/n S; as broadcast
 *   broadcast            messages along a tree; all_gather                       at most log2(n) S; (n-1) S
 *   barrier              all_reduce or all_gather of one element; messages       a few
 *   lists, in place      a copy before, a copy after                             one more pass over memory
 *   uneven all_gather    blocks as long as the longest
 *   deterministic        local reductions: all ranks reduce in rank order
 *   memory of the host   copies into memory of the device and back, if MUSTER_STAGE allows it
 *
 * Local reductions give the same bits as native.
 */
#ifndef MSI_ENGINE_MODULE_COMPOSE_H
#define MSI_ENGINE_MODULE_COMPOSE_H

#include "engine/module/registry.h"

enum msi_part_kind { MSI_PART_OP, MSI_PART_COPY, MSI_PART_REDUCE_LOCAL, MSI_PART_SCAN_LOCAL };

/* One step. */
struct msi_part {
    enum msi_part_kind kind;
    bool
        /* operation: begins when all steps before it are over, as copies and local reductions always do */
        after;
    mst_backend_op op; /* the operation, or for a local reduction: dtype, op, count */
    void *to;
    const void *from;
    size_t bytes; /* of a copy; of a local reduction or scan: from one block to the next */
    int blocks;   /* of a local reduction or scan; a reduction of none is the identity */
    bool over;    /* while it is run */
};

struct msi_composer {
    const mst_backend *table;
    uint32_t forced; /* kinds that count as missing: 1 << MST_KIND_… */
    bool stage;      /* memory that the backend cannot use may be copied */
    int rank, ranks;
    size_t unit; /* elements that a part must not separate; 0: 1 */
    /* Allocates memory that is valid until the composition ends; NULL without memory. */
    void *(*scratch)(void *context, mst_memory memory, size_t bytes);
    void *context;

    /* The result. */
    struct msi_part *steps;
    size_t n, room;
    bool composed;           /* false: the backend does it itself, as the only step */
    const char *description; /* what it is composed of, and what that costs */
};

/* The forms (MST_FORM_…) that the operation needs. */
unsigned msi_op_forms(const mst_backend_op *op, int rank, int ranks);

/* Makes the steps of an operation that the backend lacks; deterministic: its bits must depend on its
 * inputs alone. */
mst_status msi_compose(struct msi_composer *c, const mst_backend_op *op, bool deterministic);

/* Parses a list of kinds such as "reduce_scatter,gather" into bits. */
mst_status msi_kinds_parse(const char *list, uint32_t *kinds);

/* Elements before rank r's block, where each block has count elements, or counts[r]. */
size_t msi_op_start(const size_t *counts, size_t count, int r);
/* Elements of rank r's block. */
static inline size_t msi_op_len(const size_t *counts, size_t count, int r) {
    return counts ? counts[r] : count;
}

/* The rest is for the files of compositions. */
/* The address of the given number of the operation's elements after base. */
static inline char *msi_op_at(const void *base, const mst_backend_op *op, size_t elements) {
    return (char *)(uintptr_t)base + elements * op->element;
}
bool msi_compose_can(const struct msi_composer *c, const mst_backend_op *op, mst_kind kind);
bool msi_compose_can_op(const struct msi_composer *c, const mst_backend_op *op, mst_kind kind, mst_op reduces,
                        unsigned forms);
/* Can ranks send each other these elements? */
bool msi_compose_has_messages(const struct msi_composer *c, const mst_backend_op *op);
/* An operation of that kind on the same elements, without roots, counts and lists. */
mst_backend_op msi_compose_sub(const mst_backend_op *op, mst_kind kind, const void *in, void *out,
                               size_t count);
mst_status msi_compose_add(struct msi_composer *c, const mst_backend_op *op, bool after);
mst_status msi_compose_copy(struct msi_composer *c, void *to, const void *from, size_t bytes);
/* A local reduction of blocks of count elements, stride bytes apart. */
struct msi_local_reduction {
    mst_op op;
    void *to;
    const void *from;
    size_t stride;
    int blocks;
    size_t count;
};
mst_status msi_compose_reduce_local(struct msi_composer *c, const mst_backend_op *op,
                                    const struct msi_local_reduction *r);
/* A scan (the operation's kind) of one block for each rank, of count elements, in place. */
mst_status msi_compose_scan_local(struct msi_composer *c, const mst_backend_op *op, void *blocks,
                                  size_t count);
/* A message with another rank. */
struct msi_compose_peer {
    bool send;
    int rank;
    bool after; /* it begins when all steps before it are over */
};
mst_status msi_compose_message(struct msi_composer *c, const mst_backend_op *op, struct msi_compose_peer peer,
                               const void *buf, size_t count);
/* Gives an operation that the backend does not do in place a copy of its input. */
mst_status msi_compose_apart(struct msi_composer *c, mst_backend_op *op);
/* Scratch memory of the operation's kind of memory. */
mst_status msi_compose_room(struct msi_composer *c, const mst_backend_op *op, size_t elements, void **room);
/* Fails because the operation cannot be composed. */
mst_status msi_compose_nothing(const struct msi_composer *c, const mst_backend_op *op);
/* A kind that only moves bytes, itself or composed. */
mst_status msi_compose_move(struct msi_composer *c, const mst_backend_op *op);
/* A kind that reduces, which the backend lacks. */
mst_status msi_compose_reduction(struct msi_composer *c, const mst_backend_op *op, bool deterministic);

#endif
