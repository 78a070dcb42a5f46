/* rows.h - what the engines can do, over either MPI. */
#ifndef MSM_ROWS_H
#define MSM_ROWS_H

#include <muster/backend.h>

extern const mst_backend_capability msm_rows[];

/*
 * Shall the table have a run, which calls MPI's blocking functions? They are faster in some MPIs, but neither a deadline nor the death of
 * a rank ends them.
 */
bool msm_wants_blocking(void);

#endif
