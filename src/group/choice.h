/*
 * choice.h - shared by choice.c and exchange.c: how the ranks of a group publish the backends that they have
 * chosen.
 *
 * Keys, under the group's:
 *   backend            the choice of the first rank, "RANK NAME". Written when a group gets a backend of its
 *                      own, and before its first operation. Ranks of a world have compared theirs when they
 *                      joined.
 *   differ             the failure of a rank that has chosen another backend; ranks that wait read it
 *   exchange.N         the choice of the first rank in the N-th exchange, "RANK NAME", then " KEY:SEQ" for
 *                      each communicator that it has used, with the number of collectives called
 *   exchange.N/came    the ranks that have arrived, "RANK;", with " GROUP/NAME" for each backend that has
 *                      failed on that rank: if it is chosen now, all ranks recreate its communicator
 *   exchange.N/all     the barrier of the arrival
 *   exchange.N/end     how it ended: "ok" or the failure. The first writer decides for all. Prefix "off": a
 *                      rank that had not arrived cancelled it; later ranks ignore that.
 *
 * A failure is written as "STATUS RANK CULPRIT what\nremedy".
 */
#ifndef MSI_GROUP_CHOICE_H
#define MSI_GROUP_CHOICE_H

#include "bootstrap/report.h"
#include "group/world.h"

enum {
    MSI_NOTE_MAX = 1000,
    MSI_RANK_SHOW_MAX = MSI_PROCESS_MAX + 32, /* holds what msi_rank_show writes */
};

/* "rank 3 (host a, pid 12)"; returns out. */
const char *msi_rank_show(const mst_group *group, int rank, char *out, size_t size);

/* The key of an exchange. */
void msi_exchange_key(const mst_group *group, int number, char out[MSI_KEY_MAX]);

/* Writes the thread's last failure as text for other ranks. */
void msi_failure_write(const mst_group *group, mst_status status, char out[MSI_NOTE_MAX]);
/* Fails with the failure that another rank has written; did: as in "gave up". MST_OK: none. */
mst_status msi_failure_read(const mst_group *group, struct msi_str note, const char *did);
/* Was this written by a rank that had not arrived? */
bool msi_called_off(struct msi_str end);

/* Compares this rank's choice with the first rank's: MST_ERR_MISMATCH blames that rank. */
mst_status msi_choice_compare(const mst_group *group, const char *wanted, struct msi_str line);

/* Native as a loaded backend. Used only with MUSTER_FORCE_FALLBACK, so that every composition can be run
 * without another library. */
extern const mst_backend msi_native_composed;

#endif
