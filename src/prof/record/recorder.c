/* recorder.c - see recorder.h. */
#include "prof/record/recorder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/thread.h"
#include "os/tick.h"
#include "prof/record/event_ring.h"
#include "prof/record/op_trace.h"
#include "prof/summary/figures.h"
#include "prof/trace/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PERIOD_MS = 50, LINES_MOST = 1 << 20 };

#define CLOCK_NS INT64_C(1000000000) /* period of clock events in the trace */

struct msi_prof_world {
    struct msi_prof_world *next;
    int rank;
    bool open;
    struct msi_prof_clock clock; /* with the offset of the last measurement */
    int64_t clock_traced;        /* when that was written to the trace; 0: never */
    uint64_t lost;               /* records that were dropped without memory */
    struct msi_op_stats *stats;
    struct msi_trace *trace;        /* NULL: none */
    struct msi_trace *parent_trace; /* in a forked child: kept but not used, since its file is the parent's */
    struct msi_prof_group *groups;  /* kept for records */
    int n_groups;
};

static struct {
    pthread_mutex_t lock; /* of everything here, and of reading the rings */
    pthread_cond_t changed;
    struct msi_prof_config config;
    bool configured; /* by the program */
    struct msi_prof_world *worlds;
    int open_worlds;
    bool running;
    unsigned generation; /* of the thread; a thread of an older generation ends */
    pthread_t thread;
    struct msi_buf lines;        /* verbose output that is not printed yet */
    struct msi_buf parent_lines; /* in a forked child: kept but not used */
    pthread_mutex_t printing;    /* taken before the lock */
    struct msi_tick_look first;
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER, .printing = PTHREAD_MUTEX_INITIALIZER};

/*
 * In a forked child only the forking thread exists. Worlds, unprinted lines and the thread belong to the
 * parent, and nobody releases locks that other threads of the parent held.
 */
static void forget_parent(void) {
    pthread_mutex_init(&recorder.lock, NULL);
    pthread_mutex_init(&recorder.printing, NULL);
    msi_cond_init(&recorder.changed);
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) {
        w->open = false;
        if (w->trace) w->parent_trace = w->trace;
        w->trace = NULL;
    }
    recorder.parent_lines = recorder.lines; /* another thread may have been changing them */
    recorder.lines = (struct msi_buf){0};
    recorder.open_worlds = 0;
    recorder.running = false;
    msi_sink_set(MSI_SINK_RECORD, false);
}

static void begin_once(void) {
    msi_cond_init(&recorder.changed);
    pthread_atfork(NULL, NULL, forget_parent);
}

static void add_verbose_line(const struct msi_prof_world *world, const struct msi_record *r, uint64_t ns) {
    if (!recorder.config.verbose || world->rank != 0) return;
    msi_add_call_line(&recorder.lines, r, recorder.config.debug ? r->function : NULL, ns);
    msi_buf_add(&recorder.lines, "\n", 1);
}

/* Prints the verbose lines. Not under the recorder's lock, since standard output may block. */
static void print_lines(void) {
    pthread_mutex_lock(&recorder.printing);
    pthread_mutex_lock(&recorder.lock);
    struct msi_buf text = recorder.lines;
    recorder.lines = (struct msi_buf){0};
    pthread_mutex_unlock(&recorder.lock);
    if (text.len) fflush(stdout);
    if (text.failed || msi_write_all(STDOUT_FILENO, text.data, text.len) != 0)
        msi_warn_once(prof, "cannot print the profiler's verbose lines");
    msi_buf_free(&text);
    pthread_mutex_unlock(&recorder.printing);
}

/* Nanoseconds between two ticks; 0 if the clocks of two processors disagree. */
static int64_t span(uint64_t from, uint64_t to, double rate) {
    return to > from ? (int64_t)((double)(to - from) * rate) : 0;
}

static void add_record(struct msi_prof_world *world, const struct msi_record *r,
                       const struct msi_tick_look *now) {
    double rate = msi_tick_rate(recorder.first, *now);
    struct msi_times times = {.begin = msi_tick_ns(recorder.first, *now, r->begin) + world->clock.offset -
                                       world->clock.zero,
                              .lasted = span(r->begin, r->end, rate),
                              .queued = span(r->begin, r->started, rate),
                              .waited = span(0, r->waited, rate)};
    msi_op_stats_add(world->stats, r, &times, world->clock.error < MSI_PROF_NO_CLOCK_NS);
    if (world->trace) msi_trace_add(world->trace, r, &times);
    add_verbose_line(world, r, r->device ? r->device : (uint64_t)times.lasted);
}

/* The ring whose oldest record ended first. */
static struct msi_event_ring *next_ring(void) {
    struct msi_event_ring *found = NULL;
    uint64_t end = 0;
    for (struct msi_event_ring *ring = msi_event_ring_all(); ring; ring = ring->next) {
        const struct msi_record *r = msi_event_ring_peek(ring);
        if (!r || (found && r->end >= end)) continue;
        found = ring;
        end = r->end;
    }
    return found;
}

static void update_clock(struct msi_prof_world *world, int64_t now) {
    struct msi_prof_clock *clock = &world->clock;
    if (clock->client) msi_clock_client_offset(clock->client, now, &clock->offset, &clock->error);
    if (!world->trace || !clock->error || (world->clock_traced && now - world->clock_traced < CLOCK_NS))
        return;
    msi_trace_clock(world->trace, now + clock->offset - clock->zero, clock->offset, clock->error);
    world->clock_traced = now;
}

/* Under the lock. */
static void drain(void) {
    struct msi_tick_look now = msi_tick_look();
    for (struct msi_prof_world *world = recorder.worlds; world; world = world->next)
        if (world->open) update_clock(world, now.ns);
    for (struct msi_event_ring *ring; (ring = next_ring());) {
        const struct msi_record *r = msi_event_ring_peek(ring);
        struct msi_prof_world *world = r->group->world;
        if (world->open) add_record(world, r, &now);
        msi_event_ring_pop(ring);
    }
}

static void *run(void *arg) {
    unsigned generation = (unsigned)(uintptr_t)arg;
    pthread_setname_np(pthread_self(), "muster-prof");
    pthread_mutex_lock(&recorder.lock);
    while (recorder.generation == generation) {
        msi_cond_wait_until(&recorder.changed, &recorder.lock, msi_deadline(PERIOD_MS));
        drain();
        for (struct msi_prof_world *w = recorder.worlds; w; w = w->next)
            if (w->trace) msi_trace_flush(w->trace);
        if (!recorder.lines.len) continue;
        pthread_mutex_unlock(&recorder.lock);
        print_lines();
        pthread_mutex_lock(&recorder.lock);
    }
    pthread_mutex_unlock(&recorder.lock);
    return NULL;
}

/* Without the thread, rings are emptied when they are full, and at the end. */
static void start_thread(void) {
    if (recorder.running) return;
    recorder.running = msi_thread_start(&recorder.thread, run, (void *)(uintptr_t)recorder.generation) == 0;
    if (!recorder.running) msi_warn_once(prof, "cannot start the profiler's thread");
}

/* Under the lock, which it releases for a moment: another thread may be started meanwhile. */
static void stop_thread(void) {
    pthread_t thread = recorder.thread;
    if (!recorder.running) return;
    recorder.running = false;
    recorder.generation++;
    pthread_cond_broadcast(&recorder.changed);
    pthread_mutex_unlock(&recorder.lock);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&recorder.lock);
}

/* What is recorded, for msi_recorder_wants: hashes of names. Relaxed: nothing depends on the order. */
static struct {
    _Atomic bool all;
    _Atomic int n;
    _Atomic uint64_t names[MSI_PROF_OPS_MOST];
} wanted;

static uint64_t hash(const char *name) {
    static const uint64_t seeds[2] = {9, 10};
    return msi_hash(name, strlen(name), seeds);
}

static void publish_wanted(const struct msi_prof_config *config) {
    for (int i = 0; i < config->n_ops; i++)
        atomic_store_explicit(&wanted.names[i], hash(config->ops[i]), memory_order_relaxed);
    atomic_store_explicit(&wanted.n, config->n_ops, memory_order_relaxed);
    atomic_store_explicit(&wanted.all, config->prof_all, memory_order_relaxed);
}

bool msi_recorder_wants(const char *name) {
    if (atomic_load_explicit(&wanted.all, memory_order_relaxed)) return true;
    int n = atomic_load_explicit(&wanted.n, memory_order_relaxed);
    uint64_t own = n ? hash(name) : 0;
    for (int i = 0; i < n; i++)
        if (atomic_load_explicit(&wanted.names[i], memory_order_relaxed) == own) return true;
    return false;
}

/* Recording is on while it is enabled and there is a world. */
static void apply(void) {
    bool on = recorder.config.enabled && recorder.open_worlds > 0;
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next)
        if (w->stats) w->stats->debug = recorder.config.debug;
    if (on) {
        msi_tick_begin();
        if (!recorder.first.tick) recorder.first = msi_tick_look();
        start_thread();
    }
    publish_wanted(&recorder.config);
    msi_sink_set(MSI_SINK_RECORD, on);
}

mst_status msi_prof_world_begin(const struct msi_prof_world_options *options, struct msi_prof_world **world) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
    struct msi_prof_world *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    *made = (struct msi_prof_world){
        .rank = options->id.rank, .clock = options->clock, .stats = msi_op_stats_new(false)};
    mst_status st = made->stats ? MST_OK : msi_fail_memory();
    if (st == MST_OK) made->stats->run_begin = made->clock.zero ? 0 : msi_now();
    if (st == MST_OK && options->trace[0])
        st = msi_trace_open(options->trace, &options->id, options->unix_ns, &made->trace);
    if (st != MST_OK) {
        msi_op_stats_free(made->stats);
        free(made);
        return st;
    }
    pthread_mutex_lock(&recorder.lock);
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
    msi_trace_close(world->trace, world->lost);
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
                "%llu operations were not recorded for lack of memory; they are missing in tables and traces",
                (unsigned long long)world->lost);
    msi_op_stats_free(world->stats);
    world->stats = NULL;
    recorder.open_worlds--;
    if (recorder.open_worlds == 0) {
        msi_sink_set(MSI_SINK_RECORD, false);
        stop_thread();
        apply(); /* another world may have begun while the lock was released */
    }
    pthread_mutex_unlock(&recorder.lock);
    print_lines();
    msi_clock_client_close(world->clock.client);
    msi_clock_server_close(world->clock.server);
    world->clock = (struct msi_prof_clock){0};
}

const struct msi_prof_group *msi_prof_group(struct msi_prof_world *world,
                                            const struct msi_prof_group *group) {
    struct msi_prof_group *made = msi_prof_group_copy(group);
    if (!made) return NULL;
    pthread_mutex_lock(&recorder.lock);
    made->world = world;
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
    print_lines();
}

mst_status msi_recorder_change(msi_prof_change change, const void *arg) {
    pthread_mutex_lock(&recorder.lock);
    struct msi_prof_config config = recorder.config;
    mst_status st = change(&config, arg);
    if (st == MST_OK) {
        drain();
        recorder.config = config;
        recorder.configured = true;
        apply();
    }
    pthread_mutex_unlock(&recorder.lock);
    print_lines();
    return st;
}

/*
 * The owner of a full ring empties it. Waking the thread when the ring is half full costs more (87 ns a call
 * instead of 72), since writing a cache line that another processor has read is slow.
 */
void msi_recorder_add(const struct msi_record *record) {
    if (msi_event_ring_push(record)) return;
    pthread_mutex_lock(&recorder.lock);
    drain();
    if (!msi_event_ring_push(record)) record->group->world->lost++;
    bool much = recorder.lines.len > LINES_MOST;
    pthread_mutex_unlock(&recorder.lock);
    if (much) print_lines();
}

mst_status msi_recorder_write(struct msi_prof_world *world, struct msi_buf *to) {
    pthread_mutex_lock(&recorder.lock);
    drain();
    msi_op_stats_write(world->stats, to);
    pthread_mutex_unlock(&recorder.lock);
    print_lines();
    return to->failed ? msi_fail_memory() : MST_OK;
}

mst_status msi_recorder_reset(void) {
    mst_status st = MST_OK;
    pthread_mutex_lock(&recorder.lock);
    drain();
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) {
        if (!w->open) continue;
        struct msi_op_stats *empty = msi_op_stats_new(recorder.config.debug);
        if (!empty) {
            st = msi_fail_memory();
            continue;
        }
        empty->run_begin = msi_now() + w->clock.offset - w->clock.zero;
        msi_op_stats_free(w->stats);
        w->stats = empty;
    }
    pthread_mutex_unlock(&recorder.lock);
    print_lines();
    return st;
}

uint64_t msi_recorder_count(const char *name) {
    uint64_t n = 0;
    pthread_mutex_lock(&recorder.lock);
    drain();
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next)
        if (w->open) n += msi_op_stats_count(w->stats, name);
    pthread_mutex_unlock(&recorder.lock);
    print_lines();
    return n;
}

/* At exit: ends the traces of worlds that the program has not ended. */
__attribute__((destructor)) static void end_traces(void) {
    pthread_mutex_lock(&recorder.lock);
    bool any = false;
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) any |= w->trace != NULL;
    if (any) drain();
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) end_trace(w);
    pthread_mutex_unlock(&recorder.lock);
    print_lines();
}
