/* recorder.c - see recorder.h. */
#include "prof/record/recorder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/thread.h"
#include "os/tick.h"
#include "os/write.h"
#include "prof/record/event_ring.h"
#include "prof/record/watch.h"
#include "prof/summary/figures.h"
#include "prof/trace/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PERIOD_MS = 50, TOLD_MOST = 1 << 20 };

#define CLOCK_NS INT64_C(1000000000) /* so often the trace has a word on the clock */

struct msi_prof_world {
    struct msi_prof_world *next;
    struct msi_op_stats_who who;
    bool open;
    int64_t zero;
    struct msi_clock_client *clock_client;
    struct msi_clock_server *keeper;
    int64_t offset, error; /* what is to be added to our clock, give or take, as of the last look … */
    int64_t looked;        /* … and when the trace was told */
    uint64_t lost;         /* records for which there was no room */
    struct msi_op_stats *stats;
    struct msi_trace *trace;       /* NULL: none */
    struct msi_prof_group *groups; /* kept for records; nobody walks them */
    int n_groups;
};

static struct {
    pthread_mutex_t lock; /* of everything here, and of the rings' reading ends */
    pthread_cond_t changed;
    struct msi_prof_config config;
    bool configured; /* by the program */
    struct msi_prof_world *worlds;
    int open_worlds;
    bool running;
    unsigned turn; /* of the thread: one that has an older number ends */
    pthread_t thread;
    struct msi_buf told;      /* lines for whoever prints next */
    pthread_mutex_t printing; /* by one at a time; taken before the other */
    struct msi_tick_look first;
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER, .printing = PTHREAD_MUTEX_INITIALIZER};

/*
 * In a forked child, which has nothing but the thread that forked: the worlds, what was said of them and the thread are the parent's, and
 * who held the locks there does not let go of them here.
 */
static void forget_parent(void) {
    pthread_mutex_init(&recorder.lock, NULL);
    pthread_mutex_init(&recorder.printing, NULL);
    msi_cond_init(&recorder.changed);
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) {
        w->open = false;
        w->trace = NULL;
    }
    recorder.told = (struct msi_buf){0};
    recorder.open_worlds = 0;
    recorder.running = false;
    msi_watch_set(MSI_WATCH_RECORD, false);
}

/* Before the first world. */
static void begin_once(void) {
    msi_cond_init(&recorder.changed);
    pthread_atfork(NULL, NULL, forget_parent);
}

/* The verbose line. */
static void say(const struct msi_prof_world *world, const struct msi_record *r, uint64_t ns) {
    if (!recorder.config.verbose || world->who.rank != 0) return;
    msi_add_call_line(&recorder.told, r->name, recorder.config.debug ? r->function : NULL,
                      (enum msi_share)r->share, r->group->size, r->bytes, ns);
    msi_buf_add(&recorder.told, "\n", 1);
}

/* Prints what was said. Without the recorder's lock: whoever reads may take as long as it likes. */
static void print(void) {
    pthread_mutex_lock(&recorder.printing);
    pthread_mutex_lock(&recorder.lock);
    struct msi_buf text = recorder.told;
    recorder.told = (struct msi_buf){0};
    pthread_mutex_unlock(&recorder.lock);
    if (text.len) fflush(stdout);
    if (text.failed || msi_write_all(STDOUT_FILENO, text.data, text.len) != 0)
        msi_warn_once(prof, "the lines of what is recorded cannot be printed");
    msi_buf_free(&text);
    pthread_mutex_unlock(&recorder.printing);
}

/* Ticks between two moments; clocks of different processors may differ by a little. */
static int64_t span(uint64_t from, uint64_t to, double rate) {
    return to > from ? (int64_t)((double)(to - from) * rate) : 0;
}

static void take(struct msi_prof_world *world, const struct msi_record *r, const struct msi_tick_look *now) {
    double rate = msi_tick_rate(recorder.first, *now);
    struct msi_times times = {.begin =
                                  msi_tick_ns(recorder.first, *now, r->begin) + world->offset - world->zero,
                              .lasted = span(r->begin, r->end, rate),
                              .queued = span(r->begin, r->started, rate),
                              .waited = span(0, r->waited, rate)};
    struct msi_op_stats_call call = {.name = r->name,
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
    msi_op_stats_add(world->stats, &call);
    if (world->trace)
        msi_trace_add(world->trace, r, &times, r->thread, msi_event_ring_thread(r->thread).text);
    say(world, r, call.duration_ns);
}

/* The ring whose oldest record was over first. */
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

static void look_at_clock(struct msi_prof_world *world, int64_t now) {
    if (world->clock_client) msi_clock_client_offset(world->clock_client, now, &world->offset, &world->error);
    if (!world->trace || !world->error || (world->looked && now - world->looked < CLOCK_NS)) return;
    msi_trace_clock(world->trace, now + world->offset - world->zero, world->offset, world->error);
    world->looked = now;
}

/* Under the lock. */
static void drain(void) {
    struct msi_tick_look now = msi_tick_look();
    for (struct msi_prof_world *world = recorder.worlds; world; world = world->next)
        if (world->open) look_at_clock(world, now.ns);
    for (struct msi_event_ring *ring; (ring = next_ring());) {
        const struct msi_record *r = msi_event_ring_peek(ring);
        struct msi_prof_world *world = r->group->world;
        if (world->open) take(world, r, &now);
        msi_event_ring_pop(ring);
    }
}

static void *run(void *number) {
    unsigned turn = (unsigned)(uintptr_t)number;
    pthread_setname_np(pthread_self(), "muster-prof");
    pthread_mutex_lock(&recorder.lock);
    while (recorder.turn == turn) {
        msi_cond_wait_until(&recorder.changed, &recorder.lock, msi_deadline(PERIOD_MS));
        drain();
        for (struct msi_prof_world *w = recorder.worlds; w; w = w->next)
            if (w->trace) msi_trace_flush(w->trace);
        if (!recorder.told.len) continue;
        pthread_mutex_unlock(&recorder.lock);
        print();
        pthread_mutex_lock(&recorder.lock);
    }
    pthread_mutex_unlock(&recorder.lock);
    return NULL;
}

/* Without the thread the rings are emptied by those who find them full, and in the end. */
static void start_thread(void) {
    if (recorder.running) return;
    recorder.running = msi_thread_start(&recorder.thread, run, (void *)(uintptr_t)recorder.turn) == 0;
    if (!recorder.running) msi_warn_once(prof, "there is no thread for the recorder");
}

/* Under the lock, which it leaves for a moment: another may be started meanwhile. */
static void stop_thread(void) {
    pthread_t thread = recorder.thread;
    if (!recorder.running) return;
    recorder.running = false;
    recorder.turn++;
    pthread_cond_broadcast(&recorder.changed);
    pthread_mutex_unlock(&recorder.lock);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&recorder.lock);
}

/* What is recorded, for msi_recorder_wants: names by their hashes. Nothing is ordered by it. */
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

/* Recording is on while it is enabled, and there is a world. */
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
    msi_watch_set(MSI_WATCH_RECORD, on);
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
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_once);
    struct msi_prof_world *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    made->who = (struct msi_op_stats_who){.rank = who->rank, .size = who->size, .pid = who->pid};
    snprintf(made->who.host, sizeof made->who.host, "%s", who->host);
    made->zero = who->zero;
    made->offset = who->offset;
    made->error = who->error;
    made->clock_client = who->clock_client;
    made->keeper = who->keeper;
    made->stats = msi_op_stats_new(false);
    mst_status st = made->stats ? MST_OK : msi_fail_memory();
    if (st == MST_OK && who->trace[0]) st = open_trace(who, &made->trace);
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
    msi_op_stats_free(world->stats);
    world->stats = NULL;
    recorder.open_worlds--;
    if (recorder.open_worlds == 0) {
        msi_watch_set(MSI_WATCH_RECORD, false);
        stop_thread();
        apply(); /* another world may have begun meanwhile */
    }
    pthread_mutex_unlock(&recorder.lock);
    print();
    msi_clock_client_close(world->clock_client);
    msi_clock_server_close(world->keeper);
    world->clock_client = NULL;
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
    print();
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
    print();
    return st;
}

/*
 * Whoever finds its ring full empties it. To wake the thread when it is half full costs more, 87 ns a call instead of 72: what another
 * processor has read is dear to write again.
 */
void msi_recorder_add(const struct msi_record *record) {
    if (msi_event_ring_push(record)) return;
    pthread_mutex_lock(&recorder.lock);
    drain();
    if (!msi_event_ring_push(record)) record->group->world->lost++;
    bool much = recorder.told.len > TOLD_MOST;
    pthread_mutex_unlock(&recorder.lock);
    if (much) print();
}

mst_status msi_recorder_write(struct msi_prof_world *world, struct msi_buf *to) {
    pthread_mutex_lock(&recorder.lock);
    drain();
    msi_op_stats_write(world->stats, &world->who, to);
    pthread_mutex_unlock(&recorder.lock);
    print();
    return to->failed ? msi_fail_memory() : MST_OK;
}

/* Of worlds that the program has not ended, at its end: their traces have theirs. */
__attribute__((destructor)) static void end_traces(void) {
    pthread_mutex_lock(&recorder.lock);
    bool any = false;
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) any |= w->trace != NULL;
    if (any) drain();
    for (struct msi_prof_world *w = recorder.worlds; w; w = w->next) end_trace(w);
    pthread_mutex_unlock(&recorder.lock);
    print();
}
