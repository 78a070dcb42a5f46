/*
 * bare.h - a server that does nothing but receive and send: what the machine's sockets cost whoever
 * serves them, and so the floor for any store server.
 */
#ifndef MUSTER_TOOL_BENCH_BARE_H
#define MUSTER_TOOL_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the memory through which the server, forked off later, learns what to expect. */
bool bare_prepare(void);
/* From now on each request has so many bytes and each reply so many; greeting bytes come before the first. */
void bare_expect(size_t request, size_t reply, size_t greeting);
/* Prints a port and serves it until the process is killed. */
void bare_serve(void);

#endif
