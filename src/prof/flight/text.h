/* text.h - operations and ranks of flight recorders as text, appended to a buffer. Pure. */
#ifndef MSI_PROF_FLIGHT_TEXT_H
#define MSI_PROF_FLIGHT_TEXT_H

#include "prof/flight/diagnose.h"

/* "mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step)" */
void msi_flight_print_op(const struct msi_flight_view *view, const struct msi_flight_op *op,
                         struct msi_buf *to);
/* "in mst_all_reduce …, for 12.3 s", or "last was mst_barrier …, returned 12.4 s ago"; view may be NULL. */
void msi_flight_print_rank(const struct msi_flight_view *view, struct msi_buf *to);

#endif
