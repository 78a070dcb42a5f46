/*
 * join.h - joining a world through a store.
 *
 * Round trips per rank, whatever the size: one to learn which world is forming, one to claim the rank, agree on
 * size, version and backend and find the others of this host, one to leave a will, one to arrive, one to read who all are.
 *
 * Keys under muster/RUN/
 *   ended      how many worlds are over; only ever grows
 * and under muster/RUN/K/, for the K-th of them
 *   who/R      who has claimed rank R: a random number, host and pid
 *   params     size, version and backend, as the first rank to come sees them
 *   come       how many have arrived; as many as the size: the world has formed, and takes nobody any more
 *   seg/H      the segment that ranks of host H try to share, while the world forms
 *   all        the barrier of arrival
 *   members, places, events    see wire/members.h
 *   prof/zero  when the world formed, for traces: see group/prof.c
 *   G/all, G/at/R, G/out      barriers of group G, how far rank R of it is, how many have ended it
 *   G/backend, G/exchange.N   see group/choice.h
 *   out        how many ranks have left; the last one counts the world as ended and deletes all its keys, except
 *              where rank 0 hosts the store: there the keys go with it, and rank 0 leaves last
 *   never      is never set: rank 0 waits for it, guarded by events, until the others have left
 */
#ifndef MSI_BOOTSTRAP_JOIN_H
#define MSI_BOOTSTRAP_JOIN_H

#include "bootstrap/discover.h"
#include "store/store.h"

/* One rank of a world that has formed. Strings belong to the members. */
struct msi_member {
    int pid, host, local_rank;
    const char *host_name, *address;
};

struct msi_members {
    int size, host_count;
    struct msi_member *members; /* by rank */
    int *local_sizes;           /* by host */
    char *strings;
};

enum { MSI_PREFIX_MAX = MSI_RUN_MAX + 48 };

/*
 * Joins and waits until all have. prefix becomes the world's own part of the store ("muster/RUN/K/"). On a
 * failure this rank has told the others why, as far as the store lets it.
 */
mst_status msi_join(struct mst_store *store, const struct msi_place *place,
                    const struct msi_settings *settings, const struct msi_wait *wait,
                    char prefix[MSI_PREFIX_MAX], struct msi_members *members);

void msi_members_free(struct msi_members *members);

/* Host and pid of a rank that has joined or tried to, as "host a, pid 12"; "" if it never came. Returns out.
 */
const char *msi_join_who(struct mst_store *store, const char *prefix, int rank, char *out, size_t size);

#endif
