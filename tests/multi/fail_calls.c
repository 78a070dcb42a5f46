/*
 * fail_calls.c - fails the 1st, 2nd, ... allocation or system call of a rank, and looks how the rank fails.
 *
 *   fail_calls init|use ARMED hash|tcp://127.0.0.1:PORT [FIRST LAST]
 *
 * Two ranks, which are threads, open a world, use it and leave. In round N the N-th intercepted call that the
 * thread of rank ARMED makes fails: with init, of those in mst_world_open; with use, of those in the first
 * call of each operation. In each round both ranks must end, a failed rank must have a message, and no
 * descriptor may be left. Rounds go on until the thread makes fewer than N calls. Prints "calls N, failed F,
 * tolerated T". With FIRST and LAST it also prints each round. Exits with 0 on success, with 1 after the
 * first bad round, whose number and call it prints, and with 77 where calls cannot be intercepted: with
 * sanitizers, and without glibc.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <muster/muster.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 2, FIRST_TIMEOUT_MS = 20000, LATER_TIMEOUT_MS = 200, ROUND_S = 20, LARGE = 70000 };

static _Thread_local bool armed;
static _Thread_local int calls; /* intercepted in this round */
static atomic_int round_number;
static const char *_Atomic failed_call; /* in this round */

/* Shall this call fail? */
__attribute__((unused)) static bool fails(const char *name, int error) {
    if (!armed || ++calls != round_number) return false;
    failed_call = name;
    errno = error;
    return true;
}

/* Defines a function of libc that fails in its round. */
#define INTERCEPT(type, bad, error, name, parameters, arguments)                                             \
    type name parameters {                                                                                   \
        static type(*next) parameters;                                                                       \
        if (!next) *(void **)(void *)&next = dlsym(RTLD_NEXT, #name);                                        \
        return fails(#name, error) ? bad : next arguments;                                                   \
    }

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__GLIBC__) && !defined(SANITIZED) && !defined(__SANITIZE_ADDRESS__) &&                           \
    !defined(__SANITIZE_THREAD__)
enum { INTERCEPTS = 1 };
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t n, size_t size),
    *__libc_realloc(void *old, size_t size), *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    return fails("malloc", ENOMEM) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    return fails("calloc", ENOMEM) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
    return fails("realloc", ENOMEM) ? NULL : __libc_realloc(old, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    return fails("aligned_alloc", ENOMEM) ? NULL : __libc_memalign(alignment, size);
}
INTERCEPT(void *, MAP_FAILED, ENOMEM, mmap,
          (void *at, size_t size, int protection, int flags, int fd, off_t offset),
          (at, size, protection, flags, fd, offset))
INTERCEPT(int, -1, EMFILE, socket, (int family, int type, int protocol), (family, type, protocol))
INTERCEPT(int, -1, EMFILE, memfd_create, (const char *name, unsigned flags), (name, flags))
INTERCEPT(int, -1, EMFILE, eventfd, (unsigned value, int flags), (value, flags))
INTERCEPT(int, -1, EMFILE, epoll_create1, (int flags), (flags))
INTERCEPT(int, -1, EMFILE, pipe2, (int ends[2], int flags), (ends, flags))
INTERCEPT(DIR *, NULL, EMFILE, opendir, (const char *path), (path))
INTERCEPT(FILE *, NULL, EMFILE, fopen, (const char *path, const char *mode), (path, mode))
INTERCEPT(int, EAGAIN, EAGAIN, pthread_create,
          (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context),
          (thread, attributes, start, context))

int open(const char *path, int flags, ...) {
    static int (*next)(const char *path, int flags, ...);
    if (!next) *(void **)(void *)&next = dlsym(RTLD_NEXT, "open");
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails("open", EMFILE) ? -1 : next(path, flags, mode);
}

#else
enum { INTERCEPTS = 0 };
#endif

static const char *method;
static mst_store *store;
static int armed_rank;
static bool arm_use;
static int timeout_ms = FIRST_TIMEOUT_MS; /* in later rounds a rank may wait in vain for the failed one */

struct rank {
    int rank;
    mst_status status; /* of the first call that failed */
    const char *what;
    char message[600];
    int calls;
};

static bool keep(struct rank *rank, mst_status status, const char *what) {
    if (status == MST_OK || rank->status != MST_OK) return status == MST_OK;
    rank->status = status;
    rank->what = what;
    snprintf(rank->message, sizeof rank->message, "%s", mst_error());
    return false;
}
#define TRY(call) keep(rank, call, #call)

static void use(struct rank *rank, mst_group *world) {
    static _Thread_local int values[LARGE];
    int sent = rank->rank, got, other = 1 - rank->rank;
    if (TRY(mst_barrier(.group = world, .timeout_ms = timeout_ms)) &&
        TRY(mst_all_reduce(values, 1, MST_I32, .group = world, .timeout_ms = timeout_ms)) &&
        TRY(mst_all_reduce(values, LARGE, MST_I32, .group = world, .timeout_ms = timeout_ms)) &&
        TRY(mst_broadcast(values, LARGE, MST_I32, .group = world, .timeout_ms = timeout_ms)))
        TRY(mst_send_recv(&got, 1, other, &sent, 1, other, MST_I32, .group = world,
                          .timeout_ms = timeout_ms));
}

static void *run(void *context) {
    struct rank *rank = context;
    mst_group *world = NULL;
    mst_init_options options = {.size = sizeof options,
                                .init_method = store ? NULL : method,
                                .store = store,
                                .rank = rank->rank,
                                .world_size = RANKS,
                                .timeout_ms = timeout_ms};
    bool mine = rank->rank == armed_rank;
    calls = 0;
    armed = mine && !arm_use;
    bool open = TRY(mst_world_open(&options, &world));
    armed = mine && arm_use;
    if (open) use(rank, world);
    armed = false;
    rank->calls = calls;
    if (open) mst_destroy_process_group(world);
    return NULL;
}

static int descriptors(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

static void bad_round(const char *why) {
    const char *name = failed_call;
    printf("round %d, in which %s failed: %s\n", (int)round_number, name ? name : "no call", why);
    fflush(stdout);
    _exit(1);
}

static void on_alarm(int number) {
    (void)number;
    bad_round("a rank hangs");
}

/* The ranks of one round; true if the call failed. */
static bool run_round(struct rank ranks[RANKS]) {
    pthread_t threads[RANKS];
    failed_call = NULL;
    alarm(ROUND_S);
    if (!strcmp(method, "hash") && mst_store_open("hash://", &store) != MST_OK) bad_round(mst_error());
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){.rank = r};
        if (pthread_create(&threads[r], NULL, run, &ranks[r])) abort();
    }
    for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    mst_store_free(store);
    alarm(0);
    for (int r = 0; r < RANKS; r++)
        if (ranks[r].status != MST_OK && !ranks[r].message[0]) bad_round("a rank failed without a message");
    return failed_call;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    if (!INTERCEPTS) return 77;
    struct rank ranks[RANKS];
    arm_use = !strcmp(argv[1], "use");
    armed_rank = atoi(argv[2]);
    method = argv[3];
    int first = argc > 4 ? atoi(argv[4]) : 1, last = argc > 5 ? atoi(argv[5]) : 1 << 20;
    int failed = 0, tolerated = 0;
    signal(SIGALRM, on_alarm);
    round_number = 0;
    run_round(ranks); /* what stays open after the first use is no leak */
    for (int r = 0; r < RANKS; r++)
        if (ranks[r].status != MST_OK) bad_round(ranks[r].message);
    int before = descriptors();
    timeout_ms = LATER_TIMEOUT_MS;
    for (round_number = first; round_number <= last && run_round(ranks); round_number++) {
        const struct rank *rank = &ranks[armed_rank];
        rank->status == MST_OK ? tolerated++ : failed++;
        if (argc > 4) printf("%d %s: %s\n", (int)round_number, failed_call, rank->message);
        if (descriptors() != before) bad_round("a descriptor is left");
    }
    printf("calls %d, failed %d, tolerated %d\n", (int)round_number - first, failed, tolerated);
    return 0;
}
