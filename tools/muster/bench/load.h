/*
 * load.h - many clients of a store server in one thread, for `muster bench store`. They send raw bytes, so that
 * every server gets the same from the same driver.
 */
#ifndef MUSTER_TOOL_BENCH_LOAD_H
#define MUSTER_TOOL_BENCH_LOAD_H

#include "wire/store_msg.h"

#include <stdbool.h>
#include <sys/types.h>

struct load_clients {
    int epoll, n;
    enum msi_dialect dialect;
    int *fds;
};

/* Connects n clients to a port of this machine, or to the Unix socket beside it; false with the reason on
 * stderr. */
bool load_connect(struct load_clients *clients, int port, bool local, enum msi_dialect dialect, int n);
void load_close(struct load_clients *clients);

/* A request of some operations, and how long its reply is. */
struct load_step {
    struct msi_buf request;
    size_t reply;
    int ops;
};

/*
 * Every client sends the first step's request, waits for its reply, goes on with the next step and begins again, for so
 * many seconds. Returns how often all steps were taken in a second, by all clients; 0 with the reason on stderr.
 */
double load_run(struct load_clients *clients, const struct load_step *steps, int n_steps, double seconds);

/*
 * All clients send at once and wait until the last answer is there; the answer is a byte, and only comes when
 * all have asked. two_steps: it is an ADD, and behind its
 * answer each client waits for a key that the last one sets, as PyTorch's clients make a barrier. Returns the
 * median seconds; 0 if it failed.
 */
double load_barrier(struct load_clients *clients, int rounds, bool two_steps);

/* Processor seconds that a process has used. */
double load_cpu_seconds(pid_t pid);

#endif
