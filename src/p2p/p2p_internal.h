/* p2p_internal.h - shared by p2p.c, which sends and is called by engines, and incoming.c, which receives. */
#ifndef MSI_P2P_P2P_INTERNAL_H
#define MSI_P2P_P2P_INTERNAL_H

#include "p2p/p2p.h"
#include "wire/cursor.h"

/* Messages with one other rank. */
struct msi_p2p_peer {
    struct msi_wireup out, in;  /* the links that this rank opened, and that the other rank opened */
    bool back;                  /* this rank sends on in */
    bool comes_back;            /* the other rank sends on out */
    struct msi_failure *lost;   /* how the other rank was lost; its links are closed. NULL: it is not */
    struct msi_link *listening; /* has header_in, or had it last */
    unsigned char header[MSI_P2P_HEADER]; /* of the incoming message */
    struct msi_transfer header_in;
    bool in_body;                       /* the header has arrived, but not the body, … */
    struct mst_work *receiving;         /* … which goes to this receive, … */
    struct msi_unexpected_msg *keeping; /* … or is unexpected */
};

static inline struct msi_p2p_request *msi_p2p_request(struct mst_work *work) {
    return work->state;
}

/* The link on which the other rank sends; NULL: none yet. */
static inline struct msi_link *msi_p2p_incoming(const struct msi_p2p *p2p, int rank) {
    const struct msi_p2p_peer *p = &p2p->links[rank];
    bool other_host = p2p->peers->comm->ranks.slots[rank] < 0;
    return p->in.link || !other_host || !p->out.open ? p->in.link : p->out.link;
}

/* Receives all messages of a rank that have arrived so far; needs a link. Receives from that rank fail if the
 * link is lost. */
void msi_p2p_read(struct msi_p2p *p2p, int rank, bool *moved);

/* Fails the receives from a rank that sends no more messages. */
void msi_p2p_cut_off(struct msi_p2p *p2p, int rank, mst_status status, const char *why);

/* Matches a receive that begins with an unexpected message. False if there is none. */
bool msi_p2p_match_unexpected(struct msi_p2p *p2p, struct mst_work *work);

/* Begins a probe. */
void msi_p2p_begin_probe(struct msi_p2p *p2p, struct mst_work *work);

/* Is a message expected? If not, incoming messages can stay on their links. */
static inline bool msi_p2p_expects(const struct msi_p2p *p2p) {
    return !msi_list_empty(&p2p->sending) || !msi_list_empty(&p2p->posted) || p2p->incoming > 0 ||
           p2p->probes > 0;
}

/* The header of a message: bytes, tag, dtype. */
struct msi_p2p_header {
    uint64_t bytes;
    int tag;
    mst_dtype dtype;
};

static inline void msi_p2p_write_header(const struct msi_op *op, unsigned char out[MSI_P2P_HEADER]) {
    const mst_backend_op *d = &op->desc;
    uint64_t words[] = {htole64(msi_op_bytes(op)), htole64((uint64_t)d->dtype << 32 | (uint32_t)d->tag)};
    memcpy(out, words, sizeof words);
}

static inline struct msi_p2p_header msi_p2p_read_header(const void *in) {
    struct msi_reader r = msi_reader(in, MSI_P2P_HEADER);
    uint64_t bytes = msi_read_u64(&r);
    int tag = (int)msi_read_u32(&r);
    return (struct msi_p2p_header){bytes, tag, (mst_dtype)msi_read_u32(&r)};
}

#endif
