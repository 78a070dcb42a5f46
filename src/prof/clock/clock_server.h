/*
 * clock_server.h - one clock for the ranks of several hosts: rank 0's. It answers with what its clock says, on a port of its own; a rank of
 * another host asks in bursts, now and then, and knows from the answers how far its own clock is off (fit.h).
 *
 * Each side has a thread, only where there are several hosts and something is traced. Nobody waits for an answer but the asking
 * thread, and whoever answers keeps nothing.
 */
#ifndef MSI_PROF_CLOCK_CLOCK_SERVER_H
#define MSI_PROF_CLOCK_CLOCK_SERVER_H

#include "base/address.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

struct msi_clock_server; /* who answers */
struct msi_clock_client; /* who asks */

/* Answers at the address; *port is the one that was found. So many may ask at a time. */
mst_status msi_clock_server_open(const char *host, int askers, struct msi_clock_server **keeper, int *port);
void msi_clock_server_close(struct msi_clock_server *keeper);

/* Asks there, a first time at once. Where there is no answer, it goes on asking. */
mst_status msi_clock_client_open(const struct msi_address *address, struct msi_clock_client **clock_client);
void msi_clock_client_close(struct msi_clock_client *clock_client);
/* How much their clock is ahead of msi_now() at a moment of ours, give or take error; false: not known yet. Any thread. */
bool msi_clock_client_offset(struct msi_clock_client *clock_client, int64_t at, int64_t *offset,
                             int64_t *error);

#endif
