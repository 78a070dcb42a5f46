/*
 * worker.c - the program of muster's own ranks in "muster bench init": one rank as a process, or a process
 * whose threads are the ranks. Each joins the world, passes one barrier and leaves.
 */
#include "bench/init/init.h"
#include "cli/options.h"
#include "commands.h"
#include "os/clock.h"

#include "base/buf.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MOST = 16384, STACK_BYTES = 256 * 1024, FILES_PER_THREAD = 12, FILES_BESIDES = 64 };

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, mst_error());
    return EXIT_FAILED;
}

struct rank {
    pthread_t thread;
    mst_init_options options;
    int64_t start, end; /* start is 0: at the start of the thread */
    bool failed;
};

static void *run_rank(void *arg) {
    struct rank *me = arg;
    mst_group *world;
    if (me->start == 0) me->start = msi_now();
    me->failed = true;
    if (mst_world_open(&me->options, &world) != MST_OK) {
        fail("mst_world_open");
        return NULL;
    }
    me->failed = mst_barrier(.group = world) != MST_OK;
    me->end = msi_now();
    if (me->failed) fail("mst_barrier");
    mst_destroy_process_group(world);
    return NULL;
}

static int append_timestamps(const char *path, const struct rank *ranks, int n) {
    struct msi_buf lines = {0};
    for (int i = 0; i < n; i++)
        msi_buf_add_format(&lines, "%lld %lld\n", (long long)ranks[i].start, (long long)ranks[i].end);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool written = !lines.failed && fd >= 0 && write(fd, lines.data, lines.len) == (ssize_t)lines.len;
    if (fd >= 0) close(fd);
    if (!written) fprintf(stderr, "cannot write to %s\n", path);
    msi_buf_free(&lines);
    return written ? EXIT_DONE : EXIT_FAILED;
}

/* Starts all threads and waits for them. */
static int run_thread_ranks(struct rank *ranks, int n, mst_store *store) {
    pthread_attr_t attributes;
    int status = EXIT_DONE;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < n; i++) {
        ranks[i].options =
            (mst_init_options){.size = sizeof ranks[i].options, .rank = i, .world_size = n, .store = store};
        int error = pthread_create(&ranks[i].thread, &attributes, run_rank, &ranks[i]);
        if (error == 0) continue;
        fprintf(stderr, "cannot start thread %d of %d: %s\n", i, n, strerror(error));
        _exit(EXIT_FAILED); /* the started threads would wait for the others until their timeout */
    }
    for (int i = 0; i < n; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].failed) status = EXIT_FAILED;
    }
    pthread_attr_destroy(&attributes);
    return status;
}

/* Sets the variables that a launcher sets for its ranks. */
static void set_environment(const mst_store *store) {
    char port[16];
    snprintf(port, sizeof port, "%d", mst_store_port(store));
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
}

static int run_threads(const char *timestamps, int n, bool tcp) {
    mst_store *store;
    size_t files = (size_t)n * FILES_PER_THREAD + FILES_BESIDES;
    if (!bench_raise_file_limit(files)) {
        fprintf(stderr, "%d thread-ranks need %zu open files; raise the limit (ulimit -Hn)\n", n, files);
        return EXIT_FAILED;
    }
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    if (!ranks) return EXIT_FAILED;
    if (mst_store_open(tcp ? "tcp://127.0.0.1:0" : "hash://", &store, .is_master = tcp) != MST_OK) {
        free(ranks);
        return fail("mst_store_open");
    }
    if (tcp) set_environment(store);
    int status = run_thread_ranks(ranks, n, tcp ? NULL : store);
    if (status == EXIT_DONE) status = append_timestamps(timestamps, ranks, n);
    mst_store_free(store);
    free(ranks);
    return status;
}

int init_worker(int argc, char **argv) {
    struct rank alone = {.options.size = sizeof alone.options, .start = msi_now()};
    long long n;
    if (argc == 3) {
        run_rank(&alone);
        return alone.failed ? EXIT_FAILED : append_timestamps(argv[2], &alone, 1);
    }
    if (argc != 5 || !opt_read_number(argv[3], 1, THREADS_MOST, &n)) return EXIT_USAGE;
    return run_threads(argv[2], (int)n, strcmp(argv[4], "tcp") == 0);
}
