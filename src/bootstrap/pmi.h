/*
 * pmi.h - the ranks of a job agree where to meet through their launcher: rank 0 puts its address into the job's key
 * value space, all pass a barrier, the others get it. Works on any number of hosts, and without an MPI library.
 *
 * "finalize" is said when the process ends in good order, not before: a launcher that hears it wants to hear no more,
 * also not from an MPI library in the same process, and one that does not hear it ends the whole job when a rank ends.
 * Each meeting has a key of its own: muster-0, muster-1, …
 */
#ifndef MSI_BOOTSTRAP_PMI_H
#define MSI_BOOTSTRAP_PMI_H

#include "base/address.h"
#include "os/wait.h"

/*
 * Called by all ranks of the job. Rank 0 offers a host, and a port unless it is 0: then one is chosen that is free
 * there and goes with the job. *met becomes what rank 0 offered. A failure leaves PMI unusable in this process.
 */
mst_status msi_pmi_meet(int rank, const struct msi_address *offer, const struct msi_wait *wait,
                        struct msi_address *met);

#endif
