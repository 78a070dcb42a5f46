/*
 * status.c - composes a node's answer to "muster status" (status/status_keys.h): its ranks, their processes,
 * their calls and the flight recorders. Everything comes from the shared memory of the rank states and from
 * /proc; the ranks take no part. See job_internal.h.
 */
#include "run/job/job_internal.h"

#include "status/status_keys.h"

#include "base/json.h"
#include "base/settings.h"
#include "os/file.h"
#include "os/host.h"
#include "prof/flight/write.h"

#include <muster/version.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds_since(clockid_t clock, double then) {
    struct timespec now;
    clock_gettime(clock, &now);
    double since = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - then;
    return since > 0 ? since : 0;
}

/* The state of the process, such as T for stopped, and its age. */
static void put_process(struct msi_json_out *out, pid_t pid) {
    char path[64], line[1024], state[2] = "";
    unsigned long long start;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    msi_file_line(path, line, sizeof line);
    const char *after_name = strrchr(line, ')');
    if (!after_name ||
        sscanf(after_name + 1,
               " %1s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", state,
               &start) != 2)
        return;
    msi_json_member_string(out, "process", state);
    msi_json_member_double(out, "age_s",
                           seconds_since(CLOCK_BOOTTIME, (double)start / (double)sysconf(_SC_CLK_TCK)), 3);
}

static void put_exit(struct msi_json_out *out, const struct worker *worker) {
    double when = (double)worker->ended.tv_sec + (double)worker->ended.tv_nsec / 1e9;
    if (worker->code >= 0) msi_json_member_int(out, "exit_code", worker->code);
    if (worker->signal) msi_json_member_int(out, "exit_signal", worker->signal);
    msi_json_member_double(out, "ended_s", seconds_since(CLOCK_REALTIME, when), 3);
}

static void put_call(struct msi_json_out *out, const struct rank_state_view *state) {
    char site[MSI_RANK_STATE_FILE + 16] = "";
    if (!state->has_call) return;
    if (state->file[0]) snprintf(site, sizeof site, "%s:%d", state->file, state->line);
    msi_json_member_object(out, "call");
    msi_json_member_string(out, "name", state->operation);
    msi_json_member_string(out, "site", site);
    msi_json_member_bool(out, "under_way", state->under_way);
    msi_json_put_object_end(out);
}

/* Would the diagnosis get the same from another operation that is kept? */
static bool is_repeated(const struct msi_flight_op *op, const struct msi_flight_op *kept, int n) {
    if (!msi_flight_is_over(op) || op->state == MSI_FLIGHT_FAILED) return false;
    for (int i = 0; i < n; i++)
        if (kept[i].state == op->state && kept[i].group == op->group && kept[i].type == op->type &&
            kept[i].peer == op->peer && kept[i].tag == op->tag)
            return true;
    return false;
}

/* Keeps what a diagnosis needs: unfinished and failed operations, and of others the newest of each sort. */
static void trim(struct msi_flight_snapshot *s) {
    int end = s->view.n, at = end; /* those that are kept move to the end, and then to the beginning */
    for (int i = end - 1; i >= 0; i--)
        if (!is_repeated(&s->ops[i], &s->ops[at], end - at)) s->ops[--at] = s->ops[i];
    memmove(s->ops, &s->ops[at], (size_t)(end - at) * sizeof s->ops[0]);
    s->view.n = end - at;
    for (int i = 0; i < s->view.n_groups; i++) /* all ranks are members of the world */
        if (!strcmp(s->groups[i].name, "world")) s->groups[i].known = false;
}

static void put_flight(struct msi_json_out *out, const struct job *job, const struct worker *worker,
                       struct flight *flight) {
    struct msi_rank_id id = {.rank = worker->rank, .size = job->assignment.world_size, .pid = worker->pid};
    struct msi_flight_failure failure = {.reason = worker->running ? "" : flight->reason,
                                         .error = flight->state.status,
                                         .culprit = flight->state.culprit};
    struct msi_buf text = {0};
    if (!flight->any || out->to->len > STATUS_FLIGHTS_MOST) return;
    trim(&flight->snapshot);
    msi_flight_write(&flight->snapshot.view, &id, &failure, &text);
    msi_json_put_key(out, "flight");
    msi_json_put_raw(out, msi_buf_str(&text));
    out->to->failed |= text.failed;
    msi_buf_free(&text);
}

static void put_rank(struct msi_json_out *out, const struct job *job, const struct worker *worker,
                     struct flight *flight) {
    static const char *const phases[MSI_RANK_STATE_PHASES] = {[MSI_RANK_STATE_NOTHING] = "starting",
                                                              [MSI_RANK_STATE_JOINING] = "joining",
                                                              [MSI_RANK_STATE_JOINED] = "joined",
                                                              [MSI_RANK_STATE_REFUSED] = "refused",
                                                              [MSI_RANK_STATE_LEFT] = "left"};
    job_read_flight(job, worker, flight);
    msi_json_put_object(out);
    msi_json_member_int(out, "rank", worker->rank);
    msi_json_member_int(out, "pid", worker->pid);
    msi_json_member_string(out, "phase", phases[flight->state.stage.phase]);
    if (worker->running)
        put_process(out, worker->pid);
    else
        put_exit(out, worker);
    put_call(out, &flight->state);
    if (flight->reason[0]) msi_json_member_string(out, "error", flight->reason);
    const struct msi_flight_op *last = msi_flight_last(&flight->snapshot.view);
    if (flight->any) msi_json_member_int(out, "operations", last ? (int64_t)last->number : 0);
    put_flight(out, job, worker, flight);
    msi_json_put_object_end(out);
}

/* Ranks that have exited stay in the list while their output is written. */
static void put_ranks(struct msi_json_out *out, const struct job *job) {
    struct flight *flight = malloc(sizeof *flight);
    int n = job->workers.list ? job->workers.options.n : 0;
    msi_json_member_array(out, "ranks");
    for (int i = 0; i < n && flight; i++) put_rank(out, job, &job->workers.list[i], flight);
    msi_json_put_array_end(out);
    out->to->failed |= !flight;
    free(flight);
}

enum { LISTENS_MOST = 8, LISTENS_TEXT = 4096 };

/* Appends what a process listens on, as "127.0.0.1:29500 (rank 3)". */
static void add_listens(struct msi_buf *text, int pid, const char *owner) {
    char list[LISTENS_MOST][MSI_LISTENING_TEXT];
    int n = text->len < LISTENS_TEXT ? msi_listening_list(pid, list, LISTENS_MOST) : 0;
    for (int i = 0; i < n; i++) msi_buf_add_format(text, "%s%s (%s)", text->len ? ", " : "", list[i], owner);
}

/* What this node listens on, and who may connect to muster's sockets among that. */
static void put_listens(struct msi_json_out *out, const struct job *job) {
    const char *file = getenv("MUSTER_SECRET_FILE"), *launcher = getenv(MSI_SECRET_VARIABLE);
    const char *open = getenv("MUSTER_STORE_OPEN");
    struct msi_buf text = {0};
    char owner[24];
    int n = job->workers.list ? job->workers.options.n : 0;
    add_listens(&text, getpid(), "store");
    for (int i = 0; i < n; i++) {
        snprintf(owner, sizeof owner, "rank %d", job->workers.list[i].rank);
        if (job->workers.list[i].running) add_listens(&text, job->workers.list[i].pid, owner);
    }
    if (text.len) msi_json_member_string(out, "listens", msi_buf_text(&text));
    msi_json_member_string(out, "secret",
                           file && *file           ? "the file of MUSTER_SECRET_FILE"
                           : launcher && *launcher ? "made for this job"
                                                   : "the user's");
    msi_json_member_bool(out, "open_store", open && !strcmp(open, "1"));
    out->to->failed |= text.failed;
    msi_buf_free(&text);
}

static void compose(void *arg, int64_t request, struct msi_buf *to) {
    static const char *const phases[] = {
        [IDLE] = "idle", [RUNNING] = "running", [STOPPING] = "stopping", [DRAINING] = "ended"};
    const struct job *job = arg;
    const struct node_assignment *a = &job->assignment;
    struct msi_json_out out = msi_json_to(to);
    char host[MSI_HOST_MAX];
    msi_json_put_object(&out);
    msi_json_member_int(&out, "format", STATUS_FORMAT);
    msi_json_member_string(&out, "muster", mst_version());
    msi_json_member_int(&out, "asked", request);
    msi_json_member_string(&out, "run", a->run_id);
    msi_json_member_string(&out, "host", msi_host_name(host));
    msi_json_member_int(&out, "pid", getpid());
    msi_json_member_string(&out, "phase", phases[job->phase]);
    msi_json_member_int(&out, "generation", a->generation);
    msi_json_member_int(&out, "nodes", a->nodes);
    msi_json_member_int(&out, "world_size", a->world_size);
    msi_json_member_int(&out, "first_rank", a->first_rank);
    msi_json_member_int(&out, "local_world_size", job->options->workers.n);
    put_listens(&out, job);
    put_ranks(&out, job);
    msi_json_put_object_end(&out);
}

void job_open_status(struct job *job) {
    const struct worker_env_facts *facts = job->options->facts;
    struct status_link_options options = {.loop = &job->loop,
                                          .host = facts->master_addr,
                                          .port = facts->master_port,
                                          .compose = compose,
                                          .arg = job};
    if (!job->status_link) job->status_link = status_link_open(&options);
}
