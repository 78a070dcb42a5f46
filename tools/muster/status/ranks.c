/* ranks.c - what each rank of a job does, from the answers of its nodes. See status.h. */
#include "status/status.h"

#include "prof/flight/wait_graph.h"
#include "report/fields.h"
#include "status/status_keys.h"

#include <signal.h>

/* A rank in an answer. */
struct rank_fields {
    int64_t rank, pid, exit_code, exit_signal, operations;
    struct msi_json_text phase, process, call, site, error;
    double age, ended;
    bool under_way;
    struct msi_str flight;
};

/* The node whose ranks are being read. */
struct node_reading {
    struct status_job *job;
    const struct status_node *node;
};

static void add_flight(struct status_job *job, const struct rank_fields *f) {
    struct report_flights *flights = job->report.flights;
    bool cut;
    if (f->flight.n == 0) return;
    if (report_flight_parse(&job->report, f->flight, (int)f->rank, &flights->list[flights->n], &cut) ==
        MST_OK)
        flights->n++;
}

static void add_rank(const struct node_reading *r, const struct rank_fields *f) {
    struct status_rank *rank = &r->job->ranks[f->rank];
    if (f->rank >= r->job->newest->world_size || rank->known) return;
    rank->known = true;
    rank->node = r->node;
    rank->pid = f->pid;
    rank->exit_code = f->exit_code;
    rank->exit_signal = f->exit_signal;
    rank->operations = f->operations;
    rank->age = f->age;
    rank->ended = f->ended;
    rank->under_way = f->under_way;
    status_copy(f->phase, rank->phase, sizeof rank->phase);
    status_copy(f->process, rank->process, sizeof rank->process);
    status_copy(f->call, rank->call, sizeof rank->call);
    status_copy(f->site, rank->site, sizeof rank->site);
    status_copy(f->error, rank->error, sizeof rank->error);
    add_flight(r->job, f);
}

static void read_rank(struct msi_json *in, void *object) {
#define AT(member) offsetof(struct rank_fields, member)
    static const struct report_field call[] = {
        REPORT_FIELD("name", TEXT, AT(call), 0, 0),
        REPORT_FIELD("site", TEXT, AT(site), 0, 0),
        REPORT_FIELD("under_way", BOOL, AT(under_way), 0, 0),
        {0},
    };
    static const struct report_field fields[] = {
        REPORT_FIELD("rank", NUMBER, AT(rank), 0, REPORT_RANKS_MOST - 1),
        REPORT_FIELD("pid", NUMBER, AT(pid), 0, INT32_MAX),
        REPORT_FIELD("phase", TEXT, AT(phase), 0, 0),
        REPORT_FIELD("process", TEXT, AT(process), 0, 0),
        REPORT_FIELD("age_s", DOUBLE, AT(age), 0, 0),
        REPORT_FIELD("exit_code", NUMBER, AT(exit_code), 0, 255),
        REPORT_FIELD("exit_signal", NUMBER, AT(exit_signal), 1, 64),
        REPORT_FIELD("ended_s", DOUBLE, AT(ended), 0, 0),
        {REPORT_KEY("call", OBJECT), 0, 0, 0, call, NULL},
        REPORT_FIELD("error", TEXT, AT(error), 0, 0),
        REPORT_FIELD("operations", NUMBER, AT(operations), 0, INT64_MAX),
        REPORT_FIELD("flight", RAW, AT(flight), 0, 0),
        {0},
    };
#undef AT
    struct rank_fields f = {
        .rank = -1, .exit_code = -1, .exit_signal = -1, .operations = -1, .age = -1, .ended = -1};
    report_read_object(in, fields, &f);
    if (!in->expected && f.rank >= 0) add_rank(object, &f);
}

/* Ranks whose node does not describe them have ended there, or nothing is known of them. */
static void read_node(struct status_job *job, const struct status_node *node) {
    struct node_reading r = {job, node};
    for (int64_t i = 0; i < node->n && node->first_rank + i < job->newest->world_size; i++)
        job->ranks[node->first_rank + i].node = node;
    if (!node->answered || node->format != STATUS_FORMAT) return;
    struct msi_json in = msi_json_of(node->ranks.p, node->ranks.n);
    if (msi_json_array(&in))
        while (msi_json_item(&in)) read_rank(&in, &r);
}

static double seconds_between(int64_t begin, int64_t end) {
    if (begin == MSI_FLIGHT_UNKNOWN || end == MSI_FLIGHT_UNKNOWN) return -1;
    return end > begin ? (double)(end - begin) / 1e9 : 0;
}

/* Which rank waits for which, and since when. */
static void find_waits(struct status_job *job) {
    struct report_flights *flights = job->report.flights;
    struct msi_wait_graph graph;
    if (flights->n == 0) return;
    report_flights_diagnose(flights);
    if (!msi_wait_graph_open(&graph, flights->ranks, flights->size)) report_no_memory();
    for (int r = 0; r < flights->size; r++) {
        struct status_rank *rank = &job->ranks[r];
        rank->view = flights->ranks[r].view;
        if (!rank->view) continue;
        const struct msi_flight_op *last = msi_flight_last(rank->view);
        if (graph.in[r] && !msi_flight_is_over(graph.in[r]))
            rank->op = graph.in[r]; /* a failed one has returned */
        if (last) rank->last = seconds_between(last->begin, rank->view->now);
        if (rank->op) rank->in_call = seconds_between(rank->op->begin, rank->view->now);
        if (rank->in_call < STATUS_WAIT_SECONDS || rank->exit_code >= 0 || rank->exit_signal >= 0) continue;
        rank->waits_for = graph.waits_for[r] < flights->size ? graph.waits_for[r] : STATUS_UNKNOWN_RANK;
    }
    for (int r = 0; r < flights->size; r++) {
        int waits_for = job->ranks[r].waits_for;
        job->stuck |= waits_for != MSI_NO_RANK;
        if (waits_for >= 0) job->ranks[waits_for].late = true;
    }
    msi_wait_graph_close(&graph);
}

void status_read_ranks(struct status_job *job) {
    if (!job->newest) return;
    size_t size = (size_t)job->newest->world_size;
    job->ranks = report_alloc(size, sizeof *job->ranks);
    job->report.flights = report_alloc(1, sizeof *job->report.flights);
    job->report.flights->list = report_alloc(size, sizeof *job->report.flights->list);
    job->report.flights->size = (int)size;
    for (size_t r = 0; r < size; r++)
        job->ranks[r] = (struct status_rank){.exit_code = -1,
                                             .exit_signal = -1,
                                             .operations = -1,
                                             .age = -1,
                                             .ended = -1,
                                             .last = -1,
                                             .in_call = -1,
                                             .waits_for = MSI_NO_RANK};
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].asked > 0 && job->nodes[i].generation == job->newest->generation)
            read_node(job, &job->nodes[i]);
    find_waits(job);
}

const char *status_state(const struct status_rank *rank, char text[STATUS_STATE]) {
    const struct status_node *node = rank->node;
    if (!node) return "unknown";
    if (node->gone) return "lost";
    if (!node->answered) return "no answer";
    if (!rank->known) return node->format == STATUS_FORMAT ? "ended" : "unknown";
    if (rank->exit_signal >= 0) {
        const char *name = sigabbrev_np((int)rank->exit_signal);
        snprintf(text, STATUS_STATE, name ? "killed SIG%s" : "killed", name);
        return text;
    }
    if (rank->exit_code >= 0) {
        snprintf(text, STATUS_STATE, "exited %d", (int)rank->exit_code);
        return text;
    }
    if (rank->process[0] == 'T' || rank->process[0] == 't') return "stopped";
    if (strcmp(rank->phase, "joined") != 0) {
        snprintf(text, STATUS_STATE, "%s", rank->phase);
        return text;
    }
    if (rank->waits_for != MSI_NO_RANK) return "waiting";
    return rank->op || rank->under_way ? "in call" : "computing";
}
