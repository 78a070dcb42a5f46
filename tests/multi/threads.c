/*
 * threads.c - ranks that are threads: every thread opens its own world, all in one process.
 *
 *   threads RANKS BARRIERS hash|tcp://host:port|file:///path [WORLDS]
 *
 * With WORLDS above 1 there are so many worlds of RANKS threads at the same time, each with its own store;
 * this needs hash://. Exits with 0 on success.
 */
#include <assert.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct world {
    int ranks, barriers;
    const char *method; /* NULL: use store */
    mst_store *store;
    atomic_int *arrived; /* for each barrier: the number of threads that have called it */
};

struct rank_thread {
    pthread_t thread;
    struct world *world;
    int rank;
};

static void check(const struct rank_thread *self, mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "thread %d: %s: %s: %s\n", self->rank, what, mst_status_name(status), mst_error());
    _exit(1);
}

#define CHECK(call) check(self, call, #call)

static void check_topology(const struct rank_thread *self, mst_group *world) {
    assert(mst_get_rank(world) == self->rank && mst_get_world_size(world) == self->world->ranks);
    assert(mst_get_host_count(world) == 1);
    assert(mst_get_local_rank(world) == self->rank && mst_get_local_size(world) == self->world->ranks);
    for (int r = 0; r < self->world->ranks; r++) {
        mst_rank_info at;
        CHECK(mst_get_rank_info(world, r, &at));
        assert(at.rank == r && at.local_rank == r && at.host == 0 && at.pid == (int)getpid());
    }
}

/* No thread may leave a barrier before all have entered it. */
static void run_barriers(const struct rank_thread *self, mst_group *world) {
    for (int b = 0; b < self->world->barriers; b++) {
        atomic_fetch_add_explicit(&self->world->arrived[b], 1, memory_order_relaxed);
        CHECK(mst_barrier(.group = world, .timeout_ms = 120000));
        assert(atomic_load_explicit(&self->world->arrived[b], memory_order_relaxed) == self->world->ranks);
    }
}

/* Groups of neighbours: 0-1, 2-3, ... and 1-2, 3-4, ... */
static void use_neighbour_groups(const struct rank_thread *self, mst_group *world) {
    for (int shift = 0; shift < 2; shift++) {
        int first = self->rank - (self->rank + shift) % 2;
        if (first < 0 || first + 1 >= self->world->ranks) continue;
        mst_group *pair;
        CHECK(mst_new_group(((int[]){first, first + 1}), 2, &pair, .world = world, .timeout_ms = 120000));
        assert(mst_get_rank(pair) == self->rank - first);
        for (int i = 0; i < 3; i++) CHECK(mst_barrier(.group = pair));
        CHECK(mst_destroy_process_group(pair));
    }
}

static void *run(void *context) {
    struct rank_thread *self = context;
    mst_group *world;
    mst_init_options options = {
        .size = sizeof options,
        .init_method = self->world->method,
        .store = self->world->store,
        .rank = self->rank,
        .world_size = self->world->ranks,
        .timeout_ms = 120000,
    };
    for (int round = 0; round < 2; round++) {
        CHECK(mst_world_open(&options, &world));
        assert(!mst_is_initialized()); /* these worlds are not the default world */
        check_topology(self, world);
        if (round == 0) run_barriers(self, world);
        use_neighbour_groups(self, world);
        CHECK(mst_destroy_process_group(world));
        if (!self->world->store) break;
    }
    return NULL;
}

static void start(struct world *world, struct rank_thread *rank_threads) {
    for (int r = 0; r < world->ranks; r++) {
        rank_threads[r] = (struct rank_thread){.world = world, .rank = r};
        if (pthread_create(&rank_threads[r].thread, NULL, run, &rank_threads[r])) abort();
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int ranks = atoi(argv[1]), barriers = atoi(argv[2]), worlds = argc > 4 ? atoi(argv[4]) : 1;
    struct world *made = calloc((size_t)worlds, sizeof *made);
    struct rank_thread *rank_threads = calloc((size_t)worlds * (size_t)ranks, sizeof *rank_threads);
    assert(made && rank_threads);
    for (int w = 0; w < worlds; w++) {
        made[w] = (struct world){.ranks = ranks, .barriers = barriers};
        made[w].arrived = calloc((size_t)barriers, sizeof *made[w].arrived);
        if (strcmp(argv[3], "hash"))
            made[w].method = argv[3];
        else if (mst_store_open("hash://", &made[w].store))
            return 1;
        start(&made[w], rank_threads + (size_t)w * (size_t)ranks);
    }
    for (int i = 0; i < worlds * ranks; i++) pthread_join(rank_threads[i].thread, NULL);
    for (int w = 0; w < worlds; w++) {
        mst_store_free(made[w].store);
        free(made[w].arrived);
    }
    free(made);
    free(rank_threads);
    puts("done");
    return 0;
}
