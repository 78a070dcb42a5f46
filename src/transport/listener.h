/*
 * listener.h - the listening socket of a rank. It accepts connections from other ranks, identifies them and
 * keeps them until their group takes them.
 *
 *  1. Each world of a process has one listener, opened when the first group needs it. Any thread may use it.
 *     progress and take do not wait for the lock: if another thread holds it, they do nothing, and the caller
 *     tries again.
 *  2. No function blocks. msi_listener_progress accepts and checks connections. To wait for one, call it,
 *     then msi_listener_take, then poll msi_listener_fd and a wake_fd.
 *  3. A connection is authenticated before anything else (auth/gate.h). Its handshake carries its hello
 *     (wire/hello.h). The listener refuses connections with a wrong hello.
 *  4. The listener keeps at most 4 * size + 64 connections, plus the further sockets of ranks. Beyond that it
 *     answers "busy", and the peer may retry.
 */
#ifndef MSI_TRANSPORT_LISTENER_H
#define MSI_TRANSPORT_LISTENER_H

#include "base/address.h"
#include "base/list.h"
#include "os/stream.h"

#include <muster/status.h>
#include <stdint.h>

struct msi_listener;
struct msi_auth;

enum { MSI_LISTENER_STALL_MS = 10000 };

/*
 * Listens on the address; port 0 selects a free port. All ranks of a world pass the same world number. auth
 * is borrowed; NULL: there is no secret.
 */
mst_status msi_listener_open(const struct msi_address *address, struct msi_auth *auth, uint64_t world,
                             int rank, int size, struct msi_listener **listener);

/* The actual port. */
int msi_listener_port(const struct msi_listener *listener);

/* Has POLLIN if progress has work. The listener owns the descriptor. */
int msi_listener_fd(const struct msi_listener *listener);

/* Sets the time limit for authentication and of msi_listener_check; the defaults are MSI_GATE_STALL_MS and
 * MSI_LISTENER_STALL_MS. */
void msi_listener_set_stall(struct msi_listener *listener, int stall_ms);

/*
 * Wakes a thread that waits for a connection of its group. Polling msi_listener_fd is not enough, because
 * another thread may accept the connection. From watch to unwatch, the listener writes 1 to fd, an eventfd,
 * for each new connection.
 */
struct msi_listener_wake {
    struct msi_list node;
    uint64_t group;
    int fd;
};
void msi_listener_watch(struct msi_listener *listener, struct msi_listener_wake *wake_fd);
void msi_listener_unwatch(struct msi_listener *listener, struct msi_listener_wake *wake_fd);

/* Accepts and authenticates connections. */
void msi_listener_progress(struct msi_listener *listener);

/*
 * Returns the connection that rank from opened for this group, channel and socket index, which the caller
 * owns; its fd is -1 if it has not come yet. Sets *sockets to the number of sockets of this link. If the rank
 * has connected again, returns the latest connection.
 */
struct msi_stream msi_listener_take(struct msi_listener *listener, uint64_t group, int from, int channel,
                                    int socket, int *sockets);

/* Fails if there were no descriptors or no memory for connections for that long. */
mst_status msi_listener_check(struct msi_listener *listener);

/* Closes the socket and all connections that were not taken. Accepts NULL. */
void msi_listener_close(struct msi_listener *listener);

#endif
