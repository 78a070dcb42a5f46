/*
 * chaos.c - one rank of a random program with verified results, for test_chaos.py, scripts/reliability.py and
 * scripts/soak.py. The environment describes the world.
 *
 *   chaos SEED STEPS MODE [HOSTS [THREADS [BITS [EVERY]]]]
 *
 * The seed determines the calls of all ranks: kind, size, group, blocking or not. MODE says what a rank does
 * after MST_ERR_PEER_LOST or MST_ERR_STALLED:
 *   stop     it writes the error and ends with 3
 *   shrink   it goes on with mst_shrink_world, from the first step that not all survivors have done
 *   group    the same with mst_shrink_group
 * The ranks simulate HOSTS hosts (1). With several THREADS (1), each of them runs a program on a group of its
 * own; not with shrink. Calls have at most 2^BITS elements (22). Only every EVERY-th step (1) is verified;
 * with EVERY above 1 the rank also makes its second group again now and then, and writes "step STEP".
 * SIGUSR1 ends the rank with _exit. After SIGUSR2 a rank that is the only one left does no more steps.
 *
 * Other lines of output: "ready PID", "lost MS CULPRIT MESSAGE" for a failed step and "again MS SIZE" for the
 * next success, both with the time on the clock of the host, "failed WHY", and "done STEPS". Exit status: 0
 * all steps are done, 3 as above, 4 a result is wrong, 5 any other error.
 */
#include "chaos/calls.h"

#include "os/clock.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MOST = 8, HALVES = 2, USUAL_BITS = 21, CHURN = 20000, BUFFERS = 4 };

static uint64_t first_seed, steps, every = 1;
static const char *mode;
static bool stops; /* MODE is stop */
static unsigned bits = 22;
static mst_group *bases[THREADS_MOST]; /* of each thread; NULL: the default world */
static atomic_bool ends;               /* SIGUSR2 has come */

/* Of each thread. */
static _Thread_local uint64_t seed;
static _Thread_local mst_group *base;
static _Thread_local struct team all, half;     /* all ranks, and every other one */
static _Thread_local int32_t *buffers[BUFFERS]; /* by turns of malloc and of mst_alloc */
static _Thread_local char why[1000];            /* the first error of the step, and the rank that it names */
static _Thread_local int culprit;

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A number that all ranks have in common. */
static uint64_t draw(uint64_t step, uint64_t what) {
    return mix(seed ^ mix(step * 31 + what + 1));
}

mst_status note(mst_status st) {
    if (st == MST_OK || *why) return st;
    snprintf(why, sizeof why, "%s", mst_error());
    culprit = mst_last_error()->culprit;
    return st;
}

/* Waits for the work of a call, if it has one, or asks for it again and again. */
static mst_status end(mst_status st, mst_work *work, bool polls) {
    if (st != MST_OK || !work) return st;
    for (bool done = !polls; !done;)
        if (mst_test(work, &done) != MST_OK)
            done = true;
        else if (!done)
            sched_yield();
    return mst_wait(work);
}

static void verify(const struct step *s, const struct kind *kind, size_t n) {
    if (kind->flags & ROOT && s->team->rank != s->root) return;
    for (size_t i = 0; i < n; i++) {
        int32_t wanted = kind->wanted(s, i);
        if (s->out[i] == wanted) continue;
        printf("failed step %llu: %s of %zu among %d: element %zu is %d, not %d\n",
               (unsigned long long)s->number, kind->name, s->n, s->team->size, i, s->out[i], wanted);
        _Exit(4);
    }
}

/* Each power of two is as likely as any other, so that small sizes are frequent. Very large ones are rare. */
static size_t draw_size(uint64_t step) {
    unsigned usual = bits < USUAL_BITS ? bits + 1 : USUAL_BITS, high = (unsigned)(draw(step, 1) % usual);
    if (draw(step, 5) % 128 == 0) high = bits;
    return draw(step, 2) % ((size_t)1 << high) + 1;
}

static mst_status take(uint64_t step) {
    /* A group without the victim may only see that another rank ends because of the death. */
    const struct team *t = stops || draw(step, 0) % 3 ? &all : &half;
    /* mst_agree, the last kind, is not interrupted when another rank shrinks the group. */
    const struct kind *kind = &kinds[draw(step, 3) % (n_kinds - (!stops && every == 1))];
    uint64_t own = mix(draw(step, 6) + (uint64_t)t->rank); /* the ranks may differ in this */
    size_t n = draw_size(step), size = (size_t)t->size;
    mst_work *work = NULL;
    struct step s = {step,
                     t,
                     n,
                     (int)(draw(step, 10) % size),
                     (t->rank + 1) % t->size,
                     (t->rank + t->size - 1) % t->size,
                     NULL,
                     buffers[own % BUFFERS],
                     NULL};
    if (kind->flags & (INS | OUTS)) s.n = n / size + 1;
    if (kind->flags & WORK && draw(step, 4) % 2) s.async = &work;
    s.out = kind->flags & PLACE && draw(step, 7) % 2 ? s.in : buffers[own % BUFFERS ^ (1 + own / 4 % 3)];
    for (size_t i = 0; i < s.n * (kind->flags & INS ? size : 1); i++) s.in[i] = value(&s, t->rank, i);
    if (s.out != s.in) s.out[0] = -1;
    *why = '\0';
    mst_status st = kind->call(&s); /* sets work */
    st = end(st, work, own / 16 % 4 == 0);
    if (st == MST_OK && step % every == 0)
        verify(&s, kind,
               kind->flags & NONE  ? 0
               : kind->flags & ONE ? 1
                                   : s.n * (kind->flags & OUTS ? size : 1));
    return st;
}

static struct team team_of(mst_group *group) {
    return (struct team){group, mst_get_rank(group), mst_get_world_size(group)};
}

/* Makes the groups of the steps. */
static mst_status make_teams(void) {
    mst_group *made;
    all = team_of(base);
    mst_status st = mst_split_group(all.rank % HALVES, 0, &made, .group = base);
    if (st == MST_OK) half = team_of(made);
    return st;
}

/* The survivors go on at the first step that one of them has not done. */
static mst_status find_step(uint64_t *step) {
    int64_t first = (int64_t)*step;
    mst_status st = mst_all_reduce(&first, 1, MST_I64, .op = MST_MIN, .group = base);
    *step = (uint64_t)first;
    return st;
}

static bool may_recover(mst_status st) {
    return st == MST_ERR_PEER_LOST || st == MST_ERR_STALLED;
}

static mst_status recover(uint64_t *step) {
    mst_status st;
    do {
        mst_group *old = base, *part = half.group;
        st = strcmp(mode, "group") != 0 ? mst_shrink_world() : mst_shrink_group(base, &base);
        if (st == MST_OK && old && old != base) mst_destroy_process_group(old);
        if (part) mst_destroy_process_group(part); /* after all ranks have left its calls */
        half.group = NULL;
        uint64_t at = *step;
        if (st == MST_OK) st = make_teams();
        if (st == MST_OK) st = find_step(&at);
        if (st == MST_OK) *step = at;
    } while (may_recover(st));
    return st;
}

/* The parts of a long run that need not happen in each step. */
static mst_status churn(uint64_t step) {
    if (every == 1 || step % CHURN) return MST_OK;
    printf("step %llu\n", (unsigned long long)step);
    mst_destroy_process_group(half.group);
    return make_teams();
}

static double ms(void) {
    return (double)msi_now() / 1e6;
}

static mst_status begin(void) {
    size_t bytes = (((size_t)1 << bits) + RANKS_MOST) * sizeof **buffers;
    mst_status st = MST_OK;
    for (int i = 0; i < BUFFERS && st == MST_OK; i++) {
        if (i % 2)
            st = mst_alloc(bytes, &buffers[i]);
        else
            st = (buffers[i] = malloc(bytes)) ? MST_OK : MST_ERR_MEMORY;
    }
    return st == MST_OK ? make_teams() : st;
}

/* Runs all steps of a thread. */
static void *work_through(void *thread) {
    int index = (int)((mst_group **)thread - bases);
    base = bases[index];
    seed = first_seed + ((uint64_t)index << 32);
    mst_status st = begin();
    if (st == MST_OK && index == 0) printf("ready %d\n", (int)getpid());
    bool lost = false;
    for (uint64_t step = 0; step < steps && st == MST_OK && !(ends && all.size == 1);) {
        st = take(step);
        if (st == MST_OK && lost) printf("again %.3f %d\n", ms(), all.size);
        if (st == MST_OK) {
            lost = false;
            st = churn(++step);
        }
        if (!may_recover(note(st)) && st != MST_ERR_STORE_LOST) continue;
        printf("lost %.3f %d %s\n", ms(), culprit, why);
        if (stops) exit(3);
        lost = true;
        if (may_recover(st)) st = recover(&step);
    }
    if (st != MST_OK) {
        printf("failed %s\n", mst_error());
        exit(5);
    }
    for (int i = 0; i < BUFFERS; i++) (i % 2 ? mst_free : free)(buffers[i]);
    return NULL;
}

/* Each thread gets a group of all ranks, if there are several. */
static mst_status make_bases(int threads) {
    int ranks[RANKS_MOST];
    mst_status st = MST_OK;
    for (int r = 0; r < RANKS_MOST; r++) ranks[r] = r;
    for (int i = 0; i < threads && threads > 1 && st == MST_OK; i++)
        st = mst_new_group(ranks, mst_get_world_size(NULL), &bases[i]);
    return st;
}

static void simulate_host(int hosts) {
    char name[16];
    const char *rank = getenv("RANK");
    snprintf(name, sizeof name, "%d", atoi(rank ? rank : "0") % hosts);
    if (hosts > 1) setenv("MUSTER_FORCE_HOST", name, 1);
}

static void leave(int number) {
    if (number == SIGUSR1) _exit(9);
    ends = true;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    first_seed = strtoull(argv[1], NULL, 10);
    steps = strtoull(argv[2], NULL, 10);
    mode = argv[3];
    stops = !strcmp(mode, "stop");
    int threads = argc > 5 ? atoi(argv[5]) : 1;
    if (argc > 6) bits = (unsigned)atoi(argv[6]);
    if (argc > 7) every = strtoull(argv[7], NULL, 10);
    if (argc > 4) simulate_host(atoi(argv[4]));
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGUSR1, leave);
    signal(SIGUSR2, leave);
    mst_status st = mst_init();
    if (st == MST_OK) st = make_bases(threads);
    if (st != MST_OK) {
        printf("failed %s\n", mst_error());
        return 5;
    }
    pthread_t more[THREADS_MOST];
    for (int i = 1; i < threads; i++)
        if (pthread_create(&more[i], NULL, work_through, &bases[i])) return 5;
    work_through(&bases[0]);
    for (int i = 1; i < threads; i++) pthread_join(more[i], NULL);
    printf("done %llu\n", (unsigned long long)steps);
    mst_destroy_process_group(NULL);
    return 0;
}
