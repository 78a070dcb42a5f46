/*
 * p2p_internal.h - what the two halves of p2p share: p2p.c, which sends and is called from outside, and incoming.c, which
 * reads what comes in.
 */
#ifndef MSI_P2P_P2P_INTERNAL_H
#define MSI_P2P_P2P_INTERNAL_H

#include "p2p/p2p.h"
#include "p2p/unexpected.h"
#include "wire/cursor.h"
#include "wireup/wireup.h"

/* What there is with one other rank. */
struct msi_p2p_peer {
    struct msi_wireup out, in;            /* that this rank, that the other has called with */
    bool back;                            /* this rank sends on in */
    bool comes_back;                      /* the other sends on out */
    struct msi_link *listening;           /* has head_in, or had it last */
    unsigned char head[MSI_MESSAGE_HEAD]; /* of the message that comes in */
    struct msi_transfer head_in;
    bool in_body;                       /* its head is there, its body not yet … */
    struct mst_work *receiving;         /* … and goes to this receive, */
    struct msi_unexpected_msg *keeping; /* or is kept */
};

struct msi_p2p {
    struct msi_comm *comm;
    struct msi_list posted;  /* receives that no message has met, by message.node */
    struct msi_list sending; /* sends under way */
    struct msi_unexpected unexpected;
    int incoming; /* ranks of which half a message has come */
    struct msi_p2p_peer peers[];
};

/* What the other rank sends on; NULL: nothing yet. Whoever has called, sends there. */
static inline struct msi_link *msi_p2p_incoming(const struct msi_p2p *p2p, int rank) {
    const struct msi_p2p_peer *p = &p2p->peers[rank];
    bool apart = p2p->comm->places[rank] < 0;
    return p->in.link || !apart || !p->out.open ? p->in.link : p->out.link;
}

/* All messages of a rank that have come so far; needs a link. Receives from it fail if that is of no use any more. */
void msi_p2p_read(struct msi_p2p *p2p, int rank, bool *moved);

/* Nothing comes from a rank any more: whoever waits for a message of it fails. */
void msi_p2p_cut_off(struct msi_p2p *p2p, int rank, mst_status status, const char *why);

/* A receive begins. False if no message is there that it takes. */
bool msi_p2p_match_unexpected(struct msi_p2p *p2p, struct mst_work *op);

/* Is anything expected? If not, what comes in can stay where it is. */
static inline bool msi_p2p_expects(const struct msi_p2p *p2p) {
    return !msi_list_empty(&p2p->sending) || !msi_list_empty(&p2p->posted) || p2p->incoming > 0;
}

/* The head of a message: bytes, tag, dtype. */
static inline void msi_p2p_write_head(const struct msi_message *m, unsigned char out[MSI_MESSAGE_HEAD]) {
    uint64_t words[] = {htole64(m->bytes), htole64((uint64_t)m->dtype << 32 | (uint32_t)m->tag)};
    memcpy(out, words, sizeof words);
}

static inline void msi_p2p_read_head(const void *in, uint64_t *bytes, int *tag, mst_dtype *dtype) {
    struct msi_reader r = msi_reader(in, MSI_MESSAGE_HEAD);
    *bytes = msi_read_u64(&r);
    *tag = (int)msi_read_u32(&r);
    *dtype = (mst_dtype)msi_read_u32(&r);
}

#endif
