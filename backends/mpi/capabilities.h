/* capabilities.h - what the engines support, with either MPI. */
#ifndef MSM_CAPABILITIES_H
#define MSM_CAPABILITIES_H

#include <muster/backend.h>

extern const mst_backend_capability msm_capabilities[];

/*
 * MUSTER_MPI_BLOCKING=1: the table has a run slot, which uses MPI's blocking functions. They are faster in
 * some MPIs, but neither a deadline nor the death of a rank ends them.
 */
bool msm_wants_blocking(void);

#endif
