/* recorder.c - see recorder.h. */
#include "prof/recorder.h"
#include "base/error.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/thread.h"
#include "os/tick.h"
#include "prof/figures.h"
#include "prof/ring.h"
#include "prof/trace.h"
#include "prof/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PERIOD_MS = 50 };

#define CLOCK_NS INT64_C(1000000000) /* so often the trace has a word on the clock */

struct msi_prof_world {
    struct msi_prof_world *next;
    struct msi_tally_who who;
    bool open;
    int64_t zero;
    struct msi_follower *follower;
    struct msi_timekeeper *keeper;
    int64_t offset, error; /* what is to be added to our clock, give or take, as of the last look … */
    int64_t looked;        /* … and when the trace was told */
    uint64_t lost;         /* records for which there was no room */
    struct msi_tally *tally;
    struct msi_trace *trace; /* NULL: none */
    struct msi_prof_group *groups;
    int n_groups;
};

static struct {
    pthread_mutex_t lock; /* of everything here, and of the rings' reading ends */
    pthread_cond_t changed;
    struct msi_prof_config config;
    bool configured; /* by the program */
    struct msi_prof_world *worlds;
    int open_worlds;
    bool running, ending;
    pthread_t thread;
    struct msi_tick_look first;
    pid_t owner; /* the process that has the worlds */
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The verbose line. */
static void say(const struct msi_prof_world *world, const struct msi_record *r, uint64_t ns) {
    struct msi_buf text = {0};
    if (!recorder.config.verbose || world->who.rank != 0) return;
    msi_add_call_line(&text, r->name, recorder.config.debug ? r->function : NULL, (enum msi_share)r->share,
                      r->group->size, r->bytes, ns);
    msi_buf_add(&text, "\n", 1);
    fflush(stdout);
    if (!text.failed && write(STDOUT_FILENO, text.data, text.len) < 0)
        msi_warn_once(prof, "the lines of what is recorded cannot be printed");
    msi_buf_free(&text);
}

static void take(struct msi_prof_world *world, const struct msi_record *r, const struct msi_ring *ring,
                 const struct msi_tick_look *now) {
    double rate = msi_tick_rate(recorder.first, *now);
    struct msi_times times = {.begin =
                                  msi_tick_ns(recorder.first, *now, r->begin) + world->offset - world->zero,
                              .lasted = (int64_t)((double)(r->end - r->begin) * rate),
                              .queued = (int64_t)((double)(r->started - r->begin) * rate),
                              .waited = (int64_t)((double)r->waited * rate)};
    struct msi_tally_call call = {.name = r->name,
                                  .call = r->call,
                                  .function = r->function,
                                  .group = r->group,
                                  .bytes = r->bytes,
                                  .seq = r->seq,
                                  .duration_ns = r->device ? r->device : (uint64_t)times.lasted,
                                  .waited_ns = (uint64_t)times.waited,
                                  .share = (enum msi_share)r->share,
                                  .work = r->flags & MSI_RECORD_WORK,
                                  .message = r->flags & MSI_RECORD_MESSAGE,
                                  .status = (mst_status)r->status};
    msi_tally_add(world->tally, &call);
    if (world->trace) msi_trace_add(world->trace, r, &times, ring->number, ring->thread);
    say(world, r, call.duration_ns);
}

/* The ring whose oldest record was over first. */
static struct msi_ring *next_ring(void) {
    struct msi_ring *found = NULL;
    uint64_t end = 0;
    for (struct msi_ring *ring = msi_ring_all(); ring; ring = ring->next) {
        const struct msi_record *r = msi_ring_peek(ring);
        if (!r || (found && r->end >= end)) continue;
        found = ring;
        end = r->end;
    }
    return found;
}

static void look_at_clock(struct msi_prof_world *world, int64_t now) {
    if (world->follower) msi_follower_offset(world->follower, now, &world->offset, &world->error);
    if (!world->trace || !world->error || (world->looked && now - world->looked < CLOCK_NS)) return;
    msi_trace_clock(world->trace, now + world->offset - world->zero, world->offset, world->error);
    world->looked = now;
}

/* Under the lock. */
static void drain(void) {
    struct msi_tick_look now = msi_tick_look();
    for (struct msi_prof_world *world = recorder.worlds; world; world = world->next)
        if (world->open) look_at_clock(world, now.ns);
    for (struct msi_ring *ring; (ring = next_ring());) {
        const struct msi_record *r = msi_ring_peek(ring);
        struct msi_prof_world *world = r->group->world;
        if (world->open) take(world, r, ring, &now);
        msi_ring_pop(ring);
    }
}

static void *run(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "muster-prof");
    pthread_mutex_lock(&recorder.lock);
    while (!recorder.ending) {
        msi_cond_wait_until(&recorder.changed, &recorder.lock, msi_deadline(PERIOD_MS));
        drain();
        for (struct msi_prof_world *w = recorder.worlds; w; w = w->next)
            if (w->trace) msi_trace_flush(w->trace);
    }
    pthread_mutex_unlock(&recorder.lock);
    return NULL;
}

/* Without the thread the rings are emptied by those who find them full, and in the end. */
static void start_thread(void) {
    if (recorder.running) return;
    recorder.ending = false;
    msi_cond_init(&recorder.changed); /* nobody waits for it without the thread */
    recorder.running = msi_thread_start(&recorder.thread, run, NULL) == 0;
    if (!recorder.running) msi_warn_once(prof, "there is no thread for the recorder");
}

/* Under the lock, which it leaves for a moment. */
static void stop_thread(void) {
    if (!recorder.running) return;
    recorder.ending = true;
    pthread_cond_signal(&recorder.changed);
    pthread_mutex_unlock(&recorder.lock);
    pthread_join(recorder.thread, NULL);
    pthread_mutex_lock(&recorder.lock);
    pthread_cond_destroy(&recorder.changed);
    recorder.running = false;
}

/* Whether everything is recorded, for msi_recorder_wants; nothing is ordered by it. */
static _Atomic bool all_wanted;

/* Recording is on while it is enabled, and there is a world. */
static void apply(void) {
    bool on = recorder.config.enabled && recorder.open_worlds > 0;
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next)
        if (w->tally) w->tally->debug = recorder.config.debug;
    if (on) {
        msi_tick_begin();
        if (!recorder.first.tick) recorder.first = msi_tick_look();
        start_thread();
    }
    atomic_store_explicit(&all_wanted, recorder.config.prof_all, memory_order_relaxed);
    msi_watch_set(MSI_WATCH_RECORD, on);
}

bool msi_recorder_wants(const char *name, bool asked) {
    if (asked || atomic_load_explicit(&all_wanted, memory_order_relaxed)) return true;
    pthread_mutex_lock(&recorder.lock);
    bool wanted = msi_prof_config_wants(&recorder.config, name);
    pthread_mutex_unlock(&recorder.lock);
    return wanted;
}

static mst_status open_trace(const struct msi_prof_who *who, struct msi_trace **trace) {
    struct msi_trace_who text = {.rank = who->rank,
                                 .size = who->size,
                                 .pid = who->pid,
                                 .host = who->host,
                                 .program = program_invocation_short_name,
                                 .unix_ns = who->unix_ns};
    return msi_trace_open(who->trace, &text, trace);
}

mst_status msi_prof_world_begin(const struct msi_prof_who *who, struct msi_prof_world **world) {
    struct msi_prof_world *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->who = (struct msi_tally_who){.rank = who->rank, .size = who->size, .pid = who->pid};
    snprintf(made->who.host, sizeof made->who.host, "%s", who->host);
    made->zero = who->zero;
    made->offset = who->offset;
    made->error = who->error;
    made->follower = who->follower;
    made->keeper = who->keeper;
    made->tally = msi_tally_new(false);
    mst_status st = made->tally ? MST_OK : msi_fail_memory();
    if (st == MST_OK && who->trace[0]) st = open_trace(who, &made->trace);
    if (st != MST_OK) {
        msi_tally_free(made->tally);
        free(made);
        return st;
    }
    pthread_mutex_lock(&recorder.lock);
    recorder.owner = getpid();
    made->open = true;
    made->next = recorder.worlds;
    recorder.worlds = made;
    recorder.open_worlds++;
    apply();
    pthread_mutex_unlock(&recorder.lock);
    *world = made;
    return MST_OK;
}

static void end_trace(struct msi_prof_world *world) {
    if (world->trace) msi_trace_lost(world->trace, world->lost);
    msi_trace_close(world->trace);
    world->trace = NULL;
}

void msi_prof_world_end(struct msi_prof_world *world) {
    if (!world) return;
    pthread_mutex_lock(&recorder.lock);
    drain();
    world->open = false;
    end_trace(world);
    if (world->lost)
        msi_log(prof, WARN,
                "there was no memory to record %llu operations, which are in no table and no trace",
                (unsigned long long)world->lost);
    msi_tally_free(world->tally);
    world->tally = NULL;
    recorder.open_worlds--;
    if (recorder.open_worlds == 0) {
        msi_watch_set(MSI_WATCH_RECORD, false);
        stop_thread();
        apply(); /* another world may have begun meanwhile */
    }
    pthread_mutex_unlock(&recorder.lock);
    msi_follower_close(world->follower);
    msi_timekeeper_close(world->keeper);
    world->follower = NULL;
    world->keeper = NULL;
}

const struct msi_prof_group *msi_prof_group(struct msi_prof_world *world, const char *id, const char *name,
                                            int rank, int size, int (*global)(const void *of, int rank),
                                            const void *of) {
    struct msi_prof_group *made = calloc(1, sizeof *made);
    int *ranks = calloc((size_t)size, sizeof *ranks);
    char *own_id = strdup(id), *own_name = strdup(name);
    if (!made || !ranks || !own_id || !own_name) {
        free(made);
        free(ranks);
        free(own_id);
        free(own_name);
        return NULL;
    }
    for (int r = 0; r < size; r++) ranks[r] = global(of, r);
    *made = (struct msi_prof_group){
        .world = world, .size = size, .rank = rank, .id = own_id, .name = own_name, .ranks = ranks};
    pthread_mutex_lock(&recorder.lock);
    made->number = world->n_groups++;
    made->next = world->groups;
    world->groups = made;
    pthread_mutex_unlock(&recorder.lock);
    return made;
}

void msi_recorder_set(const struct msi_prof_config *config, bool program) {
    pthread_mutex_lock(&recorder.lock);
    drain();
    if (program || !recorder.configured) recorder.config = *config;
    recorder.configured |= program;
    apply();
    pthread_mutex_unlock(&recorder.lock);
}

void msi_recorder_get(struct msi_prof_config *config) {
    pthread_mutex_lock(&recorder.lock);
    *config = recorder.config;
    pthread_mutex_unlock(&recorder.lock);
}

void msi_recorder_add(const struct msi_record *record) {
    if (msi_ring_push(record)) return;
    pthread_mutex_lock(&recorder.lock);
    drain();
    if (!msi_ring_push(record)) record->group->world->lost++;
    pthread_mutex_unlock(&recorder.lock);
}

mst_status msi_recorder_write(struct msi_prof_world *world, struct msi_buf *to) {
    pthread_mutex_lock(&recorder.lock);
    drain();
    msi_tally_write(world->tally, &world->who, to);
    pthread_mutex_unlock(&recorder.lock);
    return to->failed ? msi_fail_memory() : MST_OK;
}

/* Of worlds that the program has not ended, at its end: their traces have theirs. */
__attribute__((destructor)) static void end_traces(void) {
    if (recorder.owner != getpid()) return; /* a forked child has copies of what is the parent's */
    pthread_mutex_lock(&recorder.lock);
    bool any = false;
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) any |= w->trace != NULL;
    if (any) drain();
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) end_trace(w);
    pthread_mutex_unlock(&recorder.lock);
}
