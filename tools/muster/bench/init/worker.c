/*
 * worker.c - what muster's own ranks run in "muster bench init": a rank that is a process, or a
 * process whose threads are the ranks. Each joins the world, passes one barrier and leaves.
 */
#include "bench/init/init.h"
#include "cli/options.h"
#include "commands.h"
#include "os/clock.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS_MOST = 16384, STACK_BYTES = 256 * 1024, FILES_PER_THREAD = 12, FILES_BESIDES = 64 };

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, mst_error());
    return EXIT_FAILED;
}

static int add_marks(const char *path, const char *text, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, text, len) == (ssize_t)len;

    if (fd >= 0) close(fd);
    if (!written) fprintf(stderr, "cannot write to %s\n", path);
    return written ? EXIT_DONE : EXIT_FAILED;
}

static int run_rank(const char *marks, int64_t start) {
    char line[64];

    if (mst_init() != MST_OK) return fail("mst_init");
    if (mst_barrier() != MST_OK) return fail("mst_barrier");
    int len = snprintf(line, sizeof line, "%lld %lld\n", (long long)start, (long long)msi_now());
    int status = add_marks(marks, line, (size_t)len);
    mst_destroy_process_group(NULL);
    return status;
}

struct thread_rank {
    pthread_t thread;
    int rank, size;
    mst_store *store; /* NULL: the environment says where to meet */
    int64_t start, end;
    bool failed;
};

static void *run_thread_rank(void *arg) {
    struct thread_rank *me = arg;
    mst_group *world;
    mst_init_options options = {
        .size = sizeof options, .rank = me->rank, .world_size = me->size, .store = me->store};

    me->start = msi_now();
    me->failed = true;
    if (mst_world_open(&options, &world) != MST_OK) {
        fail("mst_world_open");
        return NULL;
    }
    if (mst_barrier(.group = world) == MST_OK) {
        me->end = msi_now();
        me->failed = false;
    } else {
        fail("mst_barrier");
    }
    mst_destroy_process_group(world);
    return NULL;
}

/* Starts all and waits for all. */
static int run_thread_ranks(struct thread_rank *ranks, int n, mst_store *store) {
    pthread_attr_t attributes;
    int started = 0, status = EXIT_DONE;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; started < n && status == EXIT_DONE; started++) {
        ranks[started] = (struct thread_rank){.rank = started, .size = n, .store = store};
        int error = pthread_create(&ranks[started].thread, &attributes, run_thread_rank, &ranks[started]);
        if (error == 0) continue;
        fprintf(stderr, "cannot start thread %d of %d: %s\n", started, n, strerror(error));
        _exit(EXIT_FAILED); /* the threads there are would wait for the others until the deadline */
    }
    for (int i = 0; i < started; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].failed) status = EXIT_FAILED;
    }
    pthread_attr_destroy(&attributes);
    return status;
}

static int report_threads(const char *marks, const struct thread_rank *ranks, int n) {
    enum { LINE_MOST = 48 };
    char *text = malloc((size_t)n * LINE_MOST);
    size_t len = 0;

    if (text == NULL) return EXIT_FAILED;
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, LINE_MOST, "%lld %lld\n", (long long)ranks[i].start,
                                (long long)ranks[i].end);
    int status = add_marks(marks, text, len);
    free(text);
    return status;
}

static int raise_file_limit(int n) {
    struct rlimit limit;
    rlim_t need = (rlim_t)n * FILES_PER_THREAD + FILES_BESIDES;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) return EXIT_DONE;
    if (limit.rlim_max < need) {
        fprintf(stderr, "%d thread-ranks need %llu open files, and the limit is %llu (ulimit -Hn)\n", n,
                (unsigned long long)need, (unsigned long long)limit.rlim_max);
        return EXIT_FAILED;
    }
    limit.rlim_cur = need;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* As a launcher does for processes: hosts the store and says where it is. */
static void announce(const mst_store *store) {
    char port[16];

    snprintf(port, sizeof port, "%d", mst_store_port(store));
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
}

static int run_threads(const char *marks, int n, bool tcp) {
    mst_store *store;
    struct thread_rank *ranks = calloc((size_t)n, sizeof *ranks);

    if (ranks == NULL || raise_file_limit(n) != EXIT_DONE) {
        free(ranks);
        return EXIT_FAILED;
    }
    if (mst_store_open(tcp ? "tcp://127.0.0.1:0" : "hash://", &store, .is_master = tcp) != MST_OK) {
        free(ranks);
        return fail("mst_store_open");
    }
    if (tcp) announce(store);
    int status = run_thread_ranks(ranks, n, tcp ? NULL : store);
    if (status == EXIT_DONE) status = report_threads(marks, ranks, n);
    mst_store_free(store);
    free(ranks);
    return status;
}

int init_worker(int argc, char **argv) {
    int64_t start = msi_now();
    long long n;

    if (argc == 3) return run_rank(argv[2], start);
    if (argc != 5 || !opt_read_number(argv[3], 1, THREADS_MOST, &n)) return EXIT_USAGE;
    return run_threads(argv[2], (int)n, strcmp(argv[4], "tcp") == 0);
}
