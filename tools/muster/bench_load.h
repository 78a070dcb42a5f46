/*
 * bench_load.h - many clients of a store server in one thread, for `muster bench store`. They speak raw
 * dialect A, which both servers understand, so that both get the same bytes from the same driver.
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

/*
 * Every client sends the request, waits for as many bytes as the reply has, and begins again, for so many
 * seconds. ops is how many operations one request holds. Returns operations per second; 0 with the reason on
 * stderr.
 */
double load_run(struct load_clients *clients, const struct msi_buf *request, size_t reply_len, int ops,
                double seconds);

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
