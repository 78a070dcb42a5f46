/*
 * fuzz_trace.c - the traces of two ranks, from their bytes to the figures of the report. For any input times
 * and waits add up: a rank waits no longer than its operations take, and the waiting for it is the same in
 * its windows and in total.
 */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/report/fields.c"
#include "../tools/muster/report/file.c"
#include "../tools/muster/report/job.c"
#include "../tools/muster/report/match.c"
#include "../tools/muster/report/memory.c"
#include "../tools/muster/report/op_times.c"
#include "../tools/muster/report/sites.c"
#include "../tools/muster/report/table.c"
#include "../tools/muster/report/trace_line.c"
#include "../tools/muster/report/trace_read.c"
#include "../tools/muster/report/worlds.c"

#include <assert.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Flight recordings are not part of this test. */
void report_flights_read(struct report_job *job, const int *ranks, int n) {
    (void)job, (void)ranks, (void)n;
}
bool report_flights_any(const struct report_job *job) {
    return !job;
}
void report_print_warnings(const struct report_job *job) {
    (void)job;
}
void report_flights_free(struct report_job *job) {
    (void)job;
}

static struct report_rank *read_bytes(struct report_job *job, const uint8_t *data, size_t size, int rank) {
    struct report_rank *found = NULL;
    char path[64];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    mst_status st = report_read_trace(job, path, rank, &found);
    assert((st == MST_OK) == (found != NULL));
    close(fd);
    return found;
}

static void check_rank(const struct report_job *job, const struct report_rank *r) {
    int64_t took = 0, windows = 0;
    for (size_t i = 0; i < r->n; i++) {
        assert(r->events[i].took >= 0 && r->events[i].begin + r->events[i].took <= job->end);
        assert(i == 0 || r->events[i].begin >= r->events[i - 1].begin);
        took += r->events[i].took;
    }
    for (int i = 0; i < REPORT_WINDOWS; i++) windows += r->windows[i];
    assert(r->times.waiting_ns <= r->times.comm_ns && r->times.comm_ns <= took);
    assert(windows == r->times.waited_for_ns);
}

static void check_tables(const struct report_job *job) {
    int64_t events = 0, counted = 0, at_sites = 0;
    for (int i = 0; i < job->n_ranks; i++) events += (int64_t)job->ranks[i]->n;
    for (size_t i = 0; i < job->n_operations; i++)
        counted += job->operations[i].figures.count + job->operations[i].figures.failed;
    for (size_t i = 0; i < job->sites.n; i++)
        at_sites += job->site_cells[i].count + job->site_cells[i].failed;
    assert(counted == events && at_sites == events);
}

/* The first byte says where the trace of rank 0 ends and that of rank 1 begins, in 256ths. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct report_job job = {.dir = "."};
    if (size == 0) return 0;
    size_t cut = (size - 1) * data[0] / 255;
    job.ranks = calloc(2, sizeof(struct report_rank *));
    assert(job.ranks && msi_table_add(&job.strings, "", 0) == 0);
    for (int rank = 0; rank < 2; rank++) {
        struct report_rank *r =
            read_bytes(&job, data + 1 + (rank ? cut : 0), rank ? size - 1 - cut : cut, rank);
        if (r) job.ranks[job.n_ranks++] = r;
    }
    check_traces(&job);
    report_match_events(&job);
    report_make_rows(&job);
    report_make_cells(&job);
    report_make_sites(&job);
    for (int i = 0; i < job.n_ranks; i++) check_rank(&job, job.ranks[i]);
    check_tables(&job);
    report_free(&job);
    return 0;
}
