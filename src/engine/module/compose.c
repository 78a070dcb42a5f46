/* compose.c - the forms of operations, and what all compositions share. See compose.h. */
#include "engine/module/compose.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t msi_op_start(const size_t *counts, size_t count, int r) {
    size_t sum = 0;
    if (!counts) return (size_t)r * count;
    for (int i = 0; i < r; i++) sum += counts[i];
    return sum;
}

/* Bytes that a rank reads or writes: one block, or one for each rank. */
static size_t extent(const mst_backend_op *op, bool in, int ranks) {
    bool parts = in ? op->kind == MST_KIND_REDUCE_SCATTER || op->kind == MST_KIND_ALL_TO_ALL ||
                          op->kind == MST_KIND_SCATTER
                    : op->kind == MST_KIND_ALL_GATHER || op->kind == MST_KIND_ALL_TO_ALL ||
                          op->kind == MST_KIND_GATHER;
    size_t count = parts ? msi_op_start(in ? op->in_counts : op->out_counts, op->count, ranks) : op->count;
    return count * op->element;
}

static bool reads(const mst_backend_op *op, int rank) {
    bool rooted = op->kind == MST_KIND_SCATTER || op->kind == MST_KIND_BROADCAST;
    return op->in && (!rooted || op->root == rank);
}

static bool writes(const mst_backend_op *op, int rank) {
    bool rooted = op->kind == MST_KIND_GATHER || op->kind == MST_KIND_REDUCE;
    return op->out && (!rooted || op->root == rank);
}

static bool touch(const void *in, size_t in_bytes, const void *out, size_t out_bytes) {
    uintptr_t from = (uintptr_t)in, to = (uintptr_t)out;
    return from < to + out_bytes && to < from + in_bytes;
}

/* Does a listed block overlap with its counterpart? */
static bool lists_overlap(const mst_backend_op *op, int rank, int ranks) {
    bool each = op->in_list && op->out_list;
    for (int r = each ? 0 : rank; r < (each ? ranks : rank + 1); r++)
        if (touch(op->in_list ? op->in_list[r] : op->in,
                  msi_op_len(op->in_counts, op->count, r) * op->element,
                  op->out_list ? op->out_list[r] : op->out,
                  msi_op_len(op->out_counts, op->count, r) * op->element))
            return true;
    return false;
}

static bool overlaps(const mst_backend_op *op, int rank, int ranks) {
    if (op->kind == MST_KIND_SEND || op->kind == MST_KIND_RECV || op->kind == MST_KIND_BROADCAST)
        return false;
    if (op->in_list || op->out_list) return lists_overlap(op, rank, ranks);
    if (!reads(op, rank) || !writes(op, rank)) return false;
    return touch(op->in, extent(op, true, ranks), op->out, extent(op, false, ranks));
}

unsigned msi_op_forms(const mst_backend_op *op, int rank, int ranks) {
    bool message = op->kind == MST_KIND_SEND || op->kind == MST_KIND_RECV;
    unsigned forms = 0;
    if (op->in_counts || op->out_counts) forms |= MST_FORM_UNEVEN;
    if (op->in_list || op->out_list) forms |= MST_FORM_LISTS;
    if (message && op->tag > 0) forms |= MST_FORM_TAG;
    if (message && op->tag == MST_ANY_TAG) forms |= MST_FORM_ANY_TAG;
    if (message && op->peer < 0) forms |= MST_FORM_ANY_SOURCE;
    if (overlaps(op, rank, ranks)) forms |= MST_FORM_IN_PLACE;
    return forms;
}

mst_status msi_kinds_parse(const char *list, uint32_t *kinds) {
    uint32_t found = 0;
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t n = strcspn(at, ",");
        uint32_t named = 0;
        for (int k = 0; k < MST_KIND_COUNT; k++)
            if (strlen(msi_kind_text((mst_kind)k)) == n && !strncmp(msi_kind_text((mst_kind)k), at, n))
                named = 1u << k;
        if (!named && n)
            return msi_fail(MST_ERR_INVALID, "give names such as reduce_scatter,gather",
                            "MUSTER_FORCE_FALLBACK has '%.*s', which is not a kind of operation",
                            (int)(n < 40 ? n : 40), at);
        found |= named;
    }
    *kinds = found;
    return MST_OK;
}

bool msi_compose_can_op(const struct msi_composer *c, const mst_backend_op *op, mst_kind kind, mst_op reduces,
                        unsigned forms) {
    if (c->forced >> kind & 1) return false;
    return msi_rows_have(c->table->rows(), kind, op->dtype, reduces, op->memory, forms);
}

bool msi_compose_can(const struct msi_composer *c, const mst_backend_op *op, mst_kind kind) {
    return msi_compose_can_op(c, op, kind, op->op, 0);
}

mst_backend_op msi_compose_sub(const mst_backend_op *op, mst_kind kind, const void *in, void *out,
                               size_t count) {
    mst_backend_op sub = *op;
    sub.kind = kind;
    sub.in = in;
    sub.out = out;
    sub.count = count;
    sub.root = -1;
    sub.in_counts = sub.out_counts = NULL;
    sub.in_list = NULL;
    sub.out_list = NULL;
    return sub;
}

static struct msi_part *new_step(struct msi_composer *c, enum msi_part_kind kind) {
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 16;
        struct msi_part *steps = realloc(c->steps, room * sizeof *steps);
        if (!steps) return NULL;
        c->steps = steps;
        c->room = room;
    }
    struct msi_part *step = &c->steps[c->n++];
    *step = (struct msi_part){.kind = kind};
    return step;
}

mst_status msi_compose_add(struct msi_composer *c, const mst_backend_op *op, bool after) {
    struct msi_part *step = new_step(c, MSI_PART_OP);
    if (!step) return msi_fail_memory();
    step->op = *op;
    step->after = after;
    return MST_OK;
}

mst_status msi_compose_copy(struct msi_composer *c, void *to, const void *from, size_t bytes) {
    if (to == from || bytes == 0) return MST_OK;
    struct msi_part *step = new_step(c, MSI_PART_COPY);
    if (!step) return msi_fail_memory();
    step->to = to;
    step->from = from;
    step->bytes = bytes;
    return MST_OK;
}

mst_status msi_compose_reduce_local(struct msi_composer *c, const mst_backend_op *op,
                                    const struct msi_local_reduction *r) {
    if (r->count == 0) return MST_OK;
    struct msi_part *step = new_step(c, MSI_PART_REDUCE_LOCAL);
    if (!step) return msi_fail_memory();
    step->op = *op;
    step->op.op = r->op;
    step->op.count = r->count;
    step->to = r->to;
    step->from = r->from;
    step->bytes = r->stride;
    step->blocks = r->blocks;
    return MST_OK;
}

mst_status msi_compose_scan_local(struct msi_composer *c, const mst_backend_op *op, void *blocks,
                                  size_t count) {
    struct msi_part *step = new_step(c, MSI_PART_SCAN_LOCAL);
    if (!step) return msi_fail_memory();
    step->op = *op;
    step->op.count = count;
    step->to = blocks;
    step->bytes = count * op->element;
    step->blocks = c->ranks;
    return MST_OK;
}

mst_status msi_compose_message(struct msi_composer *c, const mst_backend_op *op, struct msi_compose_peer peer,
                               const void *buf, size_t count) {
    if (count == 0) return MST_OK;
    mst_backend_op message =
        msi_compose_sub(op, peer.send ? MST_KIND_SEND : MST_KIND_RECV, NULL, NULL, count);
    message.peer = peer.rank;
    message.tag = MST_INTERNAL_TAG;
    if (peer.send)
        message.in = buf;
    else
        message.out = (void *)(uintptr_t)buf;
    return msi_compose_add(c, &message, peer.after);
}

mst_status msi_compose_room(struct msi_composer *c, const mst_backend_op *op, size_t elements, void **room) {
    *room =
        c->scratch(c->context, op->memory, elements * op->element + 1); /* an address even for no elements */
    return *room ? MST_OK : msi_fail_memory();
}

mst_status msi_compose_nothing(const struct msi_composer *c, const mst_backend_op *op) {
    return msi_fail(MST_ERR_UNSUPPORTED, "choose another backend for this group",
                    "backend '%s' cannot do %s of %s%s%s, and lacks the operations to compose it from",
                    c->table->name, msi_kind_text(op->kind), mst_dtype_name(op->dtype),
                    msi_kind_reduces(op->kind) ? " with " : "",
                    msi_kind_reduces(op->kind) ? mst_op_name(op->op) : "");
}

static mst_status compose(struct msi_composer *c, const mst_backend_op *op, bool deterministic);

/* For listed blocks: copies them into one buffer before the operation, and out of one buffer after it. */
static mst_status compose_lists(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    mst_backend_op flat = *op;
    mst_status st = MST_OK;
    void *in = NULL, *out = NULL;
    c->description = "the same with contiguous blocks: one more copy";
    if (op->in_list) {
        st = msi_compose_room(c, op, msi_op_start(op->in_counts, op->count, c->ranks), &in);
        for (int r = 0; r < c->ranks && st == MST_OK; r++)
            st = msi_compose_copy(c, (char *)in + msi_op_start(op->in_counts, op->count, r) * op->element,
                                  op->in_list[r], msi_op_len(op->in_counts, op->count, r) * op->element);
        flat.in = in;
        flat.in_list = NULL;
    }
    if (op->out_list && st == MST_OK) {
        st = msi_compose_room(c, op, msi_op_start(op->out_counts, op->count, c->ranks), &out);
        flat.out = out;
        flat.out_list = NULL;
    }
    if (st == MST_OK) st = compose(c, &flat, deterministic);
    for (int r = 0; op->out_list && r < c->ranks && st == MST_OK; r++)
        st = msi_compose_copy(c, op->out_list[r],
                              (char *)out + msi_op_start(op->out_counts, op->count, r) * op->element,
                              msi_op_len(op->out_counts, op->count, r) * op->element);
    return st;
}

static mst_status copy_input(struct msi_composer *c, mst_backend_op *op) {
    void *in;
    size_t bytes = extent(op, true, c->ranks);
    mst_status st = msi_compose_room(c, op, bytes / op->element, &in);
    if (st == MST_OK) st = msi_compose_copy(c, in, op->in, bytes);
    if (st == MST_OK) op->in = in;
    return st;
}

mst_status msi_compose_apart(struct msi_composer *c, mst_backend_op *op) {
    if (!overlaps(op, c->rank, c->ranks) ||
        msi_compose_can_op(c, op, op->kind, op->op, msi_op_forms(op, c->rank, c->ranks)))
        return MST_OK;
    return copy_input(c, op);
}

static mst_status compose_in_place(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    mst_backend_op apart = *op;
    c->description = "the same with a copy of the input";
    mst_status st = copy_input(c, &apart);
    return st == MST_OK ? compose(c, &apart, deterministic) : st;
}

/* The backend cannot use the memory: copies through memory that it can use. */
static mst_status compose_staged(struct msi_composer *c, const mst_backend_op *op, mst_memory memory,
                                 bool deterministic) {
    mst_backend_op staged = *op;
    void *in = NULL, *out = NULL;
    size_t in_bytes = extent(op, true, c->ranks), out_bytes = extent(op, false, c->ranks);
    staged.memory = memory;
    c->description = "the same on the device, with copies there and back";
    mst_status st = MST_OK;
    if (reads(op, c->rank)) {
        st = msi_compose_room(c, &staged, in_bytes / op->element, &in);
        if (st == MST_OK) st = msi_compose_copy(c, in, op->in, in_bytes);
    }
    if (st == MST_OK && op->out) st = msi_compose_room(c, &staged, out_bytes / op->element, &out);
    staged.in = in || op->kind != MST_KIND_BROADCAST ? in : out;
    staged.out = out;
    if (st == MST_OK) st = compose(c, &staged, deterministic);
    if (st == MST_OK && writes(op, c->rank)) st = msi_compose_copy(c, op->out, out, out_bytes);
    return st;
}

/* Memory that the backend can use, if it cannot use the operation's; -1: it can. */
static int other_memory(const struct msi_composer *c, const mst_backend_op *op) {
    int other = -1;
    for (const mst_backend_capability *r = c->table->rows(); r->kinds; r++) {
        uint32_t memories = r->memories ? r->memories : 1u << MST_MEMORY_HOST;
        if (memories >> op->memory & 1) return -1;
        for (int m = 0; m < MST_MEMORY_COUNT; m++)
            if (memories >> m & 1) other = m;
    }
    return other;
}

static mst_status refuse_memory(const struct msi_composer *c, const mst_backend_op *op) {
    return msi_fail(MST_ERR_INVALID,
                    "give a buffer of the device, set MUSTER_STAGE=1 to have it copied, or use the backend "
                    "\"cpu:native,cuda:nccl\"",
                    "the buffer at %p is memory of the host, which backend '%s' cannot use",
                    op->in ? op->in : op->out, c->table->name);
}

static mst_status compose(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    unsigned forms = msi_op_forms(op, c->rank, c->ranks);
    bool reduces = msi_kind_reduces(op->kind);
    unsigned needs = forms | (deterministic && reduces ? (unsigned)MST_FORM_DETERMINISTIC : 0);
    if (msi_compose_can_op(c, op, op->kind, op->op, needs)) return msi_compose_add(c, op, true);
    c->composed = true;
    int memory = op->kind == MST_KIND_BARRIER ? -1 : other_memory(c, op);
    if (memory >= 0 && !c->stage) return refuse_memory(c, op);
    if (memory >= 0 && !(forms & MST_FORM_LISTS))
        return compose_staged(c, op, (mst_memory)memory, deterministic);
    if (forms & MST_FORM_LISTS) return compose_lists(c, op, deterministic);
    bool but_for_that = msi_compose_can_op(c, op, op->kind, op->op, needs & (unsigned)~MST_FORM_IN_PLACE);
    if (forms & MST_FORM_IN_PLACE && (!reduces || but_for_that))
        return compose_in_place(c, op, deterministic);
    return reduces ? msi_compose_reduction(c, op, deterministic) : msi_compose_move(c, op);
}

mst_status msi_compose(struct msi_composer *c, const mst_backend_op *op, bool deterministic) {
    c->n = 0;
    c->composed = false;
    c->description = NULL;
    if (!op->stream) return compose(c, op, deterministic);
    /* A barrier waits for the stream first, since copies and local reductions are not ordered on it. */
    mst_backend_op first = msi_compose_sub(op, MST_KIND_BARRIER, NULL, NULL, 0), rest = *op;
    rest.stream = NULL;
    if (!msi_compose_can(c, &first, MST_KIND_BARRIER)) return msi_compose_nothing(c, op);
    mst_status st = msi_compose_add(c, &first, false);
    if (st == MST_OK) st = compose(c, &rest, deterministic);
    if (st == MST_OK && c->n > 1) c->steps[1].after = true;
    return st;
}
