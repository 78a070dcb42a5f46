/*
 * compose.h - what an engine lacks, made of what it has. No I/O: a composition is a list of steps, which run.c runs.
 *
 *   missing                made of, the first that can be done                     bytes sent by a rank, n ranks, S of a tensor
 *   AVG                    SUM, and a division (f32, f64, i32, …)                   as SUM
 *   PREMUL_SUM             a multiplication, and SUM (f32, f64)                     as SUM
 *   all_reduce             reduce + broadcast; reduce_scatter + all_gather          as those
 *                          all_to_all + fold + all_gather (some KiB and more)       2 (n-1)/n S, as the best of its own
 *                          all_gather + fold                                        (n-1) S
 *   reduce                 all_reduce; gather + fold at the root                    as those
 *   reduce_scatter         all_to_all + fold; all_reduce and its own part           (n-1)/n S; as all_reduce
 *                          all_gather + fold of its own part                        (n-1) S
 *   all_gather             a broadcast of each rank; messages of all to all         as those; (n-1) S/n
 *   all_to_all             messages of all to all; all_gather and its own parts     (n-1)/n S; (n-1) S
 *   gather                 messages to the root; all_gather                         S/n; (n-1) S/n
 *   scatter                messages from the root; broadcast and its own part       at the root (n-1)/n S; as broadcast
 *   broadcast              messages along a tree; all_gather                        at most log2(n) S; (n-1) S
 *   barrier                all_reduce or all_gather of one element; messages        next to nothing
 *   lists, in place        a copy before, a copy behind                             one more pass over memory
 *   uneven all_gather      blocks as long as the longest
 *   deterministic          whatever folds here: all ranks fold in rank order
 *   memory of the host     copies into memory of the device and back, where MUSTER_STAGE allows it
 *
 * Reductions that fold here give the bits that native gives.
 */
#ifndef MSI_ENGINE_MODULE_COMPOSE_H
#define MSI_ENGINE_MODULE_COMPOSE_H

#include "engine/module/registry.h"

enum msi_part_kind { MSI_PART_OP, MSI_PART_COPY, MSI_PART_REDUCE_LOCAL };

struct msi_part {
    enum msi_part_kind kind;
    bool after;        /* of an operation: it begins when all before it is over; copies and folds always do */
    mst_backend_op op; /* of a fold: what and how */
    void *to;
    const void *from;
    size_t bytes; /* of a copy; of a fold: from the begin of one block to the next */
    int blocks;   /* of a fold */
    bool over;    /* while it is run */
};

struct msi_composer {
    const mst_backend *table;
    uint32_t forced; /* kinds that count as missing: 1 << MST_KIND_… */
    bool stage;      /* memory that the engine has not may be copied */
    int rank, ranks;
    /* Memory for the time of the composition; NULL without. */
    void *(*scratch)(void *context, mst_memory memory, size_t bytes);
    void *context;

    /* What comes of it. */
    struct msi_part *steps;
    size_t n, room;
    bool composed;     /* else the engine does it itself, as the only step */
    const char *words; /* what it is made of */
};

/* What the operation asks for beyond its kind. */
unsigned msi_op_forms(const mst_backend_op *op, int rank, int ranks);

/* Makes the steps of an operation that the engine has not itself; deterministic: its bits must depend on its inputs alone. */
mst_status msi_compose(struct msi_composer *c, const mst_backend_op *op, bool deterministic);

/* The bits of kinds that a list of names such as "reduce_scatter,gather" stands for. */
mst_status msi_kinds_parse(const char *list, uint32_t *kinds);

/* Elements before rank r's block, where each has count, or counts[…]. */
size_t msi_op_start(const size_t *counts, size_t count, int r);
/* Of its block. */
static inline size_t msi_op_len(const size_t *counts, size_t count, int r) {
    return counts ? counts[r] : count;
}

/* For the files of compositions alone. */
/* So many of the operation's elements behind base. */
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
mst_status msi_compose_reduce_local(struct msi_composer *c, const mst_backend_op *op, mst_op how, void *to,
                                    const void *from, size_t bytes, int blocks, size_t count);
mst_status msi_compose_message(struct msi_composer *c, const mst_backend_op *op, bool send, int peer,
                               const void *buf, size_t count, bool after);
/* Gives an operation that the engine does not do in place a copy of its input. */
mst_status msi_compose_apart(struct msi_composer *c, mst_backend_op *op);
/* Memory like the operation's. */
mst_status msi_compose_room(struct msi_composer *c, const mst_backend_op *op, size_t elements, void **room);
mst_status msi_compose_nothing(const struct msi_composer *c, const mst_backend_op *op);
/* A kind that only moves, itself or composed. */
mst_status msi_compose_move(struct msi_composer *c, const mst_backend_op *op);
/* A kind that computes, which the engine has not as asked for. */
mst_status msi_compose_reduction(struct msi_composer *c, const mst_backend_op *op, bool deterministic);

#endif
