/*
 * write.h - writes a flight recorder as JSON, DIR/rank-R.flight.json; `muster report` reads it.
 *
 *   {"version":1,"rank":3,"size":8,"host":"a","pid":4711,"reason":"MST_ERR_STALLED: …",
 *    "error":"MST_ERR_STALLED","culprit":2,"unix_ns":…,"now_us":…,
 *    "groups":[{"group":0,"name":"world","id":"91b0…","size":8,"ranks":[…],"gone":true}, …],"operations":[
 *   {"n":123,"name":"all_reduce","group":0,"group_name":"world","group_id":"91b0…","group_size":8,"seq":17,
 *    "count":1024,"dtype":"f32","site":"train.c:33","function":"step","state":"queued|started|done",
 *    "failed":true,"begin_us":…,"end_us":…,"peer":2,"tag":0,"dir":"send|recv"}
 *   , …oldest first]}
 *
 * Unknown values are missing. Times count from unix_ns. groups: those that the rank is in, or has destroyed
 * ("gone"); operations of a group that lost its entry have only "group_gone":true. seq of a message: see
 * message_seq.h; a message that was not issued yet has none. peer -1: a receive from any source.
 */
#ifndef MSI_PROF_FLIGHT_WRITE_H
#define MSI_PROF_FLIGHT_WRITE_H

#include "base/buf.h"
#include "prof/flight/view.h"
#include "prof/record/record.h"

/* Why a recorder is written. */
struct msi_flight_failure {
    const char *reason; /* NULL or "": not known */
    mst_status error;   /* MST_OK: none, or not known */
    int culprit;        /* global rank; -1: none */
};

void msi_flight_write(const struct msi_flight_view *view, const struct msi_rank_id *id,
                      const struct msi_flight_failure *failure, struct msi_buf *to);

/* Replaces the file at path as a whole, or leaves it as it was. 0, or an errno. */
int msi_flight_save(const char *path, const struct msi_buf *text);

#endif
