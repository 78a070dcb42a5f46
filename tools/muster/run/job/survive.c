/*
 * survive.c - --survive and --replace: ranks that die do not end the others. See job_internal.h.
 *
 *   a rank dies --single node: survivors.h decides; several nodes: the coordinator does--> the others go on,
 *   the rank is replaced, or the generation fails
 *
 * Until that is decided and carried out the rank is undecided, and this node does not count as stopped.
 */
#include "run/job/job_internal.h"

#include "run/failure/failure.h"
#include "run/ranks/spawn.h"

#include <signal.h>
#include <stdio.h>

enum { LOOK_MS = 500, STUCK_LOOKS = 4 };

static void say(void *arg, const char *line) {
    struct job *job = arg;
    output_line(job->output, "%s", line);
}

void job_summarize_deaths(struct job *job) {
    survivors_summarize(&job->survivors, say, job);
}

static enum msi_rank_phase phase_of(const struct job *job, const struct worker *worker) {
    return rank_states_stage(job->options->states, worker->local_rank).phase;
}

/* A rank that has never joined its world takes its own place in it; others join the world that runs. */
static bool must_join(const struct job *job, const struct worker *worker) {
    enum msi_rank_phase phase = phase_of(job, worker);
    return worker->joins || job->options->states->segment.fd < 0 || phase == MSI_RANK_STATE_JOINED ||
           phase == MSI_RANK_STATE_LEFT;
}

/* Is it a replacement that has not joined the world, as far as was reported? */
static bool waits(const struct worker *worker) {
    return worker->replacement && !worker->joined;
}

static void report(struct job *job, struct worker *worker, enum rank_event event, const char *text);

/*
 * Looks at a replacement that has not joined. If no rank is left to admit it, it is ended: otherwise it would
 * wait until its timeout. It is looked at several times, because other nodes may not have reported a rank
 * that has joined.
 */
static void look_at(struct job *job, struct worker *worker) {
    enum msi_rank_phase phase = phase_of(job, worker);
    if (phase == MSI_RANK_STATE_JOINED || phase == MSI_RANK_STATE_LEFT) {
        report(job, worker, RANK_JOINED, "");
        worker->joined = true;
        return;
    }
    worker->stuck = job->alone && worker->joins && phase == MSI_RANK_STATE_JOINING ? worker->stuck + 1 : 0;
    if (worker->stuck < STUCK_LOOKS) return;
    worker->unadmitted = true;
    spawn_signal(worker->pid, SIGKILL);
}

static void on_look(uv_timer_t *timer) {
    struct job *job = timer->data;
    bool any = false;
    for (int i = 0; i < job->workers.started && job->phase == RUNNING; i++) {
        struct worker *worker = &job->workers.list[i];
        if (!waits(worker) || !worker->running || worker->unadmitted) continue;
        any = true;
        look_at(job, worker);
    }
    if (!any) uv_timer_stop(timer);
}

static void replace(struct job *job, struct worker *worker) {
    struct worker_env env;
    bool joins = must_join(job, worker);
    int rc = worker_env_open(&env, job->options->facts, &job->assignment);
    worker->replace = false;
    job->undecided--;
    rank_states_clear(job->options->states, worker->local_rank);
    if (rc == 0) {
        workers_replace(worker, &env, joins);
        worker_env_close(&env);
    } else {
        worker->replacement = true;
        worker->exec_error = -rc;
    }
    if (!worker->running) job_on_exit(worker, job);
    if (!uv_is_active((uv_handle_t *)&job->looking)) uv_timer_start(&job->looking, on_look, LOOK_MS, LOOK_MS);
}

/* Runs after the loop has closed the handles of the ranks that died. */
static void on_replace(uv_timer_t *timer) {
    struct job *job = timer->data;
    for (int i = 0; i < job->workers.started && job->phase == RUNNING; i++)
        if (job->workers.list[i].replace) replace(job, &job->workers.list[i]);
}

static void replace_soon(struct job *job, struct worker *worker) {
    worker->replace = true;
    if (job->dead == worker) job->dead = NULL;
    output_detach_rank(job->output, worker->local_rank);
    uv_timer_start(&job->replacing, on_replace, 0, 0);
}

static void blame(struct job *job, const struct worker *worker) {
    job->root = worker;
    if (worker->unadmitted) snprintf(job->why, sizeof job->why, "no rank was left to admit it to the world");
}

/* On a single node. */
static void decide(struct job *job, struct worker *worker, enum rank_event event, const char *text) {
    char line[SURVIVORS_TEXT];
    enum survivors_verdict verdict = survivors_handle(&job->survivors, event, waits(worker), text);
    survivors_describe(&job->survivors, verdict, text, line);
    if (event == RANK_DIED || event == RANK_UNADMITTED) output_line(job->output, "%s", line);
    job->alone = survivors_all_wait(&job->survivors);
    if (verdict == SURVIVORS_FAIL) {
        blame(job, worker);
        job_stop_after_grace(job);
    } else if (verdict == SURVIVORS_REPLACE) {
        job->undecided++;
        replace_soon(job, worker);
    }
}

/* On several nodes. The coordinator prints it for all launchers that share one stderr. */
static void ask(struct job *job, struct worker *worker, enum rank_event event, const char *text) {
    if (event == RANK_DIED || event == RANK_UNADMITTED) {
        job->undecided++;
        worker->undecided = true;
        job->dead = worker;
        if (!job_is_coordinator(job) && !job->options->agent->quiet) output_line(job->output, "%s", text);
    }
    node_agent_report_rank(
        job->agent,
        (struct notice){.rank = worker->rank, .event = event, .waited = waits(worker), .text = text});
}

static void report(struct job *job, struct worker *worker, enum rank_event event, const char *text) {
    if (job->agent)
        ask(job, worker, event, text);
    else
        decide(job, worker, event, text);
}

void job_survive_exit(struct job *job, struct worker *worker) {
    enum rank_event event = worker->unadmitted ? RANK_UNADMITTED : worker->code == 0 ? RANK_DONE : RANK_DIED;
    struct rank_state_view state;
    char text[SURVIVORS_TEXT] = "";
    if (event == RANK_UNADMITTED) {
        snprintf(text, sizeof text, "rank %d (pid %d) waited to join, but no rank was left to admit it",
                 worker->rank, (int)worker->pid);
    } else if (event == RANK_DIED) {
        rank_states_read(job->options->states, worker->local_rank, &state);
        output_catch_up(job->output, worker->local_rank);
        job_keep_flight(job, worker);
        report_death(worker, &state, text, sizeof text);
    }
    report(job, worker, event, text);
}

void job_on_verdict(void *arg, int rank, bool is_replaced) {
    struct job *job = arg;
    int index = rank - job->assignment.first_rank;
    if (job->phase != RUNNING || index < 0 || index >= job->workers.started) return;
    struct worker *worker = &job->workers.list[index];
    if (!worker->undecided) return; /* the line was appended twice */
    worker->undecided = false;
    if (is_replaced) {
        replace_soon(job, worker);
        return;
    }
    job->undecided--;
    job_check_exited(job);
}

void job_blame_dead(struct job *job) {
    if (!job->root && job->dead) blame(job, job->dead);
}

bool job_forget_undecided(struct job *job) {
    bool any = job->undecided > 0;
    job->undecided = 0;
    uv_timer_stop(&job->replacing);
    uv_timer_stop(&job->looking);
    return any && job->workers.running == 0;
}
