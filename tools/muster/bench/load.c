/* load.c - see load.h. */
#include "bench/load.h"
#include "base/median.h"
#include "os/clock.h"
#include "os/socket.h"
#include "wire/cursor.h"
#include "wire/store_msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, GIVE_UP_MS = 20000, HELLO_REPLY = 9 };

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

static void encode(struct msi_buf *out, enum msi_dialect dialect, struct msi_store_req req) {
    out->len = 0;
    msi_store_encode(out, dialect, &req);
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

static double failed(const char *what) {
    fprintf(stderr, "muster bench store: %s: %s\n", what, errno ? strerror(errno) : "no reply");
    return 0;
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
    int busy = 0;
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
            if (state->got < steps[state->step].reply) continue;
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
    return rate > 0 ? rate : failed("the load test failed");
}

/* The requests of a barrier: the first of all clients, and in two steps the second ones. */
struct steps {
    struct msi_buf first, wait, open;
    size_t first_reply;
};

static void make_steps(struct steps *s, enum msi_dialect dialect, int n, int round, bool two_steps) {
    char key[64], done[64];
    struct msi_str name = msi_str(key, (size_t)snprintf(key, sizeof key, "barrier/%d/%d", n, round));
    struct msi_str done_name = msi_str(done, (size_t)snprintf(done, sizeof done, "done/%d/%d", n, round));
    s->first_reply = two_steps ? 8 : 1;
    if (!two_steps) {
        encode(&s->first, dialect, (struct msi_store_req){.op = MSI_OP_BARRIER, .key = name, .number = n});
        return;
    }
    encode(&s->first, dialect, (struct msi_store_req){.op = MSI_OP_ADD, .key = name, .number = 1});
    encode(&s->wait, dialect, (struct msi_store_req){.op = MSI_OP_WAIT, .n = 1, .keys = &done_name});
    encode(&s->open, dialect,
           (struct msi_store_req){.op = MSI_OP_SET, .key = done_name, .value = msi_cstr("1")});
}

/*
 * Handles the reply of a client and sends its second step, if there is one. Returns 1 if the client is done,
 * -1 on errors.
 */
static int advance(struct load_clients *clients, uint32_t c, const struct steps *s, bool two_steps,
                   bool *second) {
    char reply[64];
    ssize_t len = recv(clients->fds[c], reply, sizeof reply, 0);
    if (len != (ssize_t)(second[c] ? 1 : s->first_reply)) return -1;
    if (!two_steps || second[c]) return 1;
    second[c] = true;
    struct msi_reader r = msi_reader(reply, 8);
    if ((int)msi_read_u64(&r) == clients->n && !send_all(clients->fds[c], &s->open)) return -1;
    return send_all(clients->fds[c], &s->wait) ? 0 : -1;
}

static double one_barrier(struct load_clients *clients, int round, bool two_steps, bool *second) {
    struct steps s = {0};
    struct epoll_event events[EVENTS];
    double seconds = 0;
    make_steps(&s, clients->dialect, clients->n, round, two_steps);
    memset(second, 0, (size_t)clients->n * sizeof *second);
    int64_t begin = msi_now();
    int left = clients->n;
    for (int i = 0; i < clients->n; i++)
        if (!send_all(clients->fds[i], &s.first)) goto done;
    while (left) {
        int n = epoll_wait(clients->epoll, events, EVENTS, GIVE_UP_MS);
        if (n <= 0) goto done;
        for (int i = 0; i < n; i++) {
            int done = advance(clients, events[i].data.u32, &s, two_steps, second);
            if (done < 0) goto done;
            left -= done;
        }
    }
    seconds = (double)(msi_now() - begin) / 1e9;
done:
    msi_buf_free(&s.first);
    msi_buf_free(&s.wait);
    msi_buf_free(&s.open);
    return seconds;
}

double load_barrier(struct load_clients *clients, int rounds, bool two_steps) {
    static int round; /* keys are never used twice */
    double *times = calloc((size_t)rounds, sizeof *times), median = 0;
    bool *second = calloc((size_t)clients->n, sizeof *second);
    errno = 0;
    if (times && second) {
        int i = 0;
        while (i < rounds && (times[i] = one_barrier(clients, round++, two_steps, second)) > 0) i++;
        median = i == rounds ? msi_median(times, rounds) : failed("the barrier failed");
    }
    free(times);
    free(second);
    return median;
}

double load_cpu_seconds(pid_t pid) {
    char path[64], line[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fgets(line, sizeof line, file)) {
        const char *after = strrchr(line, ')');
        if (after) sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    }
    fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}
