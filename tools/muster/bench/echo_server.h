/*
 * echo_server.h - a server that only receives and sends: the cost of the sockets themselves, and so the upper
 * limit for any store server.
 */
#ifndef MUSTER_TOOL_BENCH_ECHO_SERVER_H
#define MUSTER_TOOL_BENCH_ECHO_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates the memory that the server, which is forked later, shares with this process. */
bool echo_server_prepare(void);
/*
 * Sets the sizes of requests and replies; greeting bytes precede the first request. Call while no client is
 * connected.
 */
void echo_server_expect(size_t request, size_t reply, size_t greeting);
/* Prints its port and serves until the process is killed. */
void echo_server_run(void);

#endif
