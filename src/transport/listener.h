/*
 * listener.h - the one endpoint of a rank: other ranks connect to it, say who they are, and are kept until the
 * group that they mean asks for them.
 *
 *  1. Each world of a process has one listener, opened when the first group needs it. Any thread may use it:
 *     one lock, which nobody waits for: where another thread is at the endpoint, it is asked again later.
 *  2. Nothing here blocks. Connections come in and are checked in msi_listener_progress; who waits for one
 *     calls that, asks msi_listener_take, and polls msi_listener_fd and a wake_fd of its own in between.
 *  3. Whoever connects is a stranger until its hello is checked (see wire/hello.h). Strangers that say
 *     nothing or something wrong are dismissed and stand in nobody's way; a stranger sees nothing but one
 *     byte.
 *  4. At most 4 * size + 64 connections are kept, besides further streams of known ranks. Beyond that the
 *     strangers that have been silent for longest go first; where all are known and nobody asks for them, new
 *     ones are turned away and may try again.
 */
#ifndef MSI_TRANSPORT_LISTENER_H
#define MSI_TRANSPORT_LISTENER_H

#include "base/address.h"
#include "base/list.h"

#include <muster/status.h>
#include <stdint.h>

struct msi_listener;

enum { MSI_LISTENER_STALL_MS = 10000 };

/* Listens on the address; port 0 takes a free one. world is the number that all ranks of the world know. */
mst_status msi_listener_open(const struct msi_address *address, uint64_t world, int rank, int size,
                             struct msi_listener **listener);

/* The port that it really listens on. */
int msi_listener_port(const struct msi_listener *listener);

/* Has POLLIN when progress would have something to do. It stays the listener's. */
int msi_listener_fd(const struct msi_listener *listener);

/* How long a stranger may take to say its hello, instead of MSI_LISTENER_STALL_MS. */
void msi_listener_set_stall(struct msi_listener *listener, int stall_ms);

/*
 * Somebody who sleeps until a connection for its group is there. Polling msi_listener_fd alone is not enough: another thread
 * may have taken it in. From watch to unwatch the number 1 is written to fd, an eventfd, each time one comes.
 */
struct msi_listener_wake {
    struct msi_list node;
    uint64_t group;
    int fd;
};
void msi_listener_watch(struct msi_listener *listener, struct msi_listener_wake *wake_fd);
void msi_listener_unwatch(struct msi_listener *listener, struct msi_listener_wake *wake_fd);

/* Accepts, reads hellos and answers them; dismisses who took too long. Nothing if another thread is at it. */
void msi_listener_progress(struct msi_listener *listener);

/*
 * The connection that rank "from" opened for this group, channel and stream: a non-blocking socket that is the
 * caller's from now on, or -1 if none was found so far. *streams is how many there shall be. Of several for the
 * same, the one that came last: a rank connects again only where it has given up the connection before.
 */
int msi_listener_take(struct msi_listener *listener, uint64_t group, int from, int channel, int stream,
                      int *streams);

/* Closes the endpoint and all connections that nobody took. NULL is fine. */
void msi_listener_close(struct msi_listener *listener);

#endif
