/*
 * progress.c - see progress.h. Ranks cannot ring the launcher, so it looks at their states: often while some wait for
 * others, every two seconds while nothing has begun, and not at all once everybody has joined.
 */
#include "run/ranks/progress.h"

#include "cli/text.h"

#include "os/host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SOON_MS = 200,
    FIRST_LOOK_MS = 500,
    SELDOM_MS = 2000,
    REDRAW_AFTER_MS = 2000,
    SAY_AFTER_MS = 10000,
    SAY_MOST_MS = 600000,
    NAMED = 8, /* ranks in one line */
};

/* Who is where. */
struct census {
    int joining, there, missing;
    int absent; /* local rank of the first that has ended without joining; -1: none */
};

static void on_timer(uv_timer_t *timer);

static bool has_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

void progress_init(struct progress *p, const struct progress_options *options) {
    *p = (struct progress){.options = *options, .absent = -1};
    p->terminal = options->may_redraw && has_terminal();
    uv_timer_init(options->loop, &p->timer);
    p->timer.data = p;
}

void progress_close(struct progress *p) {
    uv_close((uv_handle_t *)&p->timer, NULL);
}

void progress_start(struct progress *p) {
    if (p->options.states->fd < 0) return;
    p->since = 0;
    p->absent = -1;
    p->pause = FIRST_LOOK_MS;
    uv_timer_start(&p->timer, on_timer, p->pause, 0);
}

void progress_look_soon(struct progress *p) {
    if (!uv_is_active((uv_handle_t *)&p->timer)) return;
    p->pause = SOON_MS;
    uv_timer_start(&p->timer, on_timer, p->pause, 0);
}

static void take_back(struct progress *p) {
    if (p->shown) output_status(p->options.output, "");
    p->shown = false;
}

void progress_stop(struct progress *p) {
    uv_timer_stop(&p->timer);
    take_back(p);
}

static bool waits(const struct states *states, const struct worker *worker) {
    struct rank_stage stage = rank_states_stage(states, worker->local_rank);
    return worker->running && stage.phase == MSI_RANK_STATE_JOINING && stage.is_here &&
           stage.rank == worker->rank;
}

static bool is_missing(const struct states *states, const struct worker *worker) {
    return rank_states_stage(states, worker->local_rank).phase == MSI_RANK_STATE_NOTHING;
}

static struct census count(const struct progress *p) {
    const struct workers *w = p->options.workers;
    struct census c = {.absent = -1};

    for (int i = 0; i < w->options.n; i++) {
        const struct worker *worker = &w->list[i];
        enum msi_rank_phase phase = rank_states_stage(p->options.states, i).phase;

        c.joining += waits(p->options.states, worker);
        c.there += phase != MSI_RANK_STATE_NOTHING && phase != MSI_RANK_STATE_JOINING;
        if (phase != MSI_RANK_STATE_NOTHING) continue;
        c.missing++;
        if (!worker->running && worker->code == 0 && c.absent < 0) c.absent = i;
    }
    return c;
}

/* The ranks that are so, NAMED at most. */
static void put_ranks(struct text_room *l, const struct progress *p,
                      bool (*are)(const struct states *, const struct worker *), bool with_pids) {
    const struct workers *w = p->options.workers;
    int n = 0;

    for (int i = 0; i < w->options.n; i++) {
        if (!are(p->options.states, &w->list[i]) || n++ >= NAMED) continue;
        text_put(l, with_pids ? "%srank %d (pid %d)" : "%srank %d", n == 1 ? "" : ", ", w->list[i].rank,
                 (int)w->list[i].pid);
    }
    if (n > NAMED) text_put(l, " and %d more", n - NAMED);
}

/* Not one that has left the group of the program only for now: seen twice, it is so. */
static void judge_absent(struct progress *p, const struct census *c) {
    bool again = c->absent >= 0 && c->absent == p->absent;
    char why[PROGRESS_WHY], host[MSI_HOST_MAX];
    struct text_room l = {why, sizeof why};

    p->absent = c->joining > 0 ? c->absent : -1;
    if (!again || p->absent < 0) return;
    const struct worker *worker = &p->options.workers->list[c->absent];
    text_put(&l, "rank %d (pid %d) on %s ended without joining the world in which ", worker->rank,
             (int)worker->pid, msi_host_name(host));
    put_ranks(&l, p, waits, false);
    text_put(&l, c->joining == 1 ? " waits for it" : " wait for it");
    progress_stop(p);
    p->options.on_absent(p->options.arg, worker, why);
}

static void say(struct progress *p, const struct census *c, uint64_t waited) {
    char text[1024];
    struct text_room l = {text, sizeof text - 1};

    if (waited < p->next_say) return;
    text_put(&l, "muster run: %d of %d ranks wait to join; not yet there: ", c->joining,
             p->options.workers->options.n);
    put_ranks(&l, p, is_missing, true);
    if (p->terminal) {
        output_status(p->options.output, text);
        p->shown = true;
        return;
    }
    p->next_say = waited < SAY_MOST_MS ? waited * 2 : waited + SAY_MOST_MS;
    output_say(p->options.output, strcat(text, "\n"));
}

static void tell(struct progress *p, const struct census *c) {
    uint64_t now = uv_now(p->options.loop);

    if (c->joining == 0 || c->missing == 0) {
        take_back(p);
        p->since = 0;
        return;
    }
    if (p->since == 0) {
        p->since = now;
        p->next_say = p->terminal ? REDRAW_AFTER_MS : SAY_AFTER_MS;
    }
    say(p, c, now - p->since);
}

static void on_timer(uv_timer_t *timer) {
    struct progress *p = timer->data;
    struct census c = count(p);

    if (c.there == p->options.workers->options.n) {
        progress_stop(p);
        return;
    }
    bool waiting = c.joining > 0 && c.missing > 0;
    p->pause = waiting ? SOON_MS : p->pause * 2 < SELDOM_MS ? p->pause * 2 : SELDOM_MS;
    uv_timer_start(&p->timer, on_timer, p->pause, 0);
    tell(p, &c);
    judge_absent(p, &c);
}
