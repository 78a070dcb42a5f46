/*
 * pmi.h - the ranks of a job agree on rank 0's address through the launcher's PMI or PMIx: rank 0 puts its
 * address into the job's key-value space, all ranks pass a barrier, the others get it. Works on any number of
 * hosts and without an MPI library. Each agreement has its own key: muster-0, muster-1, …
 *
 * PMI: "finalize" is sent when the process exits normally, not before: after it the launcher accepts no
 * requests, also not from an MPI library in the same process; without it the launcher ends the whole job.
 *
 * PMIx: libpmix.so.2 is loaded at first use. An MPI library in the same program shares it; PMIx_Init and
 * PMIx_Finalize are counted. muster calls PMIx_Finalize when the process that called PMIx_Init exits
 * normally, unless an agreement failed: launchers end the whole job if a rank ends without it. The library's
 * calls have no timeout. Each runs on a thread of its own, which is abandoned after the deadline or a
 * cancellation.
 */
#ifndef MSI_BOOTSTRAP_PMI_H
#define MSI_BOOTSTRAP_PMI_H

#include "base/address.h"
#include "os/wait.h"

struct msi_pmi_job {
    int rank, size;      /* from the launcher */
    const char *library; /* PMIx: its name or path */
    const char *advice;  /* PMIx: how to set rank 0's address with this launcher */
};

/*
 * All ranks of the job call it. offer: rank 0's host and port; port 0: a free one is chosen. *agreed becomes
 * rank 0's offer. After a failure PMI or PMIx is unusable in this process.
 */
typedef mst_status msi_pmi_agreement(const struct msi_pmi_job *job, const struct msi_address *offer,
                                     const struct msi_wait *wait, struct msi_address *agreed);
msi_pmi_agreement msi_pmi_agree, msi_pmix_agree;

/* Loads the PMIx library for good; logs the reason if that fails. */
bool msi_pmix_load(const char *library);

/* Sets a port that is free on the host of rank 0's offer, starting from msi_launch_port(job). */
mst_status msi_offer_choose_port(const char *job, struct msi_address *offer);
/* Parses the text that rank 0 made with msi_address_format. */
mst_status msi_offer_parse(const char *text, struct msi_address *offer);

#endif
