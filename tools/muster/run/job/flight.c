/*
 * flight.c - the flight recorders of a job's ranks: writes them to files after a failure and on SIGUSR2,
 * which also prints what each rank does. They are read from the shared memory of the rank states; the ranks
 * take no part. See job_internal.h.
 */
#include "run/job/job_internal.h"

#include "run/failure/failure.h"

#include "os/file.h"
#include "os/host.h"
#include "prof/flight/diagnose.h"
#include "prof/flight/write.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All recorders of this node, read at one moment. */
struct flights {
    int n;
    struct flight *list;
    struct msi_flight_rank *ranks; /* one for each rank of the world */
};

static void flights_free(struct flights *f) {
    free(f->list);
    free(f->ranks);
}

/* The rank's last error, or how it exited if it was not told to. */
static void set_reason(const struct worker *worker, struct flight *flight) {
    flight->reason[0] = '\0';
    if (flight->state.has_error)
        snprintf(flight->reason, sizeof flight->reason, "%s: %s", mst_status_name(flight->state.status),
                 flight->state.message);
    else if (!worker->running && worker->unasked && worker->code != 0)
        report_one_line(worker, flight->reason, sizeof flight->reason);
}

void job_read_flight(const struct job *job, const struct worker *worker, struct flight *flight) {
    const struct msi_flight *recorder = rank_states_flight(job->options->states, worker->local_rank);
    msi_tick_begin();
    flight->any = recorder && msi_flight_read(recorder, msi_tick_look(), &flight->snapshot);
    rank_states_read(job->options->states, worker->local_rank, &flight->state);
    set_reason(worker, flight);
}

static bool flights_read(const struct job *job, struct flights *f) {
    int size = job->assignment.world_size;
    f->n = job->workers.list ? job->workers.started : 0;
    f->list = calloc((size_t)f->n + 1, sizeof f->list[0]);
    f->ranks = calloc((size_t)size + 1, sizeof f->ranks[0]);
    bool whole = f->list && f->ranks;
    for (int r = 0; r < size && whole; r++)
        f->ranks[r] = (struct msi_flight_rank){.elsewhere = true, .blames = -1};
    for (int i = 0; i < f->n && whole; i++) {
        const struct worker *worker = &job->workers.list[i];
        struct flight *flight = &f->list[i];
        job_read_flight(job, worker, flight);
        if (worker->rank < size)
            f->ranks[worker->rank] =
                (struct msi_flight_rank){.view = flight->any ? &flight->snapshot.view : NULL,
                                         .blames = flight->state.has_error ? flight->state.culprit : -1,
                                         .reason = worker->running ? NULL : flight->reason};
    }
    return whole;
}

static void name_file(char path[PATH_MAX], const char *dir, int rank) {
    snprintf(path, PATH_MAX, "%s/rank-%d.flight.json", dir, rank);
}

/* 0, or an errno. */
static int write_one(const struct job *job, const char *dir, const struct worker *worker,
                     const struct flight *flight) {
    const struct rank_state_view *state = &flight->state;
    char path[PATH_MAX], host[MSI_HOST_MAX];
    struct msi_buf text = {0};
    struct msi_rank_id id = {.rank = worker->rank, .size = job->assignment.world_size, .pid = worker->pid};
    struct msi_flight_failure failure = {.reason = flight->reason,
                                         .error = state->has_error ? state->status : MST_OK,
                                         .culprit = state->culprit};
    msi_copy_text(id.host, sizeof id.host, msi_host_name(host));
    msi_flight_write(&flight->snapshot.view, &id, &failure, &text);
    name_file(path, dir, worker->rank);
    int error = msi_flight_save(path, &text);
    msi_buf_free(&text);
    return error;
}

/* False after a message: one could not be written. */
static bool write_all(struct job *job, const char *dir, const struct flights *f) {
    for (int i = 0; i < f->n; i++) {
        if (!f->list[i].any) continue;
        int error = write_one(job, dir, &job->workers.list[i], &f->list[i]);
        if (error == 0) continue;
        output_line(job->output, "cannot write the flight recorders to '%s': %s", dir, msi_file_error(error));
        return false;
    }
    return true;
}

void job_keep_flights(struct job *job) {
    struct flights f = {0};
    if (!job->options->trace || job->read_flights) return;
    job->read_flights = true;
    if (flights_read(job, &f)) job->kept_flights = write_all(job, job->options->trace, &f) && f.n > 0;
    flights_free(&f);
}

void job_keep_flight(const struct job *job, const struct worker *worker) {
    if (!job->options->trace) return;
    struct flight *flight = calloc(1, sizeof *flight);
    if (!flight) return;
    msi_tick_begin();
    job_read_flight(job, worker, flight);
    if (flight->any) write_one(job, job->options->trace, worker, flight);
    free(flight);
}

void job_remove_flights(const struct job *job) {
    char path[PATH_MAX];
    for (int i = 0; i < job->options->workers.n && job->options->trace; i++) {
        name_file(path, job->options->trace, job->assignment.first_rank + i);
        unlink(path);
    }
}

/* The trace's directory, or a new one. */
static const char *choose_directory(const struct job *job, char dir[PATH_MAX]) {
    if (job->options->trace) return job->options->trace;
    snprintf(dir, PATH_MAX, "muster-flight.%d", (int)getpid());
    errno = msi_make_directory(dir);
    return errno ? NULL : dir;
}

/* Appends the diagnosis of the wait graph. */
static void add_diagnosis(const struct job *job, const struct flights *f, struct msi_buf *text) {
    struct msi_buf lines = {0};
    struct msi_diagnoses diagnoses;
    if (msi_flight_diagnose(f->ranks, job->assignment.world_size, &diagnoses))
        msi_flight_print_diagnoses(&diagnoses, &lines);
    msi_diagnoses_free(&diagnoses);
    struct msi_str rest = msi_buf_str(&lines), line;
    while (msi_str_line(&rest, &line)) msi_buf_add_format(text, "muster run: %.*s\n", (int)line.n, line.p);
    msi_buf_free(&lines);
}

/* It has recorded no operation, and its rank state shows a call. */
static bool is_joining(const struct flight *flight) {
    return (!flight->any || flight->snapshot.view.n == 0) && flight->state.has_call &&
           flight->state.under_way;
}

static void add_rank(const struct flight *flight, struct msi_buf *text) {
    const struct rank_state_view *state = &flight->state;
    if (!is_joining(flight)) {
        msi_flight_print_rank(flight->any ? &flight->snapshot.view : NULL, text);
        return;
    }
    msi_buf_add_format(text, "in %s", state->operation);
    if (state->file[0] != '\0')
        msi_buf_add_format(text, ", at %s:%d (%s)", state->file, state->line, state->function);
}

/* "1 rank has not called mst_init, in which 2 wait: rank 1". False: it is not so. */
static bool add_absent(const struct job *job, const struct flights *f, struct msi_buf *text) {
    int absent = 0, joining = 0;
    for (int i = 0; i < f->n; i++) {
        absent += job->workers.list[i].running && !f->list[i].state.has_call;
        joining += is_joining(&f->list[i]);
    }
    if (absent == 0 || joining == 0) return false;
    msi_buf_add_format(text, "muster run: %d rank%s not called mst_init, in which %d wait%s:", absent,
                       absent == 1 ? " has" : "s have", joining, joining == 1 ? "s" : "");
    for (int i = 0, n = 0; i < f->n && n < 8; i++)
        if (job->workers.list[i].running && !f->list[i].state.has_call)
            msi_buf_add_format(text, "%s rank %d", n++ ? "," : "", job->workers.list[i].rank);
    msi_buf_add_u8(text, '\n');
    return true;
}

static void print_ranks(struct job *job, const struct flights *f) {
    struct msi_buf text = {0};
    for (int i = 0; i < f->n; i++) {
        msi_buf_add_format(&text, "muster run: rank %d: ", job->workers.list[i].rank);
        if (!job->workers.list[i].running) msi_buf_add_format(&text, "has exited; ");
        add_rank(&f->list[i], &text);
        msi_buf_add_u8(&text, '\n');
    }
    if (!add_absent(job, f, &text)) add_diagnosis(job, f, &text);
    msi_buf_add_u8(&text, 0);
    if (!text.failed) output_say(job->output, (const char *)text.data);
    msi_buf_free(&text);
}

static void show(struct job *job, const struct flights *f) {
    char own[PATH_MAX];
    int n = 0;
    for (int i = 0; i < f->n; i++) n += f->list[i].any;
    if (n == 0) {
        output_line(
            job->output,
            "no rank of this node has recorded anything: none has called mst_init, or MUSTER_FLIGHT is 0");
        return;
    }
    const char *dir = choose_directory(job, own);
    if (!dir)
        output_line(job->output, "cannot create the directory '%s': %s", own, msi_file_error(errno));
    else if (write_all(job, dir, f))
        output_line(job->output, "the flight recorder%s of %d rank%s: muster report %s", n == 1 ? "" : "s", n,
                    n == 1 ? "" : "s", dir);
    print_ranks(job, f);
}

void job_show_flights(struct job *job) {
    struct flights f = {0};
    if (flights_read(job, &f)) show(job, &f);
    flights_free(&f);
}
