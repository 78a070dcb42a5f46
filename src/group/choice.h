/*
 * choice.h - what choice.c and exchange.c share: what ranks of a group write into the store of the backends that they chose.
 *
 * Keys, under the group's:
 *   backend            what the first rank chose, "RANK NAME". Those say it who give a new group a backend of its own, and everybody
 *                      before the first operation. Ranks of a world have compared theirs when they joined.
 *   differ             how a rank found out that it chose another: the first of them look there while they wait for it
 *   exchange.N         what the first rank to come to the N-th exchange wants, "RANK NAME", and behind that " KEY:SEQ" for each comm
 *                      that it has used: how many collectives it had called by then
 *   exchange.N/came    who has come, "RANK;", and in there " GROUP/NAME" for each backend that has failed for that rank: where it is
 *                      chosen now, all ranks make its comm anew
 *   exchange.N/all     the barrier of their arrival
 *   exchange.N/end     how it ended: "ok", or why it did not come about. Whoever writes it first decides for all. "off" before that:
 *                      one that had not come called it off; it does not count for those who come later.
 *
 * A failure is written as "STATUS RANK CULPRIT what\nremedy".
 */
#ifndef MSI_GROUP_CHOICE_H
#define MSI_GROUP_CHOICE_H

#include "bootstrap/report.h"
#include "group/world.h"

enum { MSI_NOTE_MAX = 1000 };

/* The first string of a reply, and a copy of as much of it as fits; returns out. */
struct msi_str msi_reply_str(const struct msi_store_rpc *x);
const char *msi_str_copy(struct msi_str text, char *out, size_t size);

/* "rank 3 (host a, pid 12)"; returns out. */
const char *msi_rank_show(const mst_group *group, int rank, char *out, size_t size);

/* The key of an exchange. */
void msi_exchange_key(const mst_group *group, int number, char out[MSI_KEY_MAX]);

/* The thread's last failure, for others to read. */
void msi_failure_write(const mst_group *group, mst_status status, char out[MSI_NOTE_MAX]);
/* Fails as another rank has written, of which is said what it did, as in "gave up"; MST_OK: there is nothing. */
mst_status msi_failure_read(const mst_group *group, struct msi_str note, const char *did);
/* Was it written by one that had not come? */
bool msi_called_off(struct msi_str end);

/* Compares what this rank wants with what the first chose: MST_ERR_MISMATCH blames that one. */
mst_status msi_choice_compare(const mst_group *group, const char *wanted, struct msi_str line);

#endif
