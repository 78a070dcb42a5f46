/*
 * thread_fds.c - how many descriptors ranks that are threads use, and how they fail without descriptors.
 *
 *   thread_fds METHOD WORLD_SIZE [FIRST COUNT]
 *
 * This process runs COUNT ranks from FIRST on, by default all of them. METHOD is "hash" or an init method.
 * Every rank opens the world, waits asleep in a barrier, reduces, and exchanges messages with its neighbours;
 * then the process prints "descriptors N" with the number that it has opened, a line for each kind of them on
 * stderr, and "done". A rank that fails prints "rank R: STATUS: message" instead; the others go on. Exits
 * with 0 if no rank failed, and 3 if descriptors are left at the end.
 */
#include <dirent.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 50000,
    KINDS = 32,
    ROUNDS = 16,
    MANY = 256,
    ROUNDS_OF_MANY = 2,
    LATE_MS = 15,
    LARGE = 5000
};

static const char *method;
static mst_store *store;
static int size, first, count;
static atomic_int failed;

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The target of a descriptor without its number, as "pipe" or "memfd". */
static void kind_of(const char *fd, char *kind, size_t room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%.20s", fd);
    ssize_t n = readlink(path, kind, room - 1);
    kind[n < 0 ? 0 : n] = 0;
    char *number = strstr(kind, ":[");
    if (number) *number = 0;
}

/* The number of descriptors; with a listing, by kind, if show. */
static int count_descriptors(bool show) {
    char kinds[KINDS][128];
    int counts[KINDS] = {0}, n = 0, all = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) return -1;
    for (struct dirent *at; (at = readdir(dir));) {
        char kind[128];
        int k = 0;
        if (at->d_name[0] == '.' || atoi(at->d_name) == dirfd(dir)) continue;
        all++;
        kind_of(at->d_name, kind, sizeof kind);
        while (k < n && strcmp(kinds[k], kind) != 0) k++;
        if (k == n && n < KINDS) strcpy(kinds[n++], kind);
        if (k < n) counts[k]++;
    }
    closedir(dir);
    for (int k = 0; show && k < n; k++) fprintf(stderr, "%6d %s\n", counts[k], kinds[k]);
    return all;
}

static mst_status use(mst_group *world, int rank) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size, sent = rank, got = -1;
    static const int counts[2] = {1, LARGE};
    int *values = calloc(LARGE, sizeof *values);
    if (!values) abort();
    mst_status st = MST_OK;
    for (int i = 0; i < (size > MANY ? ROUNDS_OF_MANY : ROUNDS) && st == MST_OK; i++) {
        if (rank == i) pause_ms(LATE_MS); /* the others fall asleep and must be woken */
        st = mst_barrier(.group = world, .timeout_ms = TIMEOUT_MS);
        if (st == MST_OK)
            st = mst_all_reduce(values, counts[i % 2], MST_I32, .group = world, .timeout_ms = TIMEOUT_MS);
    }
    if (st == MST_OK)
        st = mst_send_recv(&got, 1, left, &sent, 1, right, MST_I32, .group = world, .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK && got != left) abort();
    if (st == MST_OK) st = mst_barrier(.group = world, .timeout_ms = TIMEOUT_MS);
    free(values);
    return st;
}

static void *run(void *argument) {
    int rank = (int)(intptr_t)argument;
    mst_group *world = NULL;
    mst_init_options options = {.size = sizeof options,
                                .init_method = store ? NULL : method,
                                .store = store,
                                .rank = rank,
                                .world_size = size,
                                .timeout_ms = TIMEOUT_MS};
    mst_status st = mst_world_open(&options, &world);
    if (st == MST_OK) st = use(world, rank);
    if (st != MST_OK) {
        char line[1200];
        int n = snprintf(line, sizeof line, "rank %d: %s: %s\n", rank, mst_status_name(st), mst_error());
        fwrite(line, 1, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1, stdout);
        atomic_fetch_add(&failed, 1);
    } else {
        if (rank == first) printf("descriptors %d\n", count_descriptors(true));
        st = mst_barrier(.group = world, .timeout_ms = TIMEOUT_MS);
    }
    if (world) mst_destroy_process_group(world);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    method = argv[1];
    size = atoi(argv[2]);
    first = argc > 4 ? atoi(argv[3]) : 0;
    count = argc > 4 ? atoi(argv[4]) : size;
    int before = count_descriptors(false);
    if (!strcmp(method, "hash") && mst_store_open("hash://", &store) != MST_OK) return 1;
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    if (!threads) return 1;
    for (int r = 0; r < count; r++)
        if (pthread_create(&threads[r], NULL, run, (void *)(intptr_t)(first + r))) abort();
    for (int r = 0; r < count; r++) pthread_join(threads[r], NULL);
    free(threads);
    mst_store_free(store);
    if (atomic_load(&failed)) return 1;
    if (before >= 0 && count_descriptors(true) != before) return 3;
    puts("done");
    return 0;
}
