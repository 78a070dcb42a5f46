/* flight.h - what the flight recorders of the ranks kept, and what it says together: see report.h. */
#ifndef MUSTER_TOOL_REPORT_FLIGHT_H
#define MUSTER_TOOL_REPORT_FLIGHT_H

#include "cli/text.h"
#include "report/report.h"

#include "prof/flight/diagnose.h"

struct flight {
    int rank;
    const char *host, *reason; /* "": not said */
    int blames;                /* the rank that it names as the cause of its own failure; PAGE_NONE */
    struct msi_flight_view view;
    struct msi_flight_op *ops; /* the view's */
    struct msi_flight_team *teams;
    size_t capacity, teams_capacity;
};

struct page_flights {
    struct flight *list; /* by rank */
    int n, size;
    struct page_set texts; /* those of all recordings, … */
    char **kept;           /* … which stay where they are */
    size_t n_kept, kept_capacity;
    struct msi_flight_of *ranks; /* all of the world */
    struct msi_diagnoses diagnoses;
    struct msi_buf words; /* the diagnoses: sentences */
};

/* flight_file.c: reads the file of a rank, which adds its texts to the job's. False: it cannot be used, and why says why. */
bool page_flight_read(struct page_job *job, const char *path, int rank, struct flight *flight,
                      char why[PAGE_WHY_MAX]);
void page_flight_free(struct flight *flight);

/* Reads the files of these ranks, and judges. What cannot be read becomes a warning. */
void page_flights_read(struct page_job *job, const int *ranks, int n);
bool page_flights_any(const struct page_job *job);
void page_flights_free(struct page_job *job);

/* "queued", "started", "done", "failed" */
const char *page_flight_state(const struct msi_flight_op *op);
/* What a rank waits in, and the newest that went well; NULL: nothing. */
const struct msi_flight_op *page_flight_current(const struct page_flights *flights, int rank);
const struct msi_flight_op *page_flight_done(const struct flight *flight);

#endif
