/*
 * pmix.h - the ranks of a job agree on rank 0's address through the launcher's PMIx server, as pmi.h does
 * through PMI: rank 0 puts its address under the key of the agreement (muster-0, muster-1), all ranks pass
 * a fence, the others get it.
 *
 * libpmix.so.2 is loaded at first use. An MPI library in the same program shares it; PMIx_Init and
 * PMIx_Finalize are counted. muster calls PMIx_Finalize when the process that called PMIx_Init exits
 * normally, unless an agreement failed: launchers end the whole job if a rank ends without it.
 *
 * The library's calls have no timeout. Each runs on a thread of its own, which is abandoned after the
 * deadline or a cancellation.
 */
#ifndef MSI_BOOTSTRAP_PMIX_H
#define MSI_BOOTSTRAP_PMIX_H

#include "base/address.h"
#include "os/wait.h"

struct msi_pmix_job {
    int rank, size;      /* from the launcher */
    const char *library; /* its name or path */
    const char *advice;  /* how to set rank 0's address with this launcher */
};

/* Loads the library for good; logs the reason if that fails. */
bool msi_pmix_load(const char *library);

/* As msi_pmi_agree. After a failure PMIx is unusable in this process. */
mst_status msi_pmix_agree(const struct msi_pmix_job *job, const struct msi_address *offer,
                          const struct msi_wait *wait, struct msi_address *agreed);

#endif
