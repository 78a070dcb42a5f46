/* headers.c - what a rank says of its call to each rank that its plan sends to. See net.h. */
#include "engine/net/net.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <string.h>

void msi_net_write_header(const struct msi_net *net, const struct mst_work *work, int receiver,
                          unsigned flags, unsigned char out[MSI_NET_HEADER_BYTES]) {
    const struct msi_call_signature *s = &work->op.signature;
    struct msi_buf header = {out, 0, MSI_NET_HEADER_BYTES, false};
    bool splits = s->flags & MSI_SIGNED_SPLITS;
    msi_put_u64(&header, net->seq);
    msi_put_u32(&header, work->op.hash);
    msi_put_u32(&header, net->history);
    msi_put_u32(&header, (uint32_t)s->kind | (uint32_t)s->dtype << 8 | (uint32_t)s->op << 16 |
                             (s->flags | flags) << 24);
    msi_put_u32(&header, (uint32_t)s->root);
    msi_put_u64(&header, splits ? work->op.desc.in_counts[receiver] : s->count);
    msi_put_u32(&header, s->line);
    msi_buf_add(&header, s->file, sizeof s->file);
}

struct msi_net_header msi_net_read_header(const unsigned char bytes[MSI_NET_HEADER_BYTES]) {
    struct msi_reader r = msi_reader(bytes, MSI_NET_HEADER_BYTES);
    struct msi_net_header h = {.seq = msi_read_u64(&r)};
    h.hash = msi_read_u32(&r);
    h.history = msi_read_u32(&r);
    uint32_t kinds = msi_read_u32(&r);
    h.compares = kinds >> 24 & MSI_NET_HEADER_COMPARES;
    h.signature =
        (struct msi_call_signature){.kind = (uint8_t)kinds,
                                    .dtype = (uint8_t)(kinds >> 8),
                                    .op = (uint8_t)(kinds >> 16),
                                    .flags = (uint8_t)(kinds >> 24 & ~(uint32_t)MSI_NET_HEADER_COMPARES)};
    h.signature.root = (int32_t)msi_read_u32(&r);
    h.signature.count = msi_read_u64(&r);
    h.signature.line = msi_read_u32(&r);
    memcpy(h.signature.file, msi_read_bytes(&r, sizeof h.signature.file), sizeof h.signature.file);
    return h;
}

const char *msi_net_find_difference(struct msi_net *net, const struct mst_work *work, int rank,
                                    const struct msi_net_header *h) {
    if (h->seq != net->seq || h->hash != work->op.hash) return "the calls differ";
    if (h->history != net->history) return "the calls differed some operations earlier";
    if (h->compares != (net->phase != MSI_NET_RUN)) return "MUSTER_CHECK is not equal on all ranks";
    if (net->phase != MSI_NET_RUN || !(work->op.signature.flags & MSI_SIGNED_SPLITS)) return NULL;
    unsigned long long sent = h->signature.count, expected = work->op.desc.out_counts[rank];
    if (sent == expected) return NULL;
    snprintf(net->why, sizeof net->why, "it sends %llu elements to this rank, which expects %llu", sent,
             expected);
    return net->why;
}

enum msi_advance msi_net_mismatch(struct msi_net *net, struct mst_work *work, int rank,
                                  const struct msi_net_header *h, const char *why) {
    net->peers[rank].signature = h->signature;
    msi_fault(work, MST_ERR_MISMATCH, rank, why);
    if (msi_comm_has_rejected(work->comm, h->seq)) work->fault.seq = h->seq;
    return MSI_FAILED;
}
