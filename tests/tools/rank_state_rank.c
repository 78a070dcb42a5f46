/*
 * rank_state_rank.c - a rank that ends in the way it is told to, for tests of what the launcher says about
 * that.
 *
 *   rank_state_rank HOW [argument]
 *
 * Where ranks are to differ, it is the last one that goes wrong.
 */
#include <muster/muster.h>

#include "base/rank_state.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int rank, size;

static void must(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s\n", mst_error());
    exit(1);
}

static bool is_last(void) {
    return rank == size - 1;
}

static void begin(void) {
    must(mst_init());
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    for (int i = 0; i < 3; i++) must(mst_barrier());
}

_Noreturn static void wait_to_be_ended(void) {
    for (;;) pause();
}

static void abort_now(int signal) {
    (void)signal;
    abort();
}

static void kill_now(int signal) {
    (void)signal;
    raise(SIGKILL);
}

/* The last rank waits for the others in an all_reduce, and dies there. */
static void step(void (*die)(int)) {
    float grad[16] = {0};
    begin();
    if (!is_last()) wait_to_be_ended();
    signal(SIGALRM, die);
    alarm(1);
    must(mst_all_reduce(grad, 16, MST_F32));
}

static void step_on_bad_memory(void) {
    static double good[512];
    signal(SIGSEGV, SIG_DFL); /* no sanitizer has a say */
    begin();
    must(mst_all_reduce(is_last() ? (double *)(uintptr_t)16 : good, 512, MST_F64));
    wait_to_be_ended();
}

static void step_outside(void) {
    begin();
    if (!is_last()) wait_to_be_ended();
    raise(SIGKILL);
}

static void step_wait(void) {
    float grad[16] = {0};
    mst_work *work;
    begin();
    if (!is_last()) wait_to_be_ended();
    signal(SIGALRM, abort_now);
    alarm(1);
    must(mst_all_reduce(grad, 16, MST_F32, .work = &work));
    must(mst_wait(work));
}

static void step_wrong(void) {
    int value = 0;
    begin();
    if (!is_last()) wait_to_be_ended();
    mst_all_reduce(&value, 1, (mst_dtype)99);
    exit(1);
}

/* A child is no rank: what goes wrong there is not the rank's error. */
static void step_forked(void) {
    begin();
    if (!is_last()) wait_to_be_ended();
    pid_t child = fork();
    if (child == 0) {
        mst_barrier();
        _exit(0);
    }
    struct pollfd gone = {(int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
    poll(&gone, 1, -1);
    exit(1);
}

static int watch(int other) {
    mst_rank_info info;
    must(mst_get_rank_info(NULL, other, &info));
    return (int)syscall(SYS_pidfd_open, info.pid, 0);
}

/* The last rank leaves, rank 0 cannot go on and fails, and then the last one fails, too. */
static void blame(bool destroys) {
    begin();
    if (is_last()) {
        struct pollfd gone = {watch(0), POLLIN, 0};
        mst_destroy_process_group(NULL);
        poll(&gone, 1, -1);
        exit(3);
    }
    if (rank != 0) wait_to_be_ended();
    mst_status st = mst_barrier();
    if (st != MST_OK && destroys) mst_destroy_process_group(NULL);
    exit(st == MST_OK ? 9 : 1);
}

/* Where it is decided before mst_init. */
static bool is_last_by_environment(void) {
    return atoi(getenv("RANK")) == atoi(getenv("WORLD_SIZE")) - 1;
}

/* Opens the world once a line can be read from path. */
static void come_late(const char *path) {
    char line[16];
    FILE *gate = is_last_by_environment() ? fopen(path, "re") : NULL;
    if (gate && !fgets(line, sizeof line, gate)) exit(4);
    if (gate) fclose(gate);
    begin();
    must(mst_destroy_process_group(NULL));
}

/* A world of the program's own, which the last rank has no part in; the first but one takes its time. */
static void open_smaller(const char *method) {
    mst_group *world;
    int others = atoi(getenv("WORLD_SIZE")) - 1;
    if (is_last_by_environment()) exit(0);
    rank = atoi(getenv("RANK"));
    if (rank == 1) sleep(2);
    mst_init_options options = {
        .size = sizeof options, .init_method = method, .rank = rank, .world_size = others};
    must(mst_world_open(&options, &world));
    must(mst_barrier(.group = world));
    must(mst_destroy_process_group(world));
}

static unsigned char *map_rank_states(int *fd, size_t *bytes) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(getenv("MUSTER_RANK_STATE"), ":"),
             getenv("MUSTER_RANK_STATE"));
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &st) != 0) exit(5);
    *bytes = (size_t)st.st_size;
    return mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
}

/* Overwrites all states, but for what they begin with; with odd seeds so that texts are looked at. */
static void scribble(unsigned seed) {
    int fd;
    size_t bytes;
    begin();
    if (!is_last()) wait_to_be_ended();
    unsigned char *all = map_rank_states(&fd, &bytes);
    srand(seed);
    for (size_t i = 0; i < bytes; i++)
        if (i % MSI_RANK_STATE_SLOT >= 8) all[i] = seed == 0 ? 0xff : (unsigned char)rand();
    struct msi_rank_state *own = (struct msi_rank_state *)(void *)(all + (size_t)rank * MSI_RANK_STATE_SLOT);
    if (seed % 2 != 0) { /* what is read, is read to its last byte */
        atomic_store(&own->line_site, (uint64_t)(seed % MSI_RANK_STATE_SITES) << 32);
        atomic_store(&own->status, 1 + seed % 20);
        memset(own->message, 1 + (int)seed, sizeof own->message);
        memset(own->sites, 0x1b, sizeof own->sites);
    }
    printf("%d %d\n", ftruncate(fd, 0), ftruncate(fd, (off_t)bytes * 2));
    fflush(stdout);
    _exit(1);
}

static void *call_often(void *group) {
    for (int i = 0; i < 2000; i++) {
        must(mst_barrier(.group = group));
        mst_get_group_rank(group, 77); /* an error */
    }
    return NULL;
}

/* Threads that all write on one rank_state. */
static void call_in_threads(void) {
    enum { N = 4 };
    pthread_t threads[N];
    begin();
    for (int i = 0; i < N; i++) {
        mst_group *group;
        int all[64];
        for (int r = 0; r < size; r++) all[r] = r;
        must(mst_new_group(all, size, &group));
        if (pthread_create(&threads[i], NULL, call_often, group)) abort();
    }
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    if (is_last()) exit(1);
    wait_to_be_ended();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";
    signal(SIGTERM, SIG_DFL);
    if (!strcmp(how, "abort")) step(abort_now);
    if (!strcmp(how, "kill")) step(kill_now);
    if (!strcmp(how, "segv")) step_on_bad_memory();
    if (!strcmp(how, "outside")) step_outside();
    if (!strcmp(how, "wait")) step_wait();
    if (!strcmp(how, "wrong")) step_wrong();
    if (!strcmp(how, "forked")) step_forked();
    if (!strcmp(how, "blame")) blame(false);
    if (!strcmp(how, "blame-and-leave")) blame(true);
    if (!strcmp(how, "late")) come_late(argument);
    if (!strcmp(how, "smaller")) open_smaller(argument);
    if (!strcmp(how, "scribble")) scribble((unsigned)atoi(argument));
    if (!strcmp(how, "threads")) call_in_threads();
    if (!strcmp(how, "absent") && is_last_by_environment()) return 0;
    if (!strcmp(how, "absent")) begin();
    return 0;
}
