/*
 * steady.c - counts what communication calls allocate, and which locks they take, in the steady state.
 *
 *   muster run -n 2 build/bin/tests/steady [CALLS]
 *
 * Warms up every operation, then calls it CALLS times (1000) and counts allocations and locks: blocking,
 * waited for and tested, with small, large and uneven blocks, in memory of malloc and of mst_alloc. No call
 * may allocate or free memory on any thread of the process. A call takes no mutex that calls on another
 * group take; a blocking call takes none at all. A group's own lock is not a mutex. Calls on byte strings are
 * not tested: they return allocated memory.
 *
 * After a wait of many milliseconds the library asks the store which ranks are gone. That does not count, so
 * an operation fails only if it allocates in each of several attempts. Exits with 77 if a sanitizer replaces
 * the allocator.
 */
#include "steady/steady.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_ROUNDS = 6 };
enum { WARM = 20, ATTEMPTS = 4, TIMEOUT_MS = 120000 };
enum how { BLOCKING, WAITED, TESTED, HOWS };
static const char *const how_names[] = {"blocking", "waited for", "tested"};

static int calls = 1000, failures;

static void check(mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "steady: %s: %s: %s\n", what, mst_status_name(status), mst_error());
    exit(1);
}
#define CHECK(call) check(call, #call)

static void finish(mst_work *work, enum how how) {
    for (bool done = how != TESTED; !done;) CHECK(mst_test(work, &done));
    CHECK(mst_wait(work));
}

static void call_once(const struct setting *at, const struct operation *operation, enum how how,
                      int call_number) {
    mst_work *works[STEADY_WORKS] = {NULL};
    mst_call call = {.size = sizeof call,
                     .site = MST_HERE,
                     .group = at->group,
                     .timeout_ms = TIMEOUT_MS,
                     .work = how == BLOCKING ? NULL : works};
    check(operation->call(at, &call, call_number), operation->name);
    for (int i = STEADY_WORKS - 1; i >= 0; i--)
        if (works[i]) finish(works[i], how);
}

/* Calls an operation many times and returns the counts. Ranks start and end together. */
static struct watched watch(const struct setting *at, const struct operation *operation, enum how how) {
    for (int i = 0; i < WARM; i++) call_once(at, operation, how, i);
    CHECK(mst_barrier(.group = at->group, .timeout_ms = TIMEOUT_MS));
    watch_begin();
    for (int i = 0; i < calls; i++) call_once(at, operation, how, i);
    struct watched seen = watch_end();
    CHECK(mst_barrier(.group = at->group, .timeout_ms = TIMEOUT_MS));
    return seen;
}

/* Whether the condition holds on any rank: all must agree on another attempt. */
static bool on_any_rank(const struct setting *at, bool here) {
    int any = here;
    CHECK(mst_all_reduce(&any, 1, MST_I32, .op = MST_MAX, .group = at->group, .timeout_ms = TIMEOUT_MS));
    return any;
}

static void measure(const struct setting *at, const struct operation *operation, enum how how) {
    struct watched seen = watch(at, operation, how);
    bool locks = how == BLOCKING && !at->threaded;
    for (int attempt = 1; attempt < ATTEMPTS; attempt++) {
        if (!on_any_rank(at, seen.allocations || seen.frees || (locks && seen.locks))) return;
        struct watched again = watch(at, operation, how);
        if (again.allocations < seen.allocations) seen.allocations = again.allocations;
        if (again.frees < seen.frees) seen.frees = again.frees;
        if (again.locks < seen.locks) seen.locks = again.locks;
    }
    if (seen.allocations == 0 && seen.frees == 0 && !(locks && seen.locks)) return;
    failures++;
    fprintf(stderr, "steady: FAILED on rank %d: %d calls of %s, %s, %s: %ld allocations, %ld frees%s\n",
            at->me, calls, operation->name, how_names[how], at->name, seen.allocations, seen.frees,
            locks && seen.locks ? ", and locks" : "");
}

/* Blocking calls first: the first work starts the group's thread. */
static void measure_all(struct setting *at, const char *name) {
    at->name = name;
    for (int how = BLOCKING; how < HOWS; how++) {
        at->threaded = how != BLOCKING;
        for (const struct operation *o = operations; o->name; o++)
            if (o->forms != (how == BLOCKING ? WORKS_ONLY : BLOCKING_ONLY)) measure(at, o, (enum how)how);
    }
}

/* Collects the mutexes of calls with .work in a group. */
static void collect_locks(const struct setting *at, struct locks *locks) {
    for (const struct operation *o = operations; o->name; o++)
        for (int i = 0; i < WARM; i++) call_once(at, o, o->forms == BLOCKING_ONLY ? BLOCKING : WAITED, i);
    CHECK(mst_barrier(.group = at->group, .timeout_ms = TIMEOUT_MS));
    watch_begin();
    for (const struct operation *o = operations; o->name; o++)
        for (int i = 0; i < WARM; i++) call_once(at, o, o->forms == BLOCKING_ONLY ? BLOCKING : WAITED, i);
    watch_end();
    watch_locks(locks);
}

/* A mutex that both groups take; NULL if there is none. */
static const void *shared_lock(const struct locks *a, const struct locks *b) {
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (a->at[i] == b->at[j]) return a->at[i];
    return NULL;
}

/*
 * A long wait, as on a busy machine, also checks state that groups share: new connections, lost ranks. That
 * is not part of the calls, so the best of several rounds counts. All ranks run all rounds.
 */
static void compare_locks(const struct setting *a, const struct setting *b) {
    struct locks first, second;
    const void *shared = NULL;
    bool apart = false;
    for (int round = 0; round < LOCK_ROUNDS; round++) {
        collect_locks(a, &first);
        collect_locks(b, &second);
        const void *now = shared_lock(&first, &second);
        if (now) shared = now;
        apart |= !now;
    }
    if (apart) return;
    failures++;
    fprintf(stderr, "steady: FAILED on rank %d: two groups take the mutex at %p\n", a->me, shared);
}

/* Are mutexes counted? */
static bool counts_mutexes(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct locks locks;
    watch_begin();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    watch_end();
    watch_locks(&locks);
    return locks.n == 1 && locks.at[0] == &mutex;
}

int main(int argc, char **argv) {
    if (!watch_works()) {
        puts("steady: skipped: a sanitizer replaces the allocator");
        return 77;
    }
    if (!counts_mutexes()) return 2;
    if (argc > 1) calls = atoi(argv[1]);
    CHECK(mst_init(.timeout_ms = TIMEOUT_MS));
    struct setting plain = {.me = mst_get_rank(NULL), .size = mst_get_world_size(NULL)}, shared = plain;
    int ranks[STEADY_RANKS];
    if (plain.size < 2 || plain.size > STEADY_RANKS) return 2;
    for (int r = 0; r < plain.size; r++) ranks[r] = r;
    CHECK(mst_new_group(ranks, plain.size, &plain.group, .name = "plain"));
    CHECK(mst_new_group(ranks, plain.size, &shared.group, .name = "shared"));
    CHECK(mst_alloc(STEADY_BYTES, &shared.in));
    CHECK(mst_alloc(STEADY_BYTES, &shared.out));
    plain.in = calloc(1, STEADY_BYTES);
    plain.out = calloc(1, STEADY_BYTES);
    if (!plain.in || !plain.out) return 1;
    measure_all(&plain, "memory of malloc");
    measure_all(&shared, "memory of mst_alloc");
    compare_locks(&plain, &shared);
    CHECK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    if (!failures) mst_printf("steady: ok: %d ranks on %d hosts\n", plain.size, mst_get_host_count(NULL));
    free_reducers();
    free(plain.in);
    free(plain.out);
    mst_free(shared.in);
    mst_free(shared.out);
    CHECK(mst_destroy_process_group(NULL));
    return failures != 0;
}
