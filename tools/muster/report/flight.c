/* flight.c - the flight recorders of a job's ranks, and what they say together. See flight.h. */
#include "report/flight.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A sentence of each line. */
static void write_sentences(const struct msi_buf *lines, struct msi_buf *to) {
    const char *at = (const char *)lines->data, *end = at + lines->len, *newline;

    for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1)
        msi_buf_add_format(to, "%s%c%.*s.", to->data != NULL ? " " : "", toupper((unsigned char)*at),
                           (int)(newline - at - 1), at + 1);
}

static void judge(struct page_job *job) {
    struct page_flights *f = job->flights;
    struct msi_buf lines = {0};

    f->ranks = calloc((size_t)f->size + 1, sizeof *f->ranks);
    if (f->ranks == NULL) {
        job->failed = true;
        return;
    }
    for (int r = 0; r < f->size; r++) f->ranks[r].blames = PAGE_NONE;
    for (int i = 0; i < f->n; i++) {
        struct flight *flight = &f->list[i];
        flight->view.ops = flight->ops;
        flight->view.teams = flight->teams;
        if (flight->rank < f->size)
            f->ranks[flight->rank] =
                (struct msi_flight_of){&flight->view, false, flight->blames, flight->reason};
    }
    bool judged = msi_flight_diagnose(f->ranks, f->size, &f->diagnoses);
    if (judged) msi_flight_print_diagnoses(&f->diagnoses, &lines);
    write_sentences(&lines, &f->words);
    job->failed |= !judged || lines.failed || f->words.failed;
    msi_buf_free(&lines);
}

void page_flights_read(struct page_job *job, const int *ranks, int n) {
    struct page_flights *f = calloc(1, sizeof *f);
    char why[PAGE_WHY_MAX];

    job->flights = f;
    if (f != NULL) f->list = calloc((size_t)n + 1, sizeof *f->list);
    if (f == NULL || f->list == NULL) {
        job->failed = true;
        return;
    }
    f->size = job->size;
    for (int i = 0; i < n && !job->failed; i++) {
        char *path;
        struct flight *flight = &f->list[f->n];
        if (asprintf(&path, "%s/rank-%d.flight.json", job->dir, ranks[i]) < 0) {
            job->failed = true;
            return;
        }
        if (page_flight_read(job, path, ranks[i], flight, why))
            f->n++;
        else if (!job->failed)
            page_warn(job, "%s is left out: it %s", path, why);
        free(path);
    }
    if (f->n > 0 && !job->failed) judge(job);
}

bool page_flights_any(const struct page_job *job) {
    return job->flights != NULL && job->flights->n > 0;
}

void page_flights_free(struct page_job *job) {
    struct page_flights *f = job->flights;

    if (f == NULL) return;
    for (int i = 0; i < f->n; i++) page_flight_free(&f->list[i]);
    for (size_t i = 0; i < f->n_kept; i++) free(f->kept[i]);
    msi_diagnoses_free(&f->diagnoses);
    page_set_free(&f->texts);
    msi_buf_free(&f->words);
    free(f->kept);
    free(f->list);
    free(f->ranks);
    free(f);
    job->flights = NULL;
}

const struct msi_flight_op *page_flight_current(const struct page_flights *flights, int rank) {
    return rank < flights->size ? flights->diagnoses.in[rank] : NULL;
}

const struct msi_flight_op *page_flight_done(const struct flight *flight) {
    for (int k = flight->view.n - 1; k >= 0; k--)
        if (flight->ops[k].state == MSI_FLIGHT_DONE) return &flight->ops[k];
    return NULL;
}
