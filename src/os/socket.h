/*
 * socket.h - TCP sockets with deadlines. All sockets are non-blocking and close-on-exec, with TCP_NODELAY and
 * keep-alive probes that detect a dead host in about half a minute.
 */
#ifndef MSI_OS_SOCKET_H
#define MSI_OS_SOCKET_H

#include "base/address.h"
#include "os/wait.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Listens on the address of host. *port is the actual port if address->port is 0. MST_ERR_PORT_TAKEN names
 * the process if it is visible; MST_ERR_ADDRESS: host is not an address of this machine.
 */
mst_status msi_listen(const struct msi_address *address, int *fd, int *port);

/*
 * Connects; tries every address of the name repeatedly, with growing pauses, until the wait ends:
 * MST_ERR_UNREACHABLE with the last error and the number of attempts, or MST_ERR_CANCELLED.
 */
mst_status msi_connect(const struct msi_address *address, bool local, const struct msi_wait *wait, int *fd);

/*
 * A second listener for clients on the same machine and in the same network namespace: a Unix socket in the
 * abstract name space, named after the address. It is cheaper than TCP on loopback. msi_connect tries it
 * first if local is true, and uses it only if the server runs as the same user or as root. Returns -1 if the
 * name is taken or Unix sockets are not available.
 */
int msi_listen_local(int tcp_fd);

/* Sets these options on an accepted socket. */
void msi_socket_tune(int fd);

/*
 * Closes a connection after its host has been silent for this time, also with unacknowledged data. Not for
 * links between ranks: a rank that computes may not read for a long time.
 */
void msi_socket_expect(int fd, int seconds);

/* The other end as "address:port" or "pid 12 on this host", or "?"; returns out. */
const char *msi_socket_peer(int fd, char out[MSI_ADDRESS_TEXT_MAX]);

/*
 * What holds a port: "pid 123 (python3)", which listens there or has connected from there, "a closed
 * connection (TIME_WAIT)", or "" if it cannot be seen. Returns out.
 */
const char *msi_port_holder(int port, char *out, size_t size);

/*
 * Starts to connect without waiting: *fd has POLLOUT after success or failure; then call msi_socket_error.
 * Tries only the first address of a name. Resolving a name may block.
 */
mst_status msi_connect_begin(const struct msi_address *address, int *fd);

/* The pending error of a socket, as in errno; 0: none. */
int msi_socket_error(int fd);

/* recv and send without thread cancellation points, which cost two atomic operations per call. */
ssize_t msi_recv(int fd, void *data, size_t n);
ssize_t msi_send(int fd, const void *data, size_t n);

/* The same with several buffers, and with MSG_PEEK. */
ssize_t msi_recv_vector(int fd, struct iovec *parts, size_t n);
ssize_t msi_send_vector(int fd, struct iovec *parts, size_t n);
ssize_t msi_recv_peek(int fd, void *data, size_t n);

#endif
