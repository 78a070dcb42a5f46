/*
 * checked_calls.h - which calls the ranks of a communicator have compared.
 *
 * In a broadcast the root need not wait for the other ranks, so it cannot know what they call. Therefore the
 * native engines compare a call on all ranks when it is made for the first time: no rank returns before all
 * ranks have made the same call. Later calls with the same signature are compared only where ranks exchange
 * data anyway, and a difference that no rank sees is found in the next call that exchanges data.
 *
 * Between hosts all ranks have the same set, since they make the same calls; a comparison needs all ranks.
 * The set is bounded: a program whose calls always differ pays for MSI_CHECKED_MOST comparisons.
 */
#ifndef MSI_COMM_CHECKED_CALLS_H
#define MSI_COMM_CHECKED_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum { MSI_CHECKED_MOST = 256, MSI_CHECKED_ROOM = 2 * MSI_CHECKED_MOST };

struct msi_checked_calls {
    uint32_t hashes[MSI_CHECKED_ROOM]; /* open addressing; 0: free */
    unsigned n;
};

static inline unsigned msi_checked_find(const struct msi_checked_calls *calls, uint32_t hash) {
    unsigned at = hash % MSI_CHECKED_ROOM;
    while (calls->hashes[at] && calls->hashes[at] != hash) at = (at + 1) % MSI_CHECKED_ROOM;
    return at;
}

/* A signature whose hash is 0 is never in the set. */
static inline bool msi_is_checked(const struct msi_checked_calls *calls, uint32_t hash) {
    return calls->n >= MSI_CHECKED_MOST || (hash && calls->hashes[msi_checked_find(calls, hash)] == hash);
}

static inline void msi_set_checked(struct msi_checked_calls *calls, uint32_t hash) {
    unsigned at = msi_checked_find(calls, hash);
    if (calls->n >= MSI_CHECKED_MOST || calls->hashes[at] || !hash) return;
    calls->hashes[at] = hash;
    calls->n++;
}

#endif
