/*
 * limits_workers.c - measures what this machine allows; see limits.h.
 *
 * Worker processes, each bound to its own processor, run all measurements one after another, once in each
 * round. They synchronise before each sample and store their results in memory shared with the parent.
 */
#include "bench/launch.h"
#include "bench/limits.h"
#include "loop.h"
#include "os/clock.h"
#include "os/socket.h"
#include "reduce/reduce.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CACHE_LINES = 128,
    SPINS = 10000,
    LINE_PASSES = 2000,
    TCP_PASSES = 200,
    PIECE = 256 << 10,
    CONNECT_MS = 5000
};

/* Shared by the workers and their parent. */
struct shared {
    _Atomic uint32_t arrived; /* workers at the barrier; added (release), awaited (acquire) */
    char pad0[CACHE_LINES - sizeof(uint32_t)];
    _Atomic uint32_t token; /* LIMIT_LINE: counted up by two workers alternately */
    char pad1[CACHE_LINES - sizeof(uint32_t)];
    double results[LIMITS_MOST][LIMITS_ROUNDS_MOST][LIMITS_PROCESSES_MOST];
};

struct worker {
    struct shared *shared;
    int index, n, fd; /* fd: the connection to worker index ^ 1, or -1 */
    double seconds;
    uint32_t next; /* LIMIT_LINE: the value of the token for which this worker waits */
    float *a, *c;  /* arrays of the largest size */
};

/* Yields now and then, because the worker that is waited for may have no processor. */
static void spin(int *spins) {
    if (++*spins % SPINS == 0) sched_yield();
}

static void barrier(const struct worker *w) {
    uint32_t n = (uint32_t)w->n;
    uint32_t goal = (atomic_fetch_add_explicit(&w->shared->arrived, 1, memory_order_acq_rel) / n + 1) * n;
    int spins = 0;
    while (atomic_load_explicit(&w->shared->arrived, memory_order_acquire) < goal) spin(&spins);
}

/* GB/s of memcpy, or of c += a. */
static double process_arrays(struct worker *w, enum limit_kind kind, size_t bytes) {
    const struct msi_reducer *reducer = msi_reducer_get(MST_F32, MST_SUM);
    const void *in[] = {w->c, w->a};
    double start = loop_now(), spent, times = 0;
    do {
        if (kind == LIMIT_ADD)
            reducer->reduce_local(w->c, NULL, in, 2, bytes / sizeof(float), NULL);
        else
            memcpy(w->c, w->a, bytes);
        __asm__("" : : "r"(w->c) : "memory"); /* keeps the compiler from removing the copy */
        times++;
        spent = loop_now() - start;
    } while (spent < w->seconds);
    return times * (double)bytes / spent / 1e9;
}

/* Microseconds until one worker sees the store of the other. */
static double pass_line(struct worker *w) {
    _Atomic uint32_t *token = &w->shared->token;
    double start = loop_now();
    for (int i = 0; i < LINE_PASSES; i++, w->next += 2) {
        int spins = 0;
        while (atomic_load_explicit(token, memory_order_acquire) != w->next) spin(&spins);
        atomic_store_explicit(token, w->next + 1,
                              memory_order_release); /* pairs with the other's load above */
    }
    return (loop_now() - start) / (2.0 * LINE_PASSES) * 1e6;
}

/* Did a non-blocking call fail, other than because it would block? */
static bool is_broken(ssize_t moved) {
    return moved < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

static bool receive_byte(int fd) {
    char byte;
    ssize_t got;
    int spins = 0;
    while ((got = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && !is_broken(got)) spin(&spins);
    return got == 1;
}

/* Ends a broken connection, so that the other worker does not wait forever. */
static double give_up(struct worker *w) {
    shutdown(w->fd, SHUT_RDWR);
    return 0;
}

static double pass_byte(struct worker *w) {
    double start = loop_now();
    if (w->fd < 0) return 0;
    for (int i = 0; i < TCP_PASSES; i++) {
        if (w->index == 1 && !receive_byte(w->fd)) return give_up(w);
        if (send(w->fd, "", 1, MSG_NOSIGNAL) != 1) return give_up(w);
        if (w->index == 0 && !receive_byte(w->fd)) return give_up(w);
    }
    return (loop_now() - start) / (2.0 * TCP_PASSES) * 1e6;
}

/* Sends and receives the same number of bytes; the sent ones count. */
static double stream(struct worker *w) {
    size_t total = (size_t)(w->seconds * 4e9) / PIECE * PIECE + PIECE, out = 0, in = 0;
    double start = loop_now();
    if (w->fd < 0) return 0;
    while (out < total || in < total) {
        char *from = (char *)(void *)w->a + out % PIECE, *to = (char *)(void *)w->c + in % PIECE;
        ssize_t sent = out < total ? send(w->fd, from, PIECE - out % PIECE, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if (is_broken(sent)) return give_up(w);
        ssize_t got = in < total ? recv(w->fd, to, PIECE - in % PIECE, MSG_DONTWAIT) : 0;
        if (is_broken(got) || (got == 0 && in < total)) return give_up(w);
        if (sent > 0) out += (size_t)sent;
        if (got > 0) in += (size_t)got;
        if (sent <= 0 && got <= 0) sched_yield();
    }
    return (double)total / (loop_now() - start) / 1e9;
}

static double measure(struct worker *w, const struct limit *limit) {
    switch (limit->kind) {
    case LIMIT_COPY:
    case LIMIT_ADD:
        return process_arrays(w, limit->kind, limit->bytes);
    case LIMIT_LINE:
        return pass_line(w);
    case LIMIT_TCP_US:
        return pass_byte(w);
    default:
        return stream(w);
    }
}

_Noreturn static void run_worker(struct worker *w, const struct bench_limits *l, size_t most) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    loop_bind(w->index);
    w->a = aligned_alloc(4096, most);
    w->c = aligned_alloc(4096, most);
    if (!w->a || !w->c) abort();
    memset(w->a, 0, most); /* sums of zeros stay finite */
    memset(w->c, 0, most);
    for (long round = 0; round < l->rounds; round++)
        for (int i = 0; i < l->n; i++) {
            if (l->at[i].processes != w->n) continue;
            barrier(w);
            w->shared->results[i][round][w->index] = measure(w, &l->at[i]);
        }
    _exit(0);
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* A TCP connection through loopback; both ends are -1 after a failure. */
static void connect_pair(int fd[2]) {
    struct msi_address here = {"127.0.0.1", 0};
    struct msi_wait wait = {msi_deadline(CONNECT_MS), NULL};
    int listener;
    fd[0] = fd[1] = -1;
    if (msi_listen(&here, &listener, &here.port) != MST_OK) return;
    if (msi_connect(&here, false, &wait, &fd[0]) == MST_OK)
        fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd[1] >= 0)
        msi_socket_tune(fd[1]);
    else
        close_end(&fd[0]);
    close(listener);
}

/* Waits for the workers; kills them if the user interrupts or if one of them failed. False: interrupted. */
static bool wait_for_workers(int n) {
    bool stopped = false;
    while (n > 0 && !stopped) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 || status != 0) break;
        if (pid > 0)
            n--;
        else
            stopped = launch_wait_a_moment();
    }
    launch_kill_children();
    return !stopped;
}

static size_t most_bytes(const struct bench_limits *l, int n) {
    size_t most = PIECE;
    for (int i = 0; i < l->n; i++)
        if (l->at[i].processes == n && l->at[i].bytes > most) most = l->at[i].bytes;
    return most;
}

bool limits_run_workers(struct bench_limits *l, int n) {
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int fds[2] = {-1, -1};
    bool failed = false;
    if (shared == MAP_FAILED) return true;
    for (int i = 0; i < n; i++) {
        struct worker w = {.shared = shared, .index = i, .n = n, .seconds = l->seconds, .next = (uint32_t)i};
        if (i % 2 == 0 && i + 1 < n) connect_pair(fds);
        w.fd = fds[i % 2];
        pid_t pid = fork();
        if (pid == 0) {
            close_end(&fds[1 - i % 2]); /* else the connection would outlive the other worker */
            run_worker(&w, l, most_bytes(l, n));
        }
        close_end(&fds[i % 2]);
        failed |= pid < 0;
    }
    bool proceed = wait_for_workers(failed ? 0 : n);
    for (int i = 0; i < l->n; i++)
        for (long round = 0; l->at[i].processes == n && round < l->rounds; round++) {
            const double *found = shared->results[i][round];
            double sum = found[0];
            for (int k = 1; k < n && l->at[i].kind <= LIMIT_TCP_GBPS; k++) sum += found[k];
            l->at[i].samples[round] = sum;
        }
    munmap(shared, sizeof *shared);
    return proceed;
}
