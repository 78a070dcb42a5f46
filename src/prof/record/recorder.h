/*
 * recorder.h - the profiler's recorder: takes records from the rings and adds them to the statistics of their
 * world (op_stats.h), to its trace (trace.h), and to the verbose output.
 *
 *  1. Recording is switched on and off for the process. A record belongs to the world of its group.
 *  2. A thread empties the rings about twenty times a second. A thread whose ring is full, or that reads the
 *     statistics, does so as well.
 *  3. Operations call only msi_recorder_wants and msi_recorder_add. These do not block while the ring has
 *     space.
 */
#ifndef MSI_PROF_RECORD_RECORDER_H
#define MSI_PROF_RECORD_RECORDER_H

#include "prof/clock/clock_server.h"
#include "prof/record/config.h"
#include "prof/record/record.h"
#include "prof/summary/op_stats.h"

/* A world that may be recorded. */
struct msi_prof_world;

#define MSI_PROF_NO_CLOCK_NS INT64_C(1000000000) /* error of unsynchronized hosts: times are not compared */

/* The clock of all ranks: the monotonic clock of rank 0's host. A world owns client and server. */
struct msi_prof_clock {
    int64_t zero;                    /* when the world formed; 0: ranks have not exchanged it */
    int64_t offset, error;           /* how far it is ahead of this host's clock; 0, 0: the same host */
    struct msi_clock_client *client; /* measures the offset; NULL: none */
    struct msi_clock_server *server; /* on rank 0; NULL: none */
};

struct msi_prof_world_options {
    struct msi_rank_id id;
    const char *trace; /* directory of traces; "": none */
    int64_t unix_ns;   /* when the world formed: wall clock of rank 0's host */
    struct msi_prof_clock clock;
};

/*
 * Begins a world. Fails if its trace directory is invalid (trace.h). After msi_prof_world_end its records are
 * dropped; the memory of *world stays, since records may point to it.
 */
mst_status msi_prof_world_begin(const struct msi_prof_world_options *options, struct msi_prof_world **world);
void msi_prof_world_end(struct msi_prof_world *world);

/* Adds a copy of a group, which stays; ranks NULL: 0, 1, 2, … NULL without memory. */
const struct msi_prof_group *msi_prof_group(struct msi_prof_world *world, const struct msi_prof_group *group);

/* Sets what is recorded. The environment's setting (program false) counts until the program makes its own. */
void msi_recorder_set(const struct msi_prof_config *config, bool program);
/* Changes the program's setting under the lock. If change fails, nothing changes. */
typedef mst_status (*msi_prof_change)(struct msi_prof_config *config, const void *arg);
mst_status msi_recorder_change(msi_prof_change change, const void *arg);

/* Is an operation of this name recorded without .prof? Only valid while recording is on. Takes no lock. */
bool msi_recorder_wants(const char *name);

void msi_recorder_add(const struct msi_record *record);

/* Writes the statistics of the world as bytes (op_stats.h). */
mst_status msi_recorder_write(struct msi_prof_world *world, struct msi_buf *to);
/* Discards the statistics of all worlds. */
mst_status msi_recorder_reset(void);
/* The number of calls of that name in the statistics of all worlds, without failed ones; NULL: all names. */
uint64_t msi_recorder_count(const char *name);

#endif
