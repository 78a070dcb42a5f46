/*
 * pmi.h - lines of PMI-1, the protocol of the launchers of MPICH, Intel MPI, MVAPICH and Flux:
 * "cmd=get_result rc=0 msg=success value=10.0.0.4:29500" and a newline. Pure.
 */
#ifndef MSI_WIRE_PMI_H
#define MSI_WIRE_PMI_H

#include "base/str.h"

enum { MSI_PMI_LINE_MAX = 2048 };

/* The value of a field of a line, which ends at a blank; p is NULL if there is none. */
struct msi_str msi_pmi_field(struct msi_str line, const char *name);

/* Is the line a reply of this kind? Does it report success? */
bool msi_pmi_is(struct msi_str line, const char *cmd);
bool msi_pmi_succeeded(struct msi_str line);

#endif
