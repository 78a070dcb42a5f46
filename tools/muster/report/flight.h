/* flight.h - the flight recordings of a job's ranks and the diagnosis from all of them. See report.h. */
#ifndef MUSTER_TOOL_REPORT_FLIGHT_H
#define MUSTER_TOOL_REPORT_FLIGHT_H

#include "report/report.h"

#include "prof/flight/diagnose.h"

struct flight {
    int rank;
    const char *host, *reason; /* "" if unknown */
    int blames;                /* the rank that its failure names, or REPORT_NONE */
    struct msi_flight_view view;
    struct msi_flight_op *ops; /* the view's */
    struct msi_flight_group *groups;
    size_t capacity, groups_capacity;
};

struct report_flights {
    struct flight *list; /* by rank */
    int n, size;
    struct msi_table texts;        /* the texts of all recordings */
    struct msi_flight_rank *ranks; /* all ranks of the world */
    struct msi_diagnoses diagnoses;
    struct msi_buf text; /* the diagnoses as sentences */
};

/* flight_file.c: reads the recording of a rank; its texts stay valid as long as the job. */
mst_status report_flight_read(struct report_job *job, const char *path, int rank, struct flight *flight);
/* The same from a text; cut: it ends in the middle, or is malformed there. */
mst_status report_flight_parse(struct report_job *job, struct msi_str text, int rank, struct flight *flight,
                               bool *cut);
void report_flight_free(struct flight *flight);

/* Reads the recordings of these ranks and diagnoses the failure. Unreadable ones become warnings. */
void report_flights_read(struct report_job *job, const int *ranks, int n);
/* Diagnoses from the list; ranks and texts stay valid until report_flights_free. */
void report_flights_diagnose(struct report_flights *flights);
bool report_flights_any(const struct report_job *job);
void report_flights_free(struct report_job *job);

/* "queued", "started", "done", "failed" */
const char *report_flight_state(const struct msi_flight_op *op);
/* The operation in which a rank waits, and its last successful one; NULL: none. */
const struct msi_flight_op *report_flight_current(const struct report_flights *flights, int rank);
const struct msi_flight_op *report_flight_done(const struct flight *flight);

#endif
