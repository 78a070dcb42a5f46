/*
 * load.h - many clients of a store server in one thread, for "muster bench store". They send encoded
 * requests, so that every server gets the same bytes.
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

/*
 * Connects n clients to a port of this host, or to its Unix socket if local. False with the reason on stderr.
 */
bool load_connect(struct load_clients *clients, int port, bool local, enum msi_dialect dialect, int n);
void load_close(struct load_clients *clients);

/* A request of one or more operations and the length of its reply. */
struct load_step {
    struct msi_buf request;
    size_t reply;
    int ops;
    struct msi_buf last; /* sent before the next step by the client that completes this one last, or empty */
};
/* Adds an operation several times. */
void load_add_request(struct load_step *step, enum msi_dialect dialect, struct msi_store_req req,
                      size_t reply, int times);
void load_free_step(struct load_step *step);

/*
 * Every client repeats these steps: sends the request, waits for the reply. If seconds is 0, each step runs
 * once. Returns how often per second all clients together completed all steps; 0 with the reason on stderr.
 */
double load_run(struct load_clients *clients, const struct load_step *steps, int n_steps, double seconds);

/*
 * Barriers of all clients: by the BARRIER operation of muster's server, or in two steps, as clients of
 * PyTorch do: ADD, then WAIT for a key that the last client sets. Returns the median time in seconds; 0 if it
 * failed.
 */
double load_barrier(struct load_clients *clients, bool two_steps);

/* The processor time of a process, in seconds. */
double load_cpu_seconds(pid_t pid);

#endif
