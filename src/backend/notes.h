/*
 * notes.h - what ranks on different hosts leave for each other in the store, where they have no board: whom they wait for,
 * once that takes long, and why they have given up the group.
 *
 * Keys, under the group's: wait/R, the number of the operation and the ranks that rank R waits for in it; gave_up, the rank
 * that did first, the status, the rank it blames, and its words.
 */
#ifndef MSI_BACKEND_NOTES_H
#define MSI_BACKEND_NOTES_H

#include "backend/comm_internal.h"

/* This rank has waited for the operation since then: notes it, if that is long and the note would say something new. */
void msi_note_wait(struct msi_comm *comm, const struct mst_work *op, int64_t since, int64_t now);
/* Takes the note back. */
void msi_note_forget(struct msi_comm *comm);

/*
 * The ranks that keep this one waiting in the operation: those it waits for, and whom these wait for by their notes, as far as
 * they do not wait themselves. Writes at most max and returns how many there are.
 */
int msi_note_missing(struct msi_comm *comm, const struct mst_work *op, int *ranks, int max);

/* The group has failed here. */
void msi_note_gave_up(struct msi_comm *comm, const struct msi_failure *failure);
/* If a rank has given up the group before this one: fails with what it noted, and *culprit is whom it blames. */
mst_status msi_note_read_gave_up(struct msi_comm *comm, int *culprit);

#endif
