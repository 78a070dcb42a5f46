/*
 * report.h - what ranks tell each other when a world cannot form, and how the others put it into words.
 */
#ifndef MSI_BOOTSTRAP_REPORT_H
#define MSI_BOOTSTRAP_REPORT_H

#include "bootstrap/join.h"
#include "wire/members.h"

enum { MSI_LAST_WORDS_MS = 1000, MSI_KEY_MAX = 768, MSI_WHO_MAX = MSI_HOST_MAX + 32 };

/*
 * Where a launcher of ours says which ranks of which run are on which host, with a line for each host:
 * "RUN FIRST COUNT HOST".
 */
#define MSI_LAUNCH_HOSTS_KEY "muster/launch/hosts"

/* How to mend that ranks chose different backends. */
#define MSI_SAME_BACKEND "give all ranks of a group the same .backend or MUSTER_BACKEND"

/* Writes a key and returns a view of it. */
struct msi_str msi_key(char out[MSI_KEY_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The world size in a "params" value; a number that nobody reaches if it is none. */
int64_t msi_params_size(struct msi_str params);

/* Has the rank died, left or given up? */
bool msi_events_mention(struct msi_str events, int rank);
/* Have ranks 0 to size - 1 all? */
bool msi_events_all(struct msi_str events, int64_t size);
/* MST_OK if nothing in there keeps a world from forming; else the failure it tells of, as seen by rank. */
mst_status msi_events_explain(struct mst_store *store, const char *prefix, struct msi_str events, int rank);

/*
 * Tells the others: kind 'F' that this thread's last failure keeps rank from joining, 'L' that rank leaves
 * because others failed. with_will: takes this rank's will back. The thread's last failure stays what it was.
 */
void msi_join_post(struct mst_store *store, const char *prefix, int rank, char kind, bool with_will);

/* The failure to record when a guard ended the wait, or the deadline did. */
mst_status msi_join_explain_loss(struct mst_store *store, const char *prefix, int rank);
mst_status msi_join_explain_missing(struct mst_store *store, const char *prefix,
                                    const struct msi_place *place);

/* Makes the members from what the ranks wrote; MST_ERR_PROTOCOL if it is not complete and consistent. */
mst_status msi_members_build(struct msi_str entries, struct msi_str places, int size,
                             struct msi_members *members);

#endif
