/*
 * progress.c - watches how ranks join. See progress.h. Ranks cannot notify the launcher, so it polls their
 * states: often while some wait for others, every two seconds while none has begun, and no longer once all
 * have joined.
 */
#include "run/ranks/progress.h"

#include "base/buf.h"
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

struct census {
    int joining, joined, missing;
    int absent; /* local rank of the first that ended without joining, or -1 */
};

static void on_timer(uv_timer_t *timer);

static bool has_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
}

void progress_init(struct progress *p) {
    p->terminal = p->may_redraw && has_terminal();
    uv_timer_init(p->loop, &p->timer);
    p->timer.data = p;
}

void progress_close(struct progress *p) {
    uv_close((uv_handle_t *)&p->timer, NULL);
}

static void look_in(struct progress *p, uint64_t pause) {
    p->pause = pause;
    uv_timer_start(&p->timer, on_timer, pause, 0);
}

void progress_start(struct progress *p) {
    if (p->states->segment.fd < 0) return;
    p->since = 0;
    p->absent = -1;
    look_in(p, FIRST_LOOK_MS);
}

void progress_look_soon(struct progress *p) {
    if (uv_is_active((uv_handle_t *)&p->timer)) look_in(p, SOON_MS);
}

static void erase_status(struct progress *p) {
    if (p->shown) output_status(p->output, "");
    p->shown = false;
}

void progress_stop(struct progress *p) {
    uv_timer_stop(&p->timer);
    erase_status(p);
}

static bool is_joining(const struct rank_states *states, const struct worker *worker) {
    struct rank_stage stage = rank_states_stage(states, worker->local_rank);
    return worker->running && stage.phase == MSI_RANK_STATE_JOINING && stage.is_here &&
           stage.rank == worker->rank;
}

static bool is_missing(const struct rank_states *states, const struct worker *worker) {
    return rank_states_stage(states, worker->local_rank).phase == MSI_RANK_STATE_NOTHING;
}

static struct census count(const struct progress *p) {
    const struct workers *w = p->workers;
    struct census c = {.absent = -1};
    for (int i = 0; i < w->options.n; i++) {
        const struct worker *worker = &w->list[i];
        enum msi_rank_phase phase = rank_states_stage(p->states, i).phase;
        c.joining += is_joining(p->states, worker);
        c.joined += phase != MSI_RANK_STATE_NOTHING && phase != MSI_RANK_STATE_JOINING;
        bool ended = !worker->running && (worker->code == 0 || p->survive) && !worker->joins;
        if (ended && phase <= MSI_RANK_STATE_JOINING && c.absent < 0) c.absent = i;
        c.missing += phase == MSI_RANK_STATE_NOTHING;
    }
    return c;
}

/* Appends the ranks of which is_so holds, NAMED at most. */
static void add_ranks(struct msi_buf *to, const struct progress *p,
                      bool (*is_so)(const struct rank_states *, const struct worker *), bool with_pids) {
    const struct workers *w = p->workers;
    int n = 0;
    for (int i = 0; i < w->options.n; i++) {
        if (!is_so(p->states, &w->list[i]) || n++ >= NAMED) continue;
        msi_buf_add_format(to, with_pids ? "%srank %d (pid %d)" : "%srank %d", n == 1 ? "" : ", ",
                           w->list[i].rank, (int)w->list[i].pid);
    }
    if (n > NAMED) msi_buf_add_format(to, " and %d more", n - NAMED);
}

/* A rank counts as absent at the second look: it may be about to join another world of the program. */
static void check_absent(struct progress *p, const struct census *c) {
    bool again = c->absent >= 0 && c->absent == p->absent;
    char host[MSI_HOST_MAX];
    struct msi_buf why = {0};
    p->absent = c->joining > 0 ? c->absent : -1;
    if (!again || p->absent < 0) return;
    const struct worker *worker = &p->workers->list[c->absent];
    msi_buf_add_format(&why, "rank %d (pid %d) on %s ended without joining the world in which ", worker->rank,
                       (int)worker->pid, msi_host_name(host));
    add_ranks(&why, p, is_joining, false);
    msi_buf_add_text(&why, c->joining == 1 ? " waits for it" : " wait for it");
    progress_stop(p);
    p->on_absent(p->arg, worker, msi_buf_text(&why));
    msi_buf_free(&why);
}

static void show_missing(struct progress *p, const struct census *c, uint64_t waited) {
    struct msi_buf text = {0};
    if (waited < p->next_say) return;
    msi_buf_add_format(&text, "muster run: %d of %d ranks wait to join; missing: ", c->joining,
                       p->workers->options.n);
    add_ranks(&text, p, is_missing, true);
    if (p->terminal) {
        output_status(p->output, msi_buf_text(&text));
        p->shown = true;
    } else {
        msi_buf_add_text(&text, "\n");
        output_say(p->output, msi_buf_text(&text));
        p->next_say = waited < SAY_MOST_MS ? waited * 2 : waited + SAY_MOST_MS;
    }
    msi_buf_free(&text);
}

static void update(struct progress *p, const struct census *c) {
    uint64_t now = uv_now(p->loop);
    if (c->joining == 0 || c->missing == 0) {
        erase_status(p);
        p->since = 0;
        return;
    }
    if (p->since == 0) {
        p->since = now;
        p->next_say = p->terminal ? REDRAW_AFTER_MS : SAY_AFTER_MS;
    }
    show_missing(p, c, now - p->since);
}

static void on_timer(uv_timer_t *timer) {
    struct progress *p = timer->data;
    struct census c = count(p);
    if (c.joined == p->workers->options.n) {
        progress_stop(p);
        return;
    }
    bool waiting = c.joining > 0 && c.missing > 0;
    look_in(p, waiting ? SOON_MS : p->pause * 2 < SELDOM_MS ? p->pause * 2 : SELDOM_MS);
    update(p, &c);
    check_absent(p, &c);
}
