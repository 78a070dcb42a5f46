/*
 * limits_workers.c - measures what this machine allows; see limits.h.
 *
 * A crew of processes, each on a processor of its own, takes one measurement after the other, all again in each round. They
 * meet at a counter before each sample and leave what they found in memory that the parent shares.
 */
#include "bench/launch.h"
#include "bench/limits.h"
#include "os/clock.h"
#include "reduce/reduce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { APART = 128, SPINS = 10000, LINE_TURNS = 2000, TCP_TURNS = 200, PIECE = 256 << 10 };

/* Shared by the crew and its parent. */
struct board {
    _Atomic uint32_t arrived; /* release by whoever comes; acquire by those who wait */
    char pad0[APART - sizeof(uint32_t)];
    _Atomic uint32_t ball; /* LIMIT_LINE: whose turn it is */
    char pad1[APART - sizeof(uint32_t)];
    double found[LIMITS_MOST][LIMITS_ROUNDS_MOST][LIMITS_PROCESSES_MOST];
};

struct member {
    struct board *board;
    int index, n, fd; /* fd: the stream to index ^ 1, or -1 */
    double seconds;
    uint32_t turn; /* LIMIT_LINE: the number at which it is this one's next turn */
    float *a, *c;  /* as large as the largest */
};

static double now(void) {
    return (double)msi_now() / 1e9;
}

static void pause_a_little(int *spins) {
    if (++*spins % SPINS == 0) sched_yield(); /* perhaps whoever is waited for has no processor */
}

static void meet(const struct member *m) {
    uint32_t n = (uint32_t)m->n,
             ticket = atomic_fetch_add_explicit(&m->board->arrived, 1, memory_order_acq_rel);
    uint32_t goal = (ticket / n + 1) * n;
    int spins = 0;

    while (atomic_load_explicit(&m->board->arrived, memory_order_acquire) < goal) pause_a_little(&spins);
}

static double copy(struct member *m, size_t bytes) {
    double start = now(), spent, times = 0;

    do {
        memcpy(m->c, m->a, bytes);
        __asm__("" : : "r"(m->c) : "memory"); /* the copy is wanted, though nobody reads it */
        times++;
        spent = now() - start;
    } while (spent < m->seconds);
    return times * (double)bytes / spent / 1e9;
}

static double add(struct member *m, size_t bytes) {
    const struct msi_reducer *reducer = msi_reducer_get(MST_F32, MST_SUM);
    const void *in[] = {m->c, m->a};
    double start = now(), spent, times = 0;

    do {
        reducer->reduce_local(m->c, NULL, in, 2, bytes / sizeof(float), NULL);
        times++;
        spent = now() - start;
    } while (spent < m->seconds);
    return times * (double)bytes / spent / 1e9;
}

/* Two processes count the ball up in turn; the time of one step. */
static double pass_line(struct member *m) {
    _Atomic uint32_t *ball = &m->board->ball;
    double start = now();

    for (int i = 0; i < LINE_TURNS; i++, m->turn += 2) {
        int spins = 0;
        while (atomic_load_explicit(ball, memory_order_acquire) != m->turn) pause_a_little(&spins);
        atomic_store_explicit(ball, m->turn + 1, memory_order_release); /* met by the other's load above */
    }
    return (now() - start) / (2.0 * LINE_TURNS) * 1e6;
}

/* Did a call without waiting fail for another reason than that it would have had to wait? */
static bool is_broken(ssize_t moved) {
    return moved < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

static bool get_byte(int fd) {
    char byte;
    ssize_t got;
    int spins = 0;

    while ((got = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && !is_broken(got)) pause_a_little(&spins);
    return got == 1;
}

/* The connection is broken: whoever is at the other end shall not wait for what does not come. */
static double give_up(struct member *m) {
    shutdown(m->fd, SHUT_RDWR);
    return 0;
}

static double pass_byte(struct member *m) {
    double start = now();

    if (m->fd < 0) return 0;
    for (int i = 0; i < TCP_TURNS; i++) {
        if (m->index == 1 && !get_byte(m->fd)) return give_up(m);
        if (send(m->fd, "", 1, MSG_NOSIGNAL) != 1) return give_up(m);
        if (m->index == 0 && !get_byte(m->fd)) return give_up(m);
    }
    return (now() - start) / (2.0 * TCP_TURNS) * 1e6;
}

/* Sends and receives as much in each direction; what this one has sent counts. */
static double stream(struct member *m) {
    size_t total = (size_t)(m->seconds * 4e9) / PIECE * PIECE + PIECE, out = 0, in = 0;
    double start = now();

    if (m->fd < 0) return 0;
    while (out < total || in < total) {
        char *from = (char *)(void *)m->a + out % PIECE, *to = (char *)(void *)m->c + in % PIECE;
        ssize_t sent = out < total ? send(m->fd, from, PIECE - out % PIECE, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if (is_broken(sent)) return give_up(m);
        ssize_t got = in < total ? recv(m->fd, to, PIECE - in % PIECE, MSG_DONTWAIT) : 0;
        if (is_broken(got) || (got == 0 && in < total)) return give_up(m);
        if (sent > 0) out += (size_t)sent;
        if (got > 0) in += (size_t)got;
        if (sent <= 0 && got <= 0) sched_yield();
    }
    return (double)total / (now() - start) / 1e9;
}

static double take(struct member *m, const struct limit *limit) {
    switch (limit->kind) {
    case LIMIT_COPY:
        return copy(m, limit->bytes);
    case LIMIT_ADD:
        return add(m, limit->bytes);
    case LIMIT_LINE:
        return pass_line(m);
    case LIMIT_TCP_US:
        return pass_byte(m);
    default:
        return stream(m);
    }
}

static void bind_to(int index) {
    cpu_set_t allowed, one;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (int skip = index % CPU_COUNT(&allowed); !CPU_ISSET(cpu, &allowed) || skip-- > 0;) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

_Noreturn static void work(struct member *m, const struct bench_limits *l, size_t most) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_to(m->index);
    m->a = aligned_alloc(4096, most);
    m->c = aligned_alloc(4096, most);
    if (m->a == NULL || m->c == NULL) abort();
    memset(m->a, 0, most); /* zeros stay zeros, however often they are added */
    memset(m->c, 0, most);
    for (int round = 0; round < l->rounds; round++)
        for (int i = 0; i < l->n; i++) {
            if (l->at[i].processes != m->n) continue;
            meet(m);
            m->board->found[i][round][m->index] = take(m, &l->at[i]);
        }
    _exit(0);
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Two ends of a connection through loopback; both are -1 if there is none. */
static void connect_pair(int fd[2]) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *name = (struct sockaddr *)(void *)&here;
    socklen_t len = sizeof here;
    int one = 1, door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[1] = -1;
    if (door >= 0 && fd[0] >= 0 && bind(door, name, len) == 0 && listen(door, 1) == 0 &&
        getsockname(door, name, &len) == 0 && connect(fd[0], name, len) == 0)
        fd[1] = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    if (door >= 0) close(door);
    if (fd[1] < 0) close_end(&fd[0]);
    for (int i = 0; i < 2 && fd[1] >= 0; i++) setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Waits for the crew; ends it early if the user wants to end, or if one of it has failed. */
static bool await(pid_t *pids, int n) {
    bool stopped = false, failed = false;

    for (int i = 0; i < n; i++) failed = failed || pids[i] < 0;
    for (int left = n; left > 0;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        for (int i = 0; pid > 0 && i < n; i++)
            if (pids[i] == pid) pids[i] = 0, left--;
        if (pid > 0 && status == 0) continue;
        if (pid < 0) break;
        if (pid == 0 && !stopped) stopped = launch_wait_a_moment();
        failed = failed || pid > 0;
        for (int i = 0; (stopped || failed) && i < n; i++)
            if (pids[i] > 0) kill(pids[i], SIGKILL);
    }
    return !stopped;
}

static size_t most_bytes(const struct bench_limits *l, int n) {
    size_t most = PIECE;
    for (int i = 0; i < l->n; i++)
        if (l->at[i].processes == n && l->at[i].bytes > most) most = l->at[i].bytes;
    return most;
}

bool limits_run_crew(struct bench_limits *l, int n) {
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pid_t pids[LIMITS_PROCESSES_MOST];
    int fds[2] = {-1, -1};
    bool going_on = true;

    if (board == MAP_FAILED) return true;
    for (int i = 0; i < n; i++) {
        struct member m = {.board = board, .index = i, .n = n, .seconds = l->seconds, .fd = -1};
        m.turn = (uint32_t)i;
        if (i % 2 == 0 && i + 1 < n) connect_pair(fds);
        m.fd = fds[i % 2];
        pids[i] = fork();
        if (pids[i] == 0) {
            close_end(&fds[1 - i % 2]); /* the other's end: only so does it end with the other */
            work(&m, l, most_bytes(l, n));
        }
        close_end(&fds[i % 2]);
    }
    going_on = await(pids, n);
    for (int i = 0; i < l->n; i++)
        for (int round = 0; l->at[i].processes == n && round < l->rounds; round++) {
            const double *found = board->found[i][round];
            double sum = found[0];
            for (int k = 1; k < n && l->at[i].kind <= LIMIT_TCP_GBPS; k++) sum += found[k];
            l->at[i].samples[round] = sum;
        }
    munmap(board, sizeof *board);
    return going_on;
}
