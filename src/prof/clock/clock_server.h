/*
 * clock_server.h - one clock for the ranks of several hosts: that of rank 0. The server answers with the time
 * of its clock, on a port of its own. A client on another host asks in bursts and derives the offset of its
 * own clock (fit.h).
 *
 * Server and client have a thread each. They exist only if there are several hosts and a trace is written. A
 * question is 8 bytes, its number; the answer repeats them and adds 8 bytes, the time; both are little
 * endian.
 */
#ifndef MSI_PROF_CLOCK_CLOCK_SERVER_H
#define MSI_PROF_CLOCK_CLOCK_SERVER_H

#include "base/address.h"
#include "base/settings.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { MSI_TIME_QUESTION = 8, MSI_TIME_ANSWER = 16 };

struct msi_clock_server;
struct msi_clock_client;

/*
 * Answers up to clients connections at host, which authenticate first; *port is a free port. settings NULL:
 * there is no secret.
 */
mst_status msi_clock_server_open(const char *host, int clients, const struct msi_settings *settings,
                                 struct msi_clock_server **server, int *port);
void msi_clock_server_close(struct msi_clock_server *server);

/* Asks the server, the first time at once. Without an answer, it tries again later. */
mst_status msi_clock_client_open(const struct msi_address *address, const struct msi_settings *settings,
                                 struct msi_clock_client **client);
void msi_clock_client_close(struct msi_clock_client *client);
/*
 * How far the server's clock is ahead of msi_now() at a given time, and the error; false: not known yet. Any
 * thread.
 */
bool msi_clock_client_offset(struct msi_clock_client *client, int64_t at, int64_t *offset, int64_t *error);

#endif
