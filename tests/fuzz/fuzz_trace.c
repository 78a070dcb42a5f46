/*
 * fuzz_trace.c - a rank's trace, from its bytes to the figures of the page. Whatever it holds, times and waits add up: a rank waits no longer than
 * its operations take, and others wait for it in its windows as long as in all.
 */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/report/file.c"
#include "../tools/muster/report/job.c"
#include "../tools/muster/report/key_set.c"
#include "../tools/muster/report/op_times.c"
#include "../tools/muster/report/pair.c"
#include "../tools/muster/report/sites.c"
#include "../tools/muster/report/table.c"
#include "../tools/muster/report/trace_line.c"
#include "../tools/muster/report/trace_read.c"
#include "../tools/muster/report/worlds.c"

#include <assert.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Recordings have files of their own. */
void page_flights_read(struct page_job *job, const int *ranks, int n) {
    (void)job, (void)ranks, (void)n;
}
bool page_flights_any(const struct page_job *job) {
    return job == NULL;
}
void page_flights_free(struct page_job *job) {
    (void)job;
}

static struct page_rank *read_bytes(struct page_job *job, const uint8_t *data, size_t size, int rank) {
    char path[64], why[PAGE_WHY_MAX] = "";
    int fd = memfd_create("trace", MFD_CLOEXEC);

    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct page_rank *found = page_read_trace(job, path, rank, why);
    assert((found != NULL) == (why[0] == '\0'));
    close(fd);
    return found;
}

static void check_rank(const struct page_job *job, const struct page_rank *r) {
    int64_t took = 0, windows = 0;

    for (size_t i = 0; i < r->n; i++) {
        assert(r->events[i].took >= 0 && r->events[i].begin + r->events[i].took <= job->end);
        assert(i == 0 || r->events[i].begin >= r->events[i - 1].begin);
        took += r->events[i].took;
    }
    for (int i = 0; i < PAGE_WINDOWS; i++) windows += r->windows[i];
    assert(r->waited <= took && windows == r->waited_for && r->in_comm <= r->end - job->begin);
}

static void check_tables(const struct page_job *job) {
    int64_t events = 0, counted = 0, at_sites = 0;

    for (int i = 0; i < job->n_ranks; i++) events += (int64_t)job->ranks[i]->n;
    for (size_t i = 0; i < job->n_operations; i++)
        counted += job->operations[i].is.count + job->operations[i].is.failed;
    for (size_t i = 0; i < job->sites.n; i++)
        at_sites += job->site_cells[i].count + job->site_cells[i].failed;
    assert(counted == events && at_sites == events);
}

/* The first byte says where the trace of rank 0 ends and that of rank 1 begins, in 256ths. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct page_job job = {.dir = "."};

    if (size == 0) return 0;
    size_t cut = (size - 1) * data[0] / 255;
    job.ranks = calloc(2, sizeof(struct page_rank *));
    assert(job.ranks != NULL && page_set_add(&job.strings, "", 0) == 0);
    for (int rank = 0; rank < 2; rank++) {
        struct page_rank *r =
            read_bytes(&job, data + 1 + (rank ? cut : 0), rank ? size - 1 - cut : cut, rank);
        if (r != NULL) job.ranks[job.n_ranks++] = r;
    }
    check_traces(&job);
    page_pair(&job);
    page_tables(&job);
    assert(!job.failed);
    for (int i = 0; i < job.n_ranks; i++) check_rank(&job, job.ranks[i]);
    check_tables(&job);
    page_free(&job);
    return 0;
}
