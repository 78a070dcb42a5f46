/*
 * pmi.h - the ranks of a job agree on rank 0's address through the launcher's PMI: rank 0 puts its address
 * into the job's key-value space, all ranks pass a barrier, the others get it. Works on any number of hosts
 * and without an MPI library.
 *
 * "finalize" is sent when the process exits normally, not before: after it the launcher accepts no requests,
 * also not from an MPI library in the same process; without it the launcher ends the whole job. Each
 * agreement has its own key: muster-0, muster-1, …
 */
#ifndef MSI_BOOTSTRAP_PMI_H
#define MSI_BOOTSTRAP_PMI_H

#include "base/address.h"
#include "os/wait.h"

/* Sets a port that is free on the host of rank 0's offer, starting from msi_launch_port(job). */
mst_status msi_offer_choose_port(const char *job, struct msi_address *offer);
/* Parses the text that rank 0 made with msi_address_format. */
mst_status msi_offer_parse(const char *text, struct msi_address *offer);

/*
 * All ranks of the job call it. offer: rank 0's host and port; port 0: a free one is chosen.
 * *agreed becomes rank 0's offer. After a failure PMI is unusable in this process.
 */
mst_status msi_pmi_agree(int rank, const struct msi_address *offer, const struct msi_wait *wait,
                         struct msi_address *agreed);

#endif
