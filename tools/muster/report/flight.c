/* flight.c - see flight.h. */
#include "report/flight.h"

#include "base/error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Turns each line into a sentence. */
static void write_sentences(const struct msi_buf *lines, struct msi_buf *to) {
    struct msi_str left = msi_buf_str(lines), line;
    while (msi_str_line(&left, &line))
        msi_buf_add_format(to, "%s%c%.*s.", to->len ? " " : "", toupper((unsigned char)*line.p),
                           (int)line.n - 1, line.p + 1);
}

void report_flights_diagnose(struct report_flights *f) {
    struct msi_buf lines = {0};
    f->ranks = report_alloc((size_t)f->size, sizeof *f->ranks);
    for (int r = 0; r < f->size; r++) f->ranks[r].blames = REPORT_NONE;
    for (int i = 0; i < f->n; i++) {
        struct flight *flight = &f->list[i];
        flight->view.ops = flight->ops;
        flight->view.groups = flight->groups;
        if (flight->rank < f->size)
            f->ranks[flight->rank] =
                (struct msi_flight_rank){&flight->view, false, flight->blames, flight->reason};
    }
    if (!msi_flight_diagnose(f->ranks, f->size, &f->diagnoses)) report_no_memory();
    msi_flight_print_diagnoses(&f->diagnoses, &lines);
    write_sentences(&lines, &f->text);
    msi_buf_add_u8(&f->text, '\0');
    if (lines.failed || f->text.failed) report_no_memory();
    msi_buf_free(&lines);
}

void report_flights_read(struct report_job *job, const int *ranks, int n) {
    struct report_flights *f = report_alloc(1, sizeof *f);
    job->flights = f;
    f->list = report_alloc((size_t)n, sizeof *f->list);
    f->size = job->size;
    for (int i = 0; i < n; i++) {
        char *path = report_format("%s/rank-%d.flight.json", job->dir, ranks[i]);
        if (report_flight_read(job, path, ranks[i], &f->list[f->n]) == MST_OK)
            f->n++;
        else
            report_warn(job, "%s is left out: it %s", path, mst_last_error()->message);
        free(path);
    }
    if (f->n > 0) report_flights_diagnose(f);
}

bool report_flights_any(const struct report_job *job) {
    return job->flights && job->flights->n > 0;
}

void report_flights_free(struct report_job *job) {
    struct report_flights *f = job->flights;
    if (!f) return;
    for (int i = 0; i < f->n; i++) report_flight_free(&f->list[i]);
    msi_diagnoses_free(&f->diagnoses);
    msi_table_free(&f->texts);
    msi_buf_free(&f->text);
    free(f->list);
    free(f->ranks);
    free(f);
    job->flights = NULL;
}

const struct msi_flight_op *report_flight_current(const struct report_flights *flights, int rank) {
    return rank < flights->size ? flights->diagnoses.in[rank] : NULL;
}

const struct msi_flight_op *report_flight_done(const struct flight *flight) {
    for (int k = flight->view.n - 1; k >= 0; k--)
        if (flight->ops[k].state == MSI_FLIGHT_DONE) return &flight->ops[k];
    return NULL;
}
