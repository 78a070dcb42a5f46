/*
 * join.h - joining a world through a store.
 *
 * Five round trips per rank, independent of the world size:
 *   1. read the number of the world that is forming;
 *   2. register the rank, compare size, version and backend, find the host's segment;
 *   3. set the on_disconnect value;
 *   4. arrive at the barrier;
 *   5. read the members.
 *
 * Keys under muster/RUN/
 *   ended      number of worlds that have ended; only grows
 * and under muster/RUN/K/, for the K-th world
 *   rank/R     the process that registered as rank R: a random number, a hash of msi_host_key, host and pid
 *   params     size, version and backend of the first rank
 *   arrived    number of ranks that have arrived; equal to the size: the world has formed and is closed
 *   seg/H      the segment that ranks of host H try to share, while the world forms
 *   all        the barrier of arrival
 *   members, locations, events    see wire/members.h
 *   prof/zero  time at which the world formed, for profiles: see group/prof.c
 *   G/all, G/at/R, G/out      barriers of group G, the last barrier of its rank R, number of ranks that ended
 *                             it
 *   G/backend, G/exchange.N   see group/choice.h
 *   out        number of ranks that have left; the last one increments ended and deletes the world's keys. If
 *              rank 0 hosts the store, it leaves last, and the keys end with the store
 *   host, standby             see group/standby.c
 *   never      never set: rank 0 waits for it, guarded by events, until the others have left
 */
#ifndef MSI_BOOTSTRAP_JOIN_H
#define MSI_BOOTSTRAP_JOIN_H

#include "bootstrap/discover.h"
#include "store/store.h"

/* One rank of a world. The strings belong to struct msi_members. */
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
 * Joins and waits until all ranks have. prefix becomes the world's key prefix ("muster/RUN/K/"). After a
 * failure this rank has reported the reason to the others, if the store still works.
 */
mst_status msi_join(struct mst_store *store, const struct msi_join_spec *spec,
                    const struct msi_settings *settings, const struct msi_wait *wait,
                    char prefix[MSI_PREFIX_MAX], struct msi_members *members);

void msi_members_free(struct msi_members *members);

/* "host a, pid 12" of a process that has registered as the rank; "" if none has. Returns out. */
const char *msi_join_process(struct mst_store *store, const char *prefix, int rank, char *out, size_t size);

#endif
