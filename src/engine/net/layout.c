/* layout.c - the buffers of a call as those of a plan. See layout.h. */
#include "engine/net/layout.h"
#include "base/error.h"

#include <stdlib.h>

/* Memory for n bytes that stays for the next time; NULL without memory. */
static char *packed(struct msi_net_layout *layout, int which, size_t n) {
    if (layout->room[which] < n || !layout->packed[which]) {
        char *grown = realloc(layout->packed[which], n ? n : 1);
        if (!grown) return NULL;
        layout->packed[which] = grown;
        layout->room[which] = n;
    }
    return layout->packed[which];
}

static size_t total(const struct msi_blocks *blocks, int n) {
    size_t sum = 0;
    for (int r = 0; r < n; r++) sum += msi_block_len(blocks, r);
    return sum;
}

/* Copies blocks to, or from, one piece of memory. */
static void move_blocks(const struct msi_blocks *blocks, int n, char *piece, bool in) {
    for (int r = 0; r < n; r++) {
        size_t len = msi_block_len(blocks, r);
        if (len && in) memcpy(piece, msi_block(blocks, r), len);
        if (len && !in) memcpy(msi_block(blocks, r), piece, len);
        piece += len;
    }
}

static void count_elements(size_t *counts, const struct msi_blocks *blocks, int n, size_t element) {
    for (int r = 0; r < n; r++) counts[r] = msi_block_len(blocks, r) / element;
}

/* Blocks as an input in one piece. */
static const void *input_of(struct msi_net_layout *layout, const struct msi_blocks *blocks, int n) {
    if (!blocks->list) return blocks->base;
    char *piece = packed(layout, 0, total(blocks, n));
    if (piece) move_blocks(blocks, n, piece, true);
    return piece;
}

static void *output_of(struct msi_net_layout *layout, const struct msi_blocks *blocks, int n) {
    layout->unpack = blocks->list != NULL;
    return blocks->list ? packed(layout, 1, total(blocks, n)) : blocks->base;
}

/* An input that lies inside the output would be overwritten: it is put aside. */
static const void *aside(struct msi_net_layout *layout, const void *in, size_t bytes, const void *out,
                         size_t out_bytes) {
    uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
    if (in == layout->packed[0] || a + bytes <= b || b + out_bytes <= a) return in;
    char *piece = packed(layout, 0, bytes);
    if (piece && bytes) memcpy(piece, in, bytes);
    return piece;
}

static mst_status make_room(struct msi_net_layout *layout, int size) {
    if (!layout->counts) layout->counts = calloc(2 * (size_t)size, sizeof *layout->counts);
    if (!layout->links) layout->links = calloc((size_t)size, sizeof(struct msi_link *));
    return layout->counts && layout->links ? MST_OK : MST_ERR_MEMORY;
}

/* One tensor on each rank: broadcast, all_reduce, reduce. They run in place, in the output. */
static void lay_tensor(struct msi_net_layout *layout, const struct msi_shm_coll *host,
                       struct msi_request *request) {
    bool reduces_elsewhere = request->kind == MSI_KIND_REDUCE && request->root != request->rank;
    bool sends = request->kind != MSI_KIND_BROADCAST || request->root == request->rank;
    request->in_place = true;
    layout->out = host->out.base;
    if (reduces_elsewhere) {
        layout->in = host->in.base;
        layout->out = host->in.base; /* only read */
        return;
    }
    if (sends && host->in.base != host->out.base && host->in.each)
        memcpy(host->out.base, host->in.base, host->in.each);
    layout->in = host->out.base;
}

static void lay_blocks(struct msi_net_layout *layout, const struct msi_shm_coll *host,
                       struct msi_request *request) {
    int n = request->size;
    bool in_blocks = host->parts, root = request->root == request->rank;
    bool out_blocks = request->kind == MSI_KIND_ALL_GATHER || request->kind == MSI_KIND_ALL_TO_ALL ||
                      request->kind == MSI_KIND_GATHER;
    bool has_in = request->kind != MSI_KIND_SCATTER || root,
         has_out = request->kind != MSI_KIND_GATHER || root;
    layout->out = out_blocks && has_out ? output_of(layout, &host->out, n) : host->out.base;
    layout->in = in_blocks && has_in ? input_of(layout, &host->in, n) : host->in.base;
    size_t in_bytes = in_blocks ? total(&host->in, n) : host->in.each;
    size_t out_bytes = out_blocks ? total(&host->out, n) : host->out.each;
    if (has_in && has_out) layout->in = aside(layout, layout->in, in_bytes, layout->out, out_bytes);
    if (!host->uneven) return;
    const struct msi_blocks *shares = in_blocks ? &host->in : &host->out;
    count_elements(layout->counts, shares, n, host->element);
    request->counts = layout->counts;
    request->count = total(shares, n) / host->element / (size_t)n; /* all ranks must choose alike */
    if (request->kind != MSI_KIND_ALL_TO_ALL) return;
    count_elements(layout->counts + n, &host->out, n, host->element);
    request->counts = NULL;
    request->count = 1;
    request->to = layout->counts;
    request->from = layout->counts + n;
}

mst_status msi_net_layout_begin(struct msi_net_layout *layout, const struct mst_work *op,
                                struct msi_request *request) {
    const struct msi_shm_coll *host = &op->host;
    layout->unpack = false;
    request->kind = msi_kind_family(host->told.kind);
    request->root = host->publisher >= 0 ? host->publisher : host->reader >= 0 ? host->reader : 0;
    mst_status st = make_room(layout, request->size);
    if (st != MST_OK || request->kind == MSI_KIND_BARRIER) return st;
    request->count = (host->parts            ? host->in.each
                      : host->publisher >= 0 ? host->out.each
                                             : host->in.each) /
                     host->element;
    bool one_tensor = request->kind == MSI_KIND_BROADCAST || request->kind == MSI_KIND_ALL_REDUCE ||
                      request->kind == MSI_KIND_REDUCE;
    if (one_tensor)
        lay_tensor(layout, host, request);
    else
        lay_blocks(layout, host, request);
    bool missing = (!layout->in && host->in.base) || (!layout->out && host->out.base);
    return missing ? MST_ERR_MEMORY : MST_OK;
}

void msi_net_layout_end(struct msi_net_layout *layout, const struct mst_work *op) {
    if (layout->unpack) move_blocks(&op->host.out, op->comm->size, layout->out, false);
}

void msi_net_layout_free(struct msi_net_layout *layout) {
    free(layout->packed[0]);
    free(layout->packed[1]);
    free(layout->counts);
    free(layout->links);
}
