/*
 * text.h - what flight recorders say, in words: what a rank does, and what ranks are blamed for (diagnose.h). For
 * whoever stands before a job that does not go on. Pure; texts are added to a buffer.
 */
#ifndef MSI_PROF_FLIGHT_TEXT_H
#define MSI_PROF_FLIGHT_TEXT_H

#include "base/buf.h"
#include "prof/flight/diagnose.h"

/* "mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step)" */
void msi_flight_say_op(const struct msi_flight_view *view, const struct msi_flight_op *op,
                       struct msi_buf *to);
/* "in mst_all_reduce …, for 12.3 s", or "last was mst_barrier …, returned 12.4 s ago"; view NULL: there is none. */
void msi_flight_say_rank(const struct msi_flight_view *view, struct msi_buf *to);

#endif
