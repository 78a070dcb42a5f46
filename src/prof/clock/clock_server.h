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

struct msi_timekeeper; /* who answers */
struct msi_follower;   /* who asks */

/* Answers at the address; *port is the one that was found. So many may ask at a time. */
mst_status msi_timekeeper_open(const char *host, int askers, struct msi_timekeeper **keeper, int *port);
void msi_timekeeper_close(struct msi_timekeeper *keeper);

/* Asks there, a first time at once. Where there is no answer, it goes on asking. */
mst_status msi_follower_open(const struct msi_address *address, struct msi_follower **follower);
void msi_follower_close(struct msi_follower *follower);
/* How much their clock is ahead of msi_now() at a moment of ours, give or take error; false: not known yet. Any thread. */
bool msi_follower_offset(struct msi_follower *follower, int64_t at, int64_t *offset, int64_t *error);

#endif
