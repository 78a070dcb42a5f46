/* layout.c - see layout.h. */
#include "engine/net/layout.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A buffer of n bytes that is kept for the next operation; NULL without memory. */
static char *packed(struct msi_net_layout *layout, int which, size_t n) {
    if (layout->room[which] < n || !layout->packed[which]) {
        char *grown = realloc(layout->packed[which], n ? n : 1);
        if (!grown) return NULL;
        layout->packed[which] = grown;
        layout->room[which] = n;
    }
    return layout->packed[which];
}

/* Copies blocks to, or from, contiguous memory. */
static void move_blocks(const struct msi_blocks *blocks, int n, char *to, bool in) {
    for (int r = 0; r < n; r++) {
        size_t len = msi_block_len(blocks, r);
        if (len && in) memcpy(to, msi_block(blocks, r), len);
        if (len && !in) memcpy(msi_block(blocks, r), to, len);
        to += len;
    }
}

/* Makes the blocks one contiguous input. */
static const void *input_of(struct msi_net_layout *layout, const struct msi_blocks *blocks, int n) {
    if (!blocks->list) return blocks->base;
    char *to = packed(layout, 0, msi_blocks_total(blocks, n));
    if (to) move_blocks(blocks, n, to, true);
    return to;
}

static void *output_of(struct msi_net_layout *layout, const struct msi_blocks *blocks, int n) {
    layout->unpack = blocks->list != NULL;
    return blocks->list ? packed(layout, 1, msi_blocks_total(blocks, n)) : blocks->base;
}

/* Copies an input that lies inside the output, where it would be overwritten. */
static const void *apart(struct msi_net_layout *layout, size_t bytes, size_t out_bytes) {
    uintptr_t a = (uintptr_t)layout->in, b = (uintptr_t)layout->out;
    if (layout->in == layout->packed[0] || a + bytes <= b || b + out_bytes <= a) return layout->in;
    char *to = packed(layout, 0, bytes);
    if (to && bytes) memcpy(to, layout->in, bytes);
    return to;
}

static mst_status make_room(struct msi_net_layout *layout, int size) {
    if (!layout->links) layout->links = calloc((size_t)size, sizeof(struct msi_link *));
    return layout->links ? MST_OK : MST_ERR_MEMORY;
}

/* One tensor on each rank: broadcast, all_reduce, reduce, scan. They run in place, in the output,
 * unless they quantise. */
static void lay_tensor(struct msi_net_layout *layout, const mst_backend_op *d, struct msi_request *request) {
    bool is_root = request->root == request->rank;
    size_t bytes = d->count * d->element;
    request->in_place = !request->quantize || d->in == d->out;
    if (request->kind == MSI_KIND_REDUCE && !is_root) {
        layout->in = d->in;
        layout->out = (void *)(uintptr_t)d->in; /* only read */
        return;
    }
    if (!request->in_place) {
        layout->in = d->in;
        layout->out = d->out;
        return;
    }
    bool sends = request->kind != MSI_KIND_BROADCAST || is_root;
    if (sends && d->in != d->out && bytes) memcpy(d->out, d->in, bytes);
    layout->in = layout->out = d->out;
}

static void lay_blocks(struct msi_net_layout *layout, const struct msi_op *op, struct msi_request *request) {
    int n = request->size;
    enum msi_kind kind = request->kind;
    struct msi_blocks in = msi_op_in(op), out = msi_op_out(op);
    bool root = request->root == request->rank;
    bool in_blocks =
        kind == MSI_KIND_SCATTER || kind == MSI_KIND_REDUCE_SCATTER || kind == MSI_KIND_ALL_TO_ALL;
    bool out_blocks = kind == MSI_KIND_ALL_GATHER || kind == MSI_KIND_ALL_TO_ALL || kind == MSI_KIND_GATHER;
    bool has_in = kind != MSI_KIND_SCATTER || root, has_out = kind != MSI_KIND_GATHER || root;
    layout->out = out_blocks && has_out ? output_of(layout, &out, n) : out.base;
    layout->in = in_blocks && has_in ? input_of(layout, &in, n) : in.base;
    size_t in_bytes = in_blocks ? msi_blocks_total(&in, n) : in.each;
    size_t out_bytes = out_blocks ? msi_blocks_total(&out, n) : out.each;
    if (has_in && has_out) layout->in = apart(layout, in_bytes, out_bytes);
    if (!msi_op_is_uneven(op)) return;
    const struct msi_blocks *shares = in_blocks ? &in : &out;
    request->counts = shares->counts;
    /* All ranks must select the same algorithm. */
    request->count = msi_blocks_total(shares, n) / op->desc.element / (size_t)n / msi_unit_of(op->user);
    if (kind != MSI_KIND_ALL_TO_ALL) return;
    request->counts = NULL;
    request->count = 1;
    request->to = in.counts;
    request->from = out.counts;
}

mst_status msi_net_layout_begin(struct msi_net_layout *layout, const struct msi_op *op,
                                struct msi_request *request) {
    const mst_backend_op *d = &op->desc;
    layout->unpack = false;
    layout->identity = d->kind == MST_KIND_EXSCAN && request->rank == 0;
    request->kind = msi_kind_family(op->call);
    request->root = d->root >= 0 ? d->root : 0;
    mst_status st = make_room(layout, request->size);
    if (st != MST_OK || d->kind == MST_KIND_BARRIER) return st;
    request->unit = msi_unit_of(op->user);
    request->count = d->count / request->unit;
    request->quantize = op->quantize;
    bool one_tensor = d->kind == MST_KIND_BROADCAST || d->kind == MST_KIND_ALL_REDUCE ||
                      d->kind == MST_KIND_REDUCE || d->kind == MST_KIND_SCAN || d->kind == MST_KIND_EXSCAN;
    if (one_tensor)
        lay_tensor(layout, d, request);
    else
        lay_blocks(layout, op, request);
    bool no_memory = (!layout->in && (d->in || d->in_list)) || (!layout->out && (d->out || d->out_list));
    return no_memory ? MST_ERR_MEMORY : MST_OK;
}

void msi_net_layout_end(struct msi_net_layout *layout, const struct msi_op *op, int ranks) {
    struct msi_blocks out = msi_op_out(op);
    if (layout->unpack) move_blocks(&out, ranks, layout->out, false);
    if (layout->identity) msi_reduce_identity(op->desc.dtype, op->desc.op, op->desc.out, op->desc.count);
}

void msi_net_layout_free(struct msi_net_layout *layout) {
    free(layout->packed[0]);
    free(layout->packed[1]);
    free(layout->links);
}
