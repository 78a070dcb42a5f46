/*
 * admission.h - processes that join a world which runs already.
 *
 * Keys under muster/RUN/, where RUN is the run of the first world
 *   joiners      the log of new processes: "+ NONCE host a, pid 12" waits, "- NONCE" is gone or gave up,
 *                "= NONCE" was admitted
 *   admit/NONCE  the place of an admitted process: "EPOCH RANK SIZE FIRST_OLD"
 *   epoch        number of the last world that continues another one
 *   never        never set: members wait for it, guarded by joiners
 *
 * A new process waits until the ranks of the running world admit it (group/reform.c). It then joins the next
 * world as any other rank does (join.h); the run of that world is RUN.eEPOCH.
 */
#ifndef MSI_BOOTSTRAP_ADMISSION_H
#define MSI_BOOTSTRAP_ADMISSION_H

#include "bootstrap/join.h"
#include "wire/recovery.h"

/* The processes that wait. */
struct msi_joiners {
    uint64_t *nonces;
    int n;
    int64_t seen; /* bytes of the log */
};

/* Writes the run of the world with that epoch. */
void msi_continued_run(char run[MSI_RUN_MAX], const char *lineage, int64_t epoch);

/* Registers this process as waiting, and waits until it is admitted. */
mst_status msi_admission_wait(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                              struct msi_admission *given);

/* Reads which processes wait; the caller frees joiners->nonces. */
mst_status msi_joiners_read(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                            struct msi_joiners *joiners);
/* Waits until the log has changed since joiners were read. */
mst_status msi_joiners_wait(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                            const struct msi_joiners *joiners);
/* Tells a process its place. */
mst_status msi_joiner_admit(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                            uint64_t nonce, const struct msi_admission *given);
/* Has a process that was admitted ended before it joined? */
mst_status msi_joiner_is_gone(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                              uint64_t nonce, bool *gone);
/* Takes the next epoch. */
mst_status msi_epoch_next(struct mst_store *store, const char *lineage, const struct msi_wait *wait,
                          int64_t *epoch);

#endif
