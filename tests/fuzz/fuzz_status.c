/*
 * fuzz_status.c - answers of two launchers to "muster status", from their bytes to what is said of each rank.
 * Whatever they say, ranks wait for ranks of the job, and the texts have no control characters.
 */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/report/fields.c"
#include "../tools/muster/report/flight.c"
#include "../tools/muster/report/flight_file.c"
#include "../tools/muster/report/memory.c"
#include "../tools/muster/status/gather.c"
#include "../tools/muster/status/print.c"
#include "../tools/muster/status/ranks.c"

#include <assert.h>
#include <ctype.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of other parts of the report. */
void report_warn(struct report_job *job, const char *format, ...) {
    (void)job, (void)format;
}

static void check_text(const char *text) {
    for (; *text; text++) assert(!iscntrl((unsigned char)*text));
}

static void check_rank(const struct status_job *job, const struct status_rank *rank) {
    char state[STATUS_STATE];
    struct msi_buf text = {0};
    assert(rank->waits_for >= STATUS_UNKNOWN_RANK && rank->waits_for < job->newest->world_size);
    check_text(status_state(rank, state));
    describe(rank, &text);
    check_text(msi_buf_text(&text));
    msi_buf_free(&text);
}

static void check_answers(struct status_job *job) {
    enum { RANKS_MOST = 256 }; /* larger worlds only take time */
    for (int i = 0; i < job->n_nodes; i++) {
        read_answer(&job->nodes[i]);
        job->nodes[i].answered = job->nodes[i].asked > 0;
        if (job->nodes[i].answered && !job->newest) job->newest = &job->nodes[i];
    }
    if (!job->newest || job->newest->world_size > RANKS_MOST) return;
    status_read_ranks(job);
    for (int r = 0; r < job->newest->world_size; r++) check_rank(job, &job->ranks[r]);
}

/* The first byte says where the first answer ends, in 256ths. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct status_job job = {.address = "", .n_nodes = 2, .nodes = calloc(2, sizeof *job.nodes)};
    if (size == 0) {
        free(job.nodes);
        return 0;
    }
    size_t cut = (size - 1) * data[0] / 255;
    assert(job.nodes);
    msi_buf_add(&job.nodes[0].answer, data + 1, cut);
    msi_buf_add(&job.nodes[1].answer, data + 1 + cut, size - 1 - cut);
    check_answers(&job);
    status_free(&job);
    return 0;
}
