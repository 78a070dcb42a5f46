/* rows.h - what the engines can do, over either MPI. */
#ifndef MSM_ROWS_H
#define MSM_ROWS_H

#include <muster/backend.h>

extern const mst_backend_row msm_rows[];

#endif
