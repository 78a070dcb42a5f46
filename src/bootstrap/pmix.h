/*
 * pmix.h - the ranks of a job agree where to meet through the PMIx server of their launcher, as pmi.h does through PMI:
 * rank 0 puts its address under a key of the meeting (muster-0, muster-1, …), all pass a fence, the others get it.
 *
 * libpmix.so.2 is loaded when it is needed. A program that uses MPI shares it: its PMIx_Init and PMIx_Finalize are
 * counted. Ours comes when the process ends in good order, by exit or from main, in the process that began and unless a
 * meeting failed: launchers end the whole job if a rank ends without it.
 *
 * The library's calls block for as long as they like; each runs on a thread of its own, which is left behind when the
 * deadline passes or the token is fired.
 */
#ifndef MSI_BOOTSTRAP_PMIX_H
#define MSI_BOOTSTRAP_PMIX_H

#include "base/address.h"
#include "os/wait.h"

struct msi_pmix_ask {
    int rank, size;      /* as the launcher has them */
    const char *library; /* its name or path */
    const char *advice;  /* how this launcher's users tell all ranks where rank 0 is */
};

/* Can the library be loaded? It then stays. Logs why not. */
bool msi_pmix_load(const char *library);

/*
 * Called by all ranks of the job. Rank 0 offers a host, and a port unless it is 0: then one is chosen that is free
 * there and goes with the job. *met becomes what rank 0 offered. A failure leaves PMIx unusable in this process.
 */
mst_status msi_pmix_meet(const struct msi_pmix_ask *ask, const struct msi_address *offer,
                         const struct msi_wait *wait, struct msi_address *met);

#endif
