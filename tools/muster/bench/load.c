/* load.c - see load.h. */
#include "bench/load.h"
#include "base/median.h"
#include "os/clock.h"
#include "os/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, GIVE_UP_MS = 20000, HELLO_REPLY = 9, BARRIERS = 5 };

static int connect_one(int port, bool local) {
    struct msi_address to = {"127.0.0.1", port};
    struct msi_wait wait = {msi_deadline(GIVE_UP_MS), NULL};
    int fd;
    if (msi_connect(&to, local, &wait, &fd) != MST_OK) return -1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static bool send_all(int fd, const struct msi_buf *request) {
    return send(fd, request->data, request->len, MSG_NOSIGNAL) == (ssize_t)request->len;
}

bool load_connect(struct load_clients *clients, int port, bool local, enum msi_dialect dialect, int n) {
    *clients = (struct load_clients){.dialect = dialect,
                                     .epoll = epoll_create1(EPOLL_CLOEXEC),
                                     .fds = calloc((size_t)n, sizeof *clients->fds)};
    if (clients->epoll < 0 || !clients->fds) return false;
    struct msi_buf hello = {0};
    struct msi_store_req validate = {.op = MSI_OP_VALIDATE, .number = MSI_STORE_MAGIC};
    struct msi_store_req own = {.op = MSI_OP_HELLO};
    if (dialect != MSI_DIALECT_A) msi_store_encode(&hello, MSI_DIALECT_C, &validate);
    if (dialect == MSI_DIALECT_M) msi_store_encode(&hello, MSI_DIALECT_M, &own);
    for (; clients->n < n; clients->n++) {
        int fd = connect_one(port, local);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)clients->n};
        if (fd < 0 || epoll_ctl(clients->epoll, EPOLL_CTL_ADD, fd, &event)) {
            fprintf(stderr, "muster bench store: client %d cannot connect: %s\n", clients->n, mst_error());
            if (fd >= 0) close(fd);
            load_close(clients);
            msi_buf_free(&hello);
            return false;
        }
        clients->fds[clients->n] = fd;
        if (hello.len) send_all(fd, &hello);
        char welcome[HELLO_REPLY];
        if (dialect == MSI_DIALECT_M) recv(fd, welcome, sizeof welcome, MSG_WAITALL);
    }
    msi_buf_free(&hello);
    return true;
}

void load_close(struct load_clients *clients) {
    for (int i = 0; i < clients->n; i++) close(clients->fds[i]);
    if (clients->epoll >= 0) close(clients->epoll);
    free(clients->fds);
    *clients = (struct load_clients){.epoll = -1};
}

void load_add_request(struct load_step *step, enum msi_dialect dialect, struct msi_store_req req,
                      size_t reply, int times) {
    for (int i = 0; i < times; i++) msi_store_encode(&step->request, dialect, &req);
    step->reply += reply * (size_t)times;
    step->ops += times;
}

void load_free_step(struct load_step *step) {
    msi_buf_free(&step->request);
    msi_buf_free(&step->last);
}

struct client_state {
    int step;
    size_t got; /* bytes of the step's reply */
};

double load_run(struct load_clients *clients, const struct load_step *steps, int n_steps, double seconds) {
    struct client_state *states = calloc((size_t)clients->n, sizeof *states);
    if (!states) return 0;
    struct epoll_event events[EVENTS];
    char reply[65536];
    int64_t begin = msi_now(), end = begin + (int64_t)(seconds * 1e9), rounds = 0;
    int busy = 0, reached = 0; /* clients under way; clients that completed a step with a last request */
    double rate = 0;
    for (int i = 0; i < clients->n; i++, busy++)
        if (!send_all(clients->fds[i], &steps[0].request)) goto done;
    while (busy) {
        errno = 0;
        int n = epoll_wait(clients->epoll, events, EVENTS, GIVE_UP_MS);
        if (n <= 0) goto done;
        bool more = msi_now() < end;
        for (int i = 0; i < n; i++) {
            uint32_t c = events[i].data.u32;
            struct client_state *state = &states[c];
            ssize_t len = recv(clients->fds[c], reply, sizeof reply, 0);
            if (len <= 0) goto done;
            state->got += (size_t)len;
            const struct load_step *step = &steps[state->step];
            if (state->got < step->reply) continue;
            if (step->last.len && ++reached == clients->n && !send_all(clients->fds[c], &step->last))
                goto done;
            state->got = 0;
            state->step = (state->step + 1) % n_steps;
            rounds += state->step == 0;
            if (state->step == 0 && !more)
                busy--;
            else if (!send_all(clients->fds[c], &steps[state->step].request))
                goto done;
        }
    }
    rate = (double)rounds / ((double)(msi_now() - begin) / 1e9);
done:
    free(states);
    if (rate <= 0)
        fprintf(stderr, "muster bench store: the load test failed: %s\n",
                errno ? strerror(errno) : "no reply");
    return rate;
}

static double one_barrier(struct load_clients *clients, int round, bool two_steps) {
    char key[64], done[64];
    enum msi_dialect dialect = clients->dialect;
    struct load_step steps[2] = {0};
    int n = clients->n;
    struct msi_str name = msi_str(key, (size_t)snprintf(key, sizeof key, "barrier/%d/%d", n, round));
    struct msi_str opened = msi_str(done, (size_t)snprintf(done, sizeof done, "done/%d/%d", n, round));
    struct msi_store_req barrier = {.op = MSI_OP_BARRIER, .key = name, .number = n};
    struct msi_store_req add = {.op = MSI_OP_ADD, .key = name, .number = 1};
    struct msi_store_req wait = {.op = MSI_OP_WAIT, .n = 1, .keys = &opened};
    struct msi_store_req set = {.op = MSI_OP_SET, .key = opened, .value = msi_cstr("1")};
    if (two_steps) {
        load_add_request(&steps[0], dialect, add, 8, 1);
        msi_store_encode(&steps[0].last, dialect, &set);
        load_add_request(&steps[1], dialect, wait, 1, 1);
    } else {
        load_add_request(&steps[0], dialect, barrier, 1, 1);
    }
    double rate = load_run(clients, steps, two_steps ? 2 : 1, 0);
    load_free_step(&steps[0]);
    load_free_step(&steps[1]);
    return rate > 0 ? n / rate : 0;
}

double load_barrier(struct load_clients *clients, bool two_steps) {
    static int round; /* keys are never used twice */
    double times[BARRIERS];
    for (int i = 0; i < BARRIERS; i++) {
        times[i] = one_barrier(clients, round++, two_steps);
        if (times[i] <= 0) return 0;
    }
    return msi_median(times, BARRIERS);
}

double load_cpu_seconds(pid_t pid) {
    clockid_t clock;
    struct timespec used = {0};
    if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}
