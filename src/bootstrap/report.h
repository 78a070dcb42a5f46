/* report.h - failures that ranks report to each other while a world forms. */
#ifndef MSI_BOOTSTRAP_REPORT_H
#define MSI_BOOTSTRAP_REPORT_H

#include "bootstrap/join.h"
#include "os/slow.h"
#include "wire/members.h"

enum { MSI_REPORT_MS = 1000, MSI_KEY_MAX = 768 };

/* `muster run` writes the hosts of ranks here, a line for each host: "RUN FIRST COUNT HOST". */
#define MSI_LAUNCH_HOSTS_KEY "muster/launch/hosts"

/* The remedy if ranks chose different backends. */
#define MSI_SAME_BACKEND "give all ranks of a group the same .backend or MUSTER_BACKEND"

/* Formats a key and returns a view of it. */
struct msi_str msi_key(char out[MSI_KEY_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The world size in a "params" value; INT64_MAX if it is malformed. */
int64_t msi_params_size(struct msi_str params);

/* Do the events mention the rank? */
bool msi_events_mention(struct msi_str events, int rank);
/* Do they mention all ranks from 0 to size - 1? */
bool msi_events_all(struct msi_str events, int64_t size);
/* The first failure among the events that prevents the world from forming, as seen by rank; MST_OK: none. */
mst_status msi_events_explain(struct mst_store *store, const char *prefix, struct msi_str events, int rank);

/*
 * Reports an event of rank: 'F' with this thread's last failure, or 'L' because others failed. leaving: also
 * removes this rank's on_disconnect value. Keeps the thread's last failure.
 */
void msi_join_post(struct mst_store *store, const char *prefix, int rank, char kind, bool leaving);

/* Fails with the reason why the guard or the deadline ended the wait. */
mst_status msi_join_explain_loss(struct mst_store *store, const char *prefix, int rank);
mst_status msi_join_explain_missing(struct mst_store *store, const char *prefix,
                                    const struct msi_join_spec *spec);
/* Writes the line of a rank that waits for long until the others arrive. */
void msi_join_write_slow(struct mst_store *store, const char *prefix, const struct msi_join_spec *spec,
                         struct msi_slow *slow, int64_t deadline);

/* "host a, pid 12" of a registration; "" if it is empty. Returns out. */
const char *msi_process_of(struct msi_str registration, char *out, size_t size);
/* Distinguishes the processes whose ids are known here: those of this boot, pid namespace and user. */
uint32_t msi_join_host_mark(void);
/*
 * Between its registration and its on_disconnect value, the store does not notice the death of a rank. Looks
 * for such a rank of this host, among some of those that have not arrived, and reports its death in the place
 * of the store. *next: the rank from which to look; 0 at first.
 */
void msi_join_report_dead(struct mst_store *store, const char *prefix, const struct msi_join_spec *spec,
                          int *next);

/* Builds the members from the ranks' entries; MST_ERR_PROTOCOL if they are incomplete or inconsistent. */
mst_status msi_members_build(struct msi_str entries, struct msi_str locations, int size,
                             struct msi_members *members);

#endif
