/* team.c - see team.h. */
#include "os/team.h"
#include "base/nt_copy.h"
#include "os/clock.h"
#include "os/thread.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE = 128,
    POLL_NS = 50000,       /* after a job, before a thread sleeps */
    LATE_NS = 300000,      /* a part that ends so much later than it should has lost its processor */
    REST_MS = 50,          /* the first rest; each one after it is twice as long … */
    REST_MOST_MS = 3200,   /* … up to this */
    CHECKS = 64,           /* polls between two looks at the clock */
    COPY_GRAIN = 64 << 10, /* bytes that are worth a thread */
    COPY_PARTS = 4,        /* of a large copy for each thread, in case that one is slow */
    CALLER = -1,           /* number of the calling thread; helpers count from 0 */
    SHARE_MOST = 8,        /* more threads do not copy faster: memory is the limit */
};

/* A job and the next part of it that nobody has taken: turn << 40 | helpers << 32 | part << 16 | parts. The
 * first threads of the team, as many as helpers, take parts. */
static int helpers_of(uint64_t state) {
    return (int)(state >> 32 & 0xff);
}
static int part_of(uint64_t state) {
    return (int)(state >> 16 & 0xffff);
}
static int parts_of(uint64_t state) {
    return (int)(state & 0xffff);
}

static _Thread_local bool spares; /* jobs of this thread leave processors to the program */

struct msi_team {
    _Alignas(LINE) _Atomic uint64_t state;
    msi_team_job job; /* this and context belong to the turn of state: valid while a part is not done */
    void *context;
    _Alignas(LINE) _Atomic int done; /* parts of the turn */
    _Atomic int numbered;            /* threads that have their number */
    _Atomic bool ending;
    _Alignas(LINE) _Atomic bool busy; /* a thread has the team; it owns what follows */
    bool started;
    int64_t rest_ms;            /* the last rest; 0: none lately */
    _Atomic int64_t rest_until; /* 0: the team works */
    _Atomic int limit;
    bool fixed; /* limit does not change */
    int n;      /* threads, without the caller */
    cpu_set_t processors;
    pthread_mutex_t lock; /* of sleep and wake */
    struct helper {
        _Atomic bool sleeps;
        pthread_cond_t wake;
    } helpers[MSI_TEAM_MOST];
    pthread_t threads[MSI_TEAM_MOST];
};

struct msi_team *msi_team_new(int threads, bool fixed) {
    if (threads < 2) return NULL;
    struct msi_team *team = aligned_alloc(LINE, (sizeof *team + LINE - 1) / LINE * LINE);
    if (!team) return NULL;
    memset(team, 0, sizeof *team);
    team->fixed = fixed;
    atomic_init(&team->limit, threads < MSI_TEAM_MOST ? threads : MSI_TEAM_MOST);
    if (sched_getaffinity(0, sizeof team->processors, &team->processors)) CPU_ZERO(&team->processors);
    pthread_mutex_init(&team->lock, NULL);
    for (int i = 0; i < MSI_TEAM_MOST; i++) pthread_cond_init(&team->helpers[i].wake, NULL);
    return team;
}

void msi_team_limit(struct msi_team *team, int threads) {
    int limit = team && !team->fixed ? atomic_load_explicit(&team->limit, memory_order_relaxed) : 0;
    while (threads < limit &&
           !atomic_compare_exchange_weak_explicit(&team->limit, &limit, threads < 1 ? 1 : threads,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void msi_team_spare_processors(void) {
    spares = true;
}

int msi_team_threads(const struct msi_team *team) {
    if (!team) return 1;
    /* Advice: orders nothing. */
    int64_t until = atomic_load_explicit(&team->rest_until, memory_order_relaxed);
    if (until && msi_now() < until) return 1;
    int threads = atomic_load_explicit(&team->limit, memory_order_relaxed);
    return spares && !team->fixed ? (threads + 1) / 2 : threads;
}

/* Wakes one thread of the job, which wakes the next one if there is more to do. */
static void wake_one(struct msi_team *team, int helpers) {
    for (int i = 0; i < helpers; i++) {
        struct helper *helper = &team->helpers[i];
        if (!atomic_load_explicit(&helper->sleeps, memory_order_seq_cst)) continue; /* see sleep_until_job */
        pthread_mutex_lock(&team->lock);
        bool slept = atomic_exchange_explicit(&helper->sleeps, false, memory_order_relaxed);
        if (slept) pthread_cond_signal(&helper->wake);
        pthread_mutex_unlock(&team->lock);
        if (slept) return;
    }
}

/* Does the job have a part for this thread? */
static bool is_for(uint64_t state, int number) {
    return part_of(state) < parts_of(state) && number < helpers_of(state);
}

/* Takes a part of the job, if one is left, and does it. */
static bool do_part(struct msi_team *team, int number) {
    /* Acquires job and context, from msi_team_run. */
    uint64_t state = atomic_load_explicit(&team->state, memory_order_acquire);
    do {
        if (!is_for(state, number)) return false;
    } while (!atomic_compare_exchange_weak_explicit(&team->state, &state, state + (1 << 16),
                                                    memory_order_acquire, memory_order_acquire));
    if (number != CALLER && part_of(state) + 1 < parts_of(state)) wake_one(team, helpers_of(state));
    team->job(team->context, part_of(state), parts_of(state));
    atomic_fetch_add_explicit(&team->done, 1, memory_order_release); /* to wait_for_all */
    return true;
}

/* Is there a job for the thread with this number? */
static bool has_job(const struct msi_team *team, int number) {
    /* Sequentially consistent: either this sees the job, or msi_team_run sees the sleeper. */
    uint64_t state = atomic_load_explicit(&team->state, memory_order_seq_cst);
    return is_for(state, number);
}

static void sleep_until_job(struct msi_team *team, int number) {
    struct helper *helper = &team->helpers[number];
    pthread_mutex_lock(&team->lock);
    for (;;) {
        atomic_store_explicit(&helper->sleeps, true, memory_order_seq_cst);
        if (has_job(team, number) || atomic_load_explicit(&team->ending, memory_order_relaxed)) break;
        pthread_cond_wait(&helper->wake, &team->lock);
    }
    atomic_store_explicit(&helper->sleeps, false, memory_order_relaxed);
    pthread_mutex_unlock(&team->lock);
}

/* Polls for a job; returns whether there is one. */
static bool poll_job(struct msi_team *team, int number) {
    int64_t until = msi_now() + POLL_NS;
    while (!atomic_load_explicit(&team->ending, memory_order_relaxed)) {
        for (int i = 0; i < CHECKS; i++) {
            if (has_job(team, number)) return true;
            msi_relax();
        }
        if (msi_now() > until) return false;
    }
    return false;
}

static void *help(void *context) {
    struct msi_team *team = context;
    pthread_setname_np(pthread_self(), "muster-team");
    if (CPU_COUNT(&team->processors)) sched_setaffinity(0, sizeof team->processors, &team->processors);
    int number = atomic_fetch_add_explicit(&team->numbered, 1, memory_order_relaxed);
    while (!atomic_load_explicit(&team->ending, memory_order_relaxed)) {
        if (!poll_job(team, number)) sleep_until_job(team, number);
        while (do_part(team, number)) {
        }
    }
    return NULL;
}

static void start(struct msi_team *team) {
    team->started = true;
    int most = atomic_load_explicit(&team->limit, memory_order_relaxed) - 1;
    while (team->n < most && !msi_thread_start(&team->threads[team->n], help, team)) team->n++;
}

/* Waits for the parts that other threads have taken. The caller has just done its last one. A thread is late
 * if the wait is longer than the job was until then. */
static void wait_for_all(struct msi_team *team, int parts, int64_t begun) {
    int64_t since = 0, now = 0;
    /* Acquires what the threads wrote, from do_part. */
    for (int i = 1; atomic_load_explicit(&team->done, memory_order_acquire) < parts; i++) {
        msi_relax();
        if (i % CHECKS) continue;
        now = msi_now();
        if (!since) since = now;
        if (now - since > LATE_NS) sched_yield();
    }
    int64_t rest = team->rest_ms ? 2 * team->rest_ms : REST_MS;
    bool late = since && now - since > LATE_NS + (since - begun);
    team->rest_ms = !late ? team->rest_ms / 2 : rest < REST_MOST_MS ? rest : REST_MOST_MS;
    if (late || atomic_load_explicit(&team->rest_until, memory_order_relaxed))
        atomic_store_explicit(&team->rest_until, late ? now + team->rest_ms * 1000000 : 0,
                              memory_order_relaxed);
}

static void run_alone(int parts, msi_team_job job, void *context) {
    for (int part = 0; part < parts; part++) job(context, part, parts);
}

void msi_team_run(struct msi_team *team, int parts, msi_team_job job, void *context) {
    /* Acquires what the last user wrote. */
    uint64_t helpers = (uint64_t)msi_team_threads(team) - 1;
    if (helpers == 0 || parts < 2 || atomic_exchange_explicit(&team->busy, true, memory_order_acquire)) {
        run_alone(parts, job, context);
        return;
    }
    if (!team->started) start(team);
    int64_t begun = msi_now();
    team->job = job;
    team->context = context;
    atomic_store_explicit(&team->done, 0, memory_order_relaxed);
    uint64_t turn = (atomic_load_explicit(&team->state, memory_order_relaxed) >> 40) + 1;
    atomic_store_explicit(&team->state, turn << 40 | helpers << 32 | (uint64_t)parts, memory_order_seq_cst);
    wake_one(team, (int)helpers);
    while (do_part(team, CALLER)) {
    }
    wait_for_all(team, parts, begun);
    atomic_store_explicit(&team->busy, false, memory_order_release);
}

void msi_team_free(struct msi_team *team) {
    if (!team) return;
    pthread_mutex_lock(&team->lock);
    atomic_store_explicit(&team->ending, true, memory_order_relaxed);
    for (int i = 0; i < team->n; i++) pthread_cond_signal(&team->helpers[i].wake);
    pthread_mutex_unlock(&team->lock);
    for (int i = 0; i < team->n; i++) pthread_join(team->threads[i], NULL);
    for (int i = 0; i < MSI_TEAM_MOST; i++) pthread_cond_destroy(&team->helpers[i].wake);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int msi_team_parts(const struct msi_team *team, size_t bytes, size_t grain) {
    if (!team || bytes < 2 * grain) return 1;
    size_t worth = bytes / grain, threads = (size_t)msi_team_threads(team);
    return (int)(worth < threads ? worth : threads);
}

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    bool nt_stores;
};

static void copy_part(void *context, int part, int parts) {
    const struct copy *copy = context;
    size_t from = msi_team_start(copy->bytes, part, parts, 64),
           end = msi_team_start(copy->bytes, part + 1, parts, 64);
    if (copy->nt_stores)
        msi_nt_copy(copy->to + from, copy->from + from, end - from);
    else
        memcpy(copy->to + from, copy->from + from, end - from);
}

void msi_team_copy(struct msi_team *team, void *to, const void *from, size_t bytes, bool nt_stores) {
    struct copy copy = {to, from, bytes, nt_stores};
    int parts = msi_team_parts(team, bytes, COPY_GRAIN);
    if (bytes / COPY_GRAIN >= COPY_PARTS * (size_t)parts) parts *= COPY_PARTS;
    msi_team_run(team, parts, copy_part, &copy);
}

int msi_team_share(int ranks) {
    cpu_set_t set;
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN),
        own = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set), each = all / ranks;
    int n = own < each ? own : each;
    return n < 1 ? 1 : n > SHARE_MOST ? SHARE_MOST : n;
}
