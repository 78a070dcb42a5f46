/*
 * thread_ranks.c - ranks that are threads of one process use every kind of communication, so that a race
 * detector sees it.
 *
 *   thread_ranks RANKS ROUNDS
 *
 * In each round every rank calls every operation with small, medium and large tensors, first blocking, then
 * with several works in flight; exchanges messages; and starts two threads that use a group each. Results are
 * compared. Exits with 0 on success.
 */
#include <muster/muster.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 8, WORKS = 4, HELPERS = 2, LARGE = 70000, TIMEOUT_MS = 120000 };

struct rank_thread {
    pthread_t thread;
    mst_store *store;
    int rank, size, rounds;
};

/* One rank's handle of a group, used by one thread, and its buffers. */
struct view {
    mst_group *group;
    int me, n;
    int32_t *in, *out; /* RANKS_MAX * LARGE each */
};

static void check(const struct view *v, mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "thread_ranks: rank %d: %s: %s: %s\n", v->me, what, mst_status_name(status), mst_error());
    _exit(1);
}
#define CHECK(call) check(v, call, #call)

static int32_t value(int rank, size_t i) {
    return (int32_t)(rank * 1000 + (int)(i % 977));
}

static int32_t sum(int ranks, size_t i) {
    return (int32_t)(ranks * (ranks - 1) / 2 * 1000 + ranks * (int)(i % 977));
}

static void require(const struct view *v, const char *what, size_t i, int32_t got, int32_t wanted) {
    if (got == wanted) return;
    fprintf(stderr, "thread_ranks: rank %d: %s: element %zu is %d instead of %d\n", v->me, what, i, got,
            wanted);
    _exit(1);
}

static void fill(const struct view *v, size_t count) {
    for (size_t i = 0; i < count; i++) v->in[i] = value(v->me, i);
    memset(v->out, 0xff, count * sizeof *v->out);
}

/* The following functions run an operation as the call says, wait for it, and check the result. */
static void finish(const struct view *v, mst_call *call) {
    if (!call->work) return;
    for (bool done = v->me % 2 == 0; !done;) CHECK(mst_test(*call->work, &done));
    CHECK(mst_wait(*call->work));
}

static void all_reduce(const struct view *v, size_t n, mst_call *call) {
    call->in = v->in;
    CHECK(mst_all_reduce_with(v->out, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n; i++) require(v, "all_reduce", i, v->out[i], sum(v->n, i));
}

static void reduce(const struct view *v, size_t n, mst_call *call) {
    call->in = v->in;
    call->root = v->n - 1;
    CHECK(mst_reduce_with(v->out, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n; i++) require(v, "reduce", i, v->out[i], v->me == v->n - 1 ? sum(v->n, i) : -1);
}

static void broadcast(const struct view *v, size_t n, mst_call *call) {
    call->in = v->in;
    call->root = v->n - 1;
    CHECK(mst_broadcast_with(v->out, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n; i++) require(v, "broadcast", i, v->out[i], value(v->n - 1, i));
}

static void all_gather(const struct view *v, size_t n, mst_call *call) {
    CHECK(mst_all_gather_into_tensor_with(v->out, v->in, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n * (size_t)v->n; i++)
        require(v, "all_gather", i, v->out[i], value((int)(i / n), i % n));
}

static void gather(const struct view *v, size_t n, mst_call *call) {
    call->root = v->n - 1;
    CHECK(mst_gather_with(v->out, v->in, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; v->me == v->n - 1 && i < n * (size_t)v->n; i++)
        require(v, "gather", i, v->out[i], value((int)(i / n), i % n));
}

static void scatter(const struct view *v, size_t n, mst_call *call) {
    call->root = v->n - 1;
    CHECK(mst_scatter_with(v->out, v->in, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n; i++)
        require(v, "scatter", i, v->out[i], value(v->n - 1, (size_t)v->me * n + i));
}

static void reduce_scatter(const struct view *v, size_t n, mst_call *call) {
    CHECK(mst_reduce_scatter_tensor_with(v->out, v->in, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n; i++)
        require(v, "reduce_scatter", i, v->out[i], sum(v->n, (size_t)v->me * n + i));
}

static void all_to_all(const struct view *v, size_t n, mst_call *call) {
    CHECK(mst_all_to_all_single_with(v->out, v->in, n, MST_I32, call));
    finish(v, call);
    for (size_t i = 0; i < n * (size_t)v->n; i++)
        require(v, "all_to_all", i, v->out[i], value((int)(i / n), (size_t)v->me * n + i % n));
}

/* Rank a sends (a + b) * n / 4 elements to rank b. */
static void all_to_all_uneven(const struct view *v, size_t n, mst_call *call) {
    size_t to[RANKS_MAX], from[RANKS_MAX], at = 0;
    for (int r = 0; r < v->n; r++) to[r] = from[r] = (size_t)(v->me + r) * (n / 4) / 2;
    call->in_splits = to;
    call->out_splits = from;
    CHECK(mst_all_to_all_single_with(v->out, v->in, 0, MST_I32, call));
    finish(v, call);
    for (int r = 0; r < v->n; r++) {
        size_t skip = 0;
        for (int b = 0; b < v->me; b++) skip += (size_t)(r + b) * (n / 4) / 2;
        for (size_t i = 0; i < from[r]; i++)
            require(v, "uneven all_to_all", at + i, v->out[at + i], value(r, skip + i));
        at += from[r];
    }
}

static void barrier(const struct view *v, size_t n, mst_call *call) {
    (void)n;
    CHECK(mst_barrier_with(call));
    finish(v, call);
}

static void (*const operations[])(const struct view *v, size_t n, mst_call *call) = {
    barrier, all_reduce, reduce,         broadcast,  all_gather,
    gather,  scatter,    reduce_scatter, all_to_all, all_to_all_uneven,
};

static mst_call call_on(const struct view *v, mst_work **work) {
    return (mst_call){.size = sizeof(mst_call),
                      .site = MST_HERE,
                      .group = v->group,
                      .timeout_ms = TIMEOUT_MS,
                      .work = work};
}

static void all_operations(const struct view *v, bool works) {
    static const size_t counts[] = {5, 1000, LARGE};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
            mst_work *work = NULL;
            mst_call call = call_on(v, works ? &work : NULL);
            fill(v, counts[c] * (size_t)v->n);
            operations[o](v, counts[c], &call);
        }
}

/* Several works in flight, including messages; waits from the last to the first. */
static void many_works(const struct view *v) {
    static const size_t count = 3000;
    int right = (v->me + 1) % v->n, left = (v->me + v->n - 1) % v->n;
    mst_work *works[WORKS + 2];
    fill(v, count * WORKS);
    for (int w = 0; w < WORKS; w++) {
        mst_call call = call_on(v, &works[w]);
        call.in = v->in + (size_t)w * count;
        CHECK(mst_all_reduce_with(v->out + (size_t)w * count, count, MST_I32, &call));
    }
    int32_t sent[2] = {v->me, 7}, got[2] = {-1, -1};
    mst_call send = call_on(v, &works[WORKS]), receive = call_on(v, &works[WORKS + 1]);
    CHECK(mst_isend_with(sent, 2, MST_I32, right, &send));
    CHECK(mst_irecv_with(got, 2, MST_I32, left, &receive));
    for (int w = WORKS + 1; w >= 0; w--) CHECK(mst_wait(works[w]));
    for (size_t i = 0; i < count * WORKS; i++) require(v, "works", i, v->out[i], sum(v->n, i));
    require(v, "irecv", 0, got[0], left);
}

/* Blocking messages around the ring. */
static void messages(const struct view *v) {
    static const size_t counts[] = {1, 40000};
    int right = (v->me + 1) % v->n, left = (v->me + v->n - 1) % v->n;
    for (int c = 0; c < 2; c++)
        for (int step = 0; step < 2; step++) {
            mst_call call = call_on(v, NULL);
            fill(v, counts[c]);
            if ((v->me == 0) == (step == 0)) {
                CHECK(mst_send_with(v->in, counts[c], MST_I32, right, &call));
                continue;
            }
            CHECK(mst_recv_with(v->out, counts[c], MST_I32, MST_ANY_SOURCE, &call));
            for (size_t i = 0; i < counts[c]; i++) require(v, "recv", i, v->out[i], value(left, i));
        }
}

static void use(const struct view *v) {
    all_operations(v, false);
    messages(v);
    all_operations(v, true);
    many_works(v);
}

static struct view new_view(mst_group *group) {
    size_t room = (size_t)RANKS_MAX * LARGE * sizeof(int32_t);
    struct view v = {group, mst_get_rank(group), mst_get_world_size(group), malloc(room), malloc(room)};
    if (!v.in || !v.out) abort();
    return v;
}

static void free_view(const struct view *v) {
    free(v->in);
    free(v->out);
}

/* The same in memory of mst_alloc, which the other ranks read in place. */
static void use_shared(const struct view *v) {
    size_t room = (size_t)RANKS_MAX * LARGE * sizeof(int32_t);
    void *in, *out;
    CHECK(mst_alloc(room, &in, .group = v->group));
    CHECK(mst_alloc(room, &out, .group = v->group));
    use(&(struct view){v->group, v->me, v->n, in, out});
    mst_free(in);
    mst_free(out);
}

static void *help(void *group) {
    struct view v = new_view(group);
    use(&v);
    use_shared(&v);
    free_view(&v);
    return NULL;
}

/* Two threads use different groups of the same ranks at the same time. */
static void use_groups(const struct view *v, const struct rank_thread *self) {
    pthread_t threads[HELPERS];
    mst_group *groups[HELPERS];
    int ranks[RANKS_MAX];
    for (int r = 0; r < self->size; r++) ranks[r] = r;
    for (int h = 0; h < HELPERS; h++)
        CHECK(mst_new_group(ranks, self->size, &groups[h], .world = v->group, .timeout_ms = TIMEOUT_MS));
    for (int h = 0; h < HELPERS; h++)
        if (pthread_create(&threads[h], NULL, help, groups[h])) abort();
    use(v);
    for (int h = 0; h < HELPERS; h++) pthread_join(threads[h], NULL);
    for (int h = 0; h < HELPERS; h++) CHECK(mst_destroy_process_group(groups[h]));
}

static void *run(void *context) {
    struct rank_thread *self = context;
    mst_group *world;
    mst_init_options options = {.size = sizeof options,
                                .store = self->store,
                                .rank = self->rank,
                                .world_size = self->size,
                                .timeout_ms = TIMEOUT_MS};
    struct view init = {.me = self->rank}, *v = &init;
    CHECK(mst_world_open(&options, &world));
    struct view all = new_view(world);
    v = &all;
    use(v);
    for (int round = 0; round < self->rounds; round++) use_groups(v, self);
    CHECK(mst_destroy_process_group(world));
    free_view(&all);
    return NULL;
}

int main(int argc, char **argv) {
    struct rank_thread rank_threads[RANKS_MAX];
    mst_store *store;
    int ranks = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 1;
    if (ranks < 2 || ranks > RANKS_MAX || mst_store_open("hash://", &store)) return 2;
    for (int r = 0; r < ranks; r++) {
        rank_threads[r] = (struct rank_thread){.store = store, .rank = r, .size = ranks, .rounds = rounds};
        if (pthread_create(&rank_threads[r].thread, NULL, run, &rank_threads[r])) abort();
    }
    for (int r = 0; r < ranks; r++) pthread_join(rank_threads[r].thread, NULL);
    mst_store_free(store);
    puts("done");
    return 0;
}
