/*
 * write.h - a flight recorder as JSON, for `muster report` and for whoever likes to look: DIR/rank-R.flight.json.
 *
 *   {"version":1,"rank":3,"size":8,"host":"a","pid":4711,"reason":"MST_ERR_STALLED: …","error":"MST_ERR_STALLED","culprit":2,
 *    "unix_ns":…,"now_us":…,"groups":[{"group":0,"name":"world","id":"91b0…","size":8,"gone":true}, …],"operations":[
 *   {"n":123,"name":"all_reduce","group":0,"group_name":"world","group_id":"91b0…","group_size":8,"seq":17,"count":1024,
 *    "dtype":"f32","site":"train.c:33","function":"step","state":"queued|started|done","failed":true,"begin_us":…,"end_us":…,
 *    "peer":2,"tag":0,"dir":"send|recv"}
 *   , …oldest first]}
 *
 * What is not known is missing. Times count from the moment unix_ns. groups: those that the rank is in, or has destroyed ("gone");
 * operations of one whose line was needed for another say only "group_gone":true. seq of a message counts those with its tag between
 * the two each way, from 0 (message_seq.h); one that was not issued yet has none. peer -1: a receive from anybody.
 */
#ifndef MSI_PROF_FLIGHT_WRITE_H
#define MSI_PROF_FLIGHT_WRITE_H

#include "base/buf.h"
#include "prof/flight/view.h"

struct msi_flight_who {
    int rank, size, pid;
    const char *host;
    const char *reason; /* why it was written; NULL or "": not said */
    mst_status error;   /* MST_OK: none, or none that is known */
    int culprit;        /* global rank; -1: none */
};

void msi_flight_write(const struct msi_flight_view *view, const struct msi_flight_who *who,
                      struct msi_buf *to);

/* Writes a whole file, or leaves what was there: through another beside it, which is renamed. 0, or an errno. */
int msi_flight_save(const char *path, const struct msi_buf *text);

#endif
