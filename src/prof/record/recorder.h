/*
 * recorder.h - the profiler's recorder: takes records off the rings and puts them where they are wanted: into the sums of their
 * world (op_stats.h), its trace (trace.h), and the verbose line.
 *
 *  1. Recording is switched on and off for the process; what is recorded belongs to the world of its group.
 *  2. A thread empties the rings some twenty times a second; whoever finds its ring full, or wants the sums, does it, too.
 *  3. Operations call nothing here but msi_recorder_wants and msi_recorder_add, which wait for nobody while there is room in the ring.
 */
#ifndef MSI_PROF_RECORD_RECORDER_H
#define MSI_PROF_RECORD_RECORDER_H

#include "prof/clock/clock_server.h"
#include "prof/record/config.h"
#include "prof/record/record.h"
#include "prof/summary/op_stats.h"

/* A world that may be recorded. */
struct msi_prof_world;

struct msi_prof_who {
    int rank, size, pid;
    const char *host;
    const char *trace; /* directory of traces; "": none */
    int64_t zero;      /* when the world formed, on the clock of rank 0's host, … */
    int64_t unix_ns;   /* … and on its calendar */
    int64_t offset,
        error; /* how much that clock is ahead of this host's, by the calendars; 0, 0: it is the same */
    /* Who finds out better; NULL: nobody. Both are the world's, if it begins. */
    struct msi_clock_client *clock_client;
    struct msi_clock_server *keeper; /* on rank 0: for the others */
};

/*
 * A world begins; all groups are of one. Fails if its trace has no directory (trace.h). It ends with msi_prof_world_end, after which its
 * records go nowhere; the memory of *world stays, since records may refer to it.
 */
mst_status msi_prof_world_begin(const struct msi_prof_who *who, struct msi_prof_world **world);
void msi_prof_world_end(struct msi_prof_world *world);

/* A group of it, for records: made once and kept. ranks are copied; NULL if there is no memory. */
const struct msi_prof_group *msi_prof_group(struct msi_prof_world *world, const char *id, const char *name,
                                            int rank, int size, int (*global)(const void *of, int rank),
                                            const void *of);

/* What is recorded from now on: as the program says, or, until it does, the environment. */
void msi_recorder_set(const struct msi_prof_config *config, bool program);
/* The program changes what is recorded, while nobody else does. Where change fails nothing is changed. */
typedef mst_status (*msi_prof_change)(struct msi_prof_config *config, const void *arg);
mst_status msi_recorder_change(msi_prof_change change, const void *arg);

/* Is an operation of this name recorded, though it does not ask for it? Only while recording is on. Waits for nobody. */
bool msi_recorder_wants(const char *name);

void msi_recorder_add(const struct msi_record *record);

/* Everything recorded so far in the world, as JSON (op_stats.h). */
mst_status msi_recorder_write(struct msi_prof_world *world, struct msi_buf *to);

#endif
