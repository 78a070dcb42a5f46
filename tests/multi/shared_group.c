/*
 * shared_group.c - several threads of each rank use one group.
 *
 *   shared_group messages|mixed|groups|conflict THREADS ROUNDS
 *
 * messages   thread t of each rank exchanges messages with thread t of every other rank, by tag
 * mixed      the same, while one more thread makes collectives on the same group
 * groups     each thread makes collectives on a group of its own
 * conflict   a second thread enters a collective while the first one is in a collective: MST_ERR_STATE
 *
 * Prints "done" on each rank.
 */
#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 64, LARGEST = 1 << 18, TIMEOUT_MS = 120000 };

static int rank, size, threads, rounds;

static void check_at(int line, mst_status st) {
    if (st == MST_OK) return;
    fprintf(stderr, "shared_group.c:%d: rank %d: %s: %s\n", line, rank, mst_status_name(st), mst_error());
    _exit(1);
}
#define CHECK(call) check_at(__LINE__, call)

static void require_at(int line, int condition) {
    if (condition) return;
    fprintf(stderr, "shared_group.c:%d: rank %d: a wrong value\n", line, rank);
    _exit(1);
}
#define REQUIRE(condition) require_at(__LINE__, condition)

static uint32_t value(int from, int tag, int round, size_t i) {
    return (uint32_t)(from * 1000003 + tag * 10007 + round * 101) + (uint32_t)i;
}

static void fill(uint32_t *data, size_t n, int from, int tag, int round) {
    for (size_t i = 0; i < n; i++) data[i] = value(from, tag, round, i);
}

static void verify(const uint32_t *data, size_t n, int from, int tag, int round) {
    for (size_t i = 0; i < n; i++) REQUIRE(data[i] == value(from, tag, round, i));
}

/* A few elements, more than fit into a link at once, and rarely many; the same on sender and receiver. */
static size_t count_of(int tag, int round) {
    static const size_t counts[] = {1, 3, 100, 5000, 1, 40000, 7, LARGEST};
    return counts[(unsigned)(tag + round) % (round % 8 ? 5 : 8)];
}

/* One round with the ranks at a distance: sends and receives block, or are works. */
static void exchange(int tag, int round, int distance, uint32_t *out, uint32_t *in) {
    int to = (rank + distance) % size, from = (rank + size - distance) % size;
    size_t n = count_of(tag, round);
    fill(out, n, rank, tag, round);
    if (round % 3 == 0) {
        mst_work *works[2];
        CHECK(mst_irecv(in, n, MST_U32, from, .tag = tag, .work = &works[0], .timeout_ms = TIMEOUT_MS));
        CHECK(mst_isend(out, n, MST_U32, to, .tag = tag, .work = &works[1], .timeout_ms = TIMEOUT_MS));
        for (int i = 0; i < 2; i++) CHECK(mst_wait(works[i]));
    } else if (rank < to) {
        CHECK(mst_send(out, n, MST_U32, to, .tag = tag, .timeout_ms = TIMEOUT_MS));
        CHECK(mst_recv(in, n, MST_U32, from, .tag = tag, .timeout_ms = TIMEOUT_MS));
    } else {
        CHECK(mst_recv(in, n, MST_U32, from, .tag = tag, .timeout_ms = TIMEOUT_MS));
        CHECK(mst_send(out, n, MST_U32, to, .tag = tag, .timeout_ms = TIMEOUT_MS));
    }
    verify(in, n, from, tag, round);
}

static void *run_messages(void *context) {
    int tag = (int)(intptr_t)context;
    uint32_t *out = malloc(2 * LARGEST * sizeof *out), *in = out + LARGEST;
    REQUIRE(out != NULL);
    for (int round = 0; round < rounds; round++)
        for (int distance = 1; distance < size; distance++) exchange(tag, round, distance, out, in);
    free(out);
    return NULL;
}

static void run_collectives(mst_group *group, int members, int salt) {
    static const size_t counts[] = {1, 64, 3000, 70000};
    int64_t *data = malloc(counts[3] * sizeof *data);
    REQUIRE(data != NULL);
    for (int round = 0; round < rounds; round++) {
        size_t n = counts[round % 4];
        for (size_t i = 0; i < n; i++) data[i] = (int64_t)i + salt + round + rank;
        CHECK(mst_all_reduce(data, n, MST_I64, .group = group, .timeout_ms = TIMEOUT_MS));
        int64_t ranks = (int64_t)members * (members - 1) / 2;
        for (size_t i = 0; i < n; i++) REQUIRE(data[i] == members * ((int64_t)i + salt + round) + ranks);
        CHECK(mst_barrier(.group = group, .timeout_ms = TIMEOUT_MS));
    }
    free(data);
}

static mst_group *own_groups[THREADS_MAX];

static void *run_own_group(void *context) {
    int i = (int)(intptr_t)context;
    run_collectives(own_groups[i], size, i);
    return NULL;
}

static void start(pthread_t *started, int n, void *(*run)(void *)) {
    for (int i = 0; i < n; i++) REQUIRE(!pthread_create(&started[i], NULL, run, (void *)(intptr_t)i));
}

static void join(const pthread_t *started, int n) {
    for (int i = 0; i < n; i++) pthread_join(started[i], NULL);
}

static void use_groups(void) {
    pthread_t started[THREADS_MAX];
    int *all = malloc((size_t)size * sizeof *all);
    REQUIRE(all != NULL);
    for (int r = 0; r < size; r++) all[r] = r;
    for (int i = 0; i < threads; i++) CHECK(mst_new_group(all, size, &own_groups[i]));
    start(started, threads, run_own_group);
    join(started, threads);
    free(all);
}

/*
 * Two threads of rank 0 enter a barrier. One waits in it for the other ranks, which wait for the thread that
 * is rejected.
 */
static atomic_int rejected;

static void let_others_come(void) {
    int word = 1;
    REQUIRE(strstr(mst_error(), "enter_first") && strstr(mst_error(), "enter_second"));
    atomic_fetch_add_explicit(&rejected, 1, memory_order_relaxed);
    for (int r = 1; r < size; r++) CHECK(mst_send(&word, 1, MST_I32, r, .timeout_ms = TIMEOUT_MS));
}

static void *enter_first(void *context) {
    (void)context;
    mst_status st = mst_barrier(.timeout_ms = TIMEOUT_MS);
    if (st == MST_ERR_STATE)
        let_others_come();
    else
        CHECK(st);
    return NULL;
}

static void enter_second(void) {
    mst_status st = mst_barrier(.timeout_ms = TIMEOUT_MS);
    if (st == MST_ERR_STATE)
        let_others_come();
    else
        CHECK(st);
}

static void conflict_on_rank_0(void) {
    pthread_t first;
    REQUIRE(!pthread_create(&first, NULL, enter_first, NULL));
    enter_second();
    pthread_join(first, NULL);
    REQUIRE(atomic_load_explicit(&rejected, memory_order_relaxed) == 1);
}

static void conflict(void) {
    int word = 0;
    if (rank == 0) {
        conflict_on_rank_0();
    } else {
        CHECK(mst_recv(&word, 1, MST_I32, 0, .timeout_ms = TIMEOUT_MS));
        CHECK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    }
    word = 1;
    CHECK(mst_all_reduce(&word, 1, MST_I32, .timeout_ms = TIMEOUT_MS));
    REQUIRE(word == size);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    pthread_t started[THREADS_MAX];
    threads = atoi(argv[2]);
    rounds = atoi(argv[3]);
    if (threads > THREADS_MAX) return 2;
    CHECK(mst_init(.timeout_ms = TIMEOUT_MS));
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (!strcmp(argv[1], "groups")) {
        use_groups();
    } else if (!strcmp(argv[1], "conflict")) {
        conflict();
    } else {
        start(started, threads, run_messages);
        if (!strcmp(argv[1], "mixed")) run_collectives(NULL, size, 7);
        join(started, threads);
    }
    CHECK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    CHECK(mst_destroy_process_group(NULL));
    printf("done\n");
    return 0;
}
