/*
 * socket.h - TCP sockets with deadlines. All sockets are non-blocking and close-on-exec, with TCP_NODELAY and
 * keep-alive probes.
 *
 * A host that does not answer for MUSTER_TCP_TIMEOUT_S, T, is lost:
 *
 *   0        the last packet from it
 *   2/3 T    connections to the store fail, and their clients try to connect again
 *   5/6 T    they give up; the store reports the ranks of that host to all others
 *   T        connections between ranks fail
 *
 * The store comes first, so that all survivors report the same rank.
 */
#ifndef MSI_OS_SOCKET_H
#define MSI_OS_SOCKET_H

#include "base/address.h"
#include "os/wait.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Listens on the address of host. *port is the actual port if address->port is 0. MST_ERR_PORT_TAKEN names
 * the process if it is visible; MST_ERR_ADDRESS: host is not an address of this machine.
 */
mst_status msi_listen(const struct msi_address *address, int *fd, int *port);

/* An end of a TCP connection, or of a socket that listens; all big endian. */
struct msi_socket_end {
    uint8_t address[16]; /* IPv6, or IPv4 mapped to it */
    uint8_t port[2];
};

/* Reads this end of a socket, or the other one. False, with zeros: it has no such end, or is not of TCP. */
bool msi_socket_end(int fd, bool peer, struct msi_socket_end *end);

/* Tries each address of the name once. MST_ERR_UNREACHABLE: *error has the last errno, or 0. */
mst_status msi_connect_once(const struct msi_address *address, bool local, const struct msi_wait *wait,
                            int *fd, int *error);

/*
 * Connects; tries every address of the name repeatedly, with growing pauses, until the wait ends:
 * MST_ERR_UNREACHABLE with the last error and the number of attempts, or MST_ERR_CANCELLED.
 */
mst_status msi_connect(const struct msi_address *address, bool local, const struct msi_wait *wait, int *fd);

/*
 * A second listener for clients on the same machine and in the same network namespace: a Unix socket in the
 * abstract name space, named after the address. It is cheaper than TCP on loopback. msi_connect tries it
 * first if local is true, and uses it only if the server runs as the same user. The server accepts only
 * clients of its user (msi_socket_is_same_user); others use TCP. Returns -1 if the name is taken, perhaps by
 * another user, or Unix sockets are not available.
 */
int msi_listen_local(int tcp_fd);

/* Sets MUSTER_TCP_TIMEOUT_S for the sockets that this process opens from now on; returns it. */
void msi_socket_set_timeout(int seconds);
int msi_socket_timeout(void);
/* How long a client of the store may take to connect again after its connection was lost. */
int64_t msi_socket_grace_ms(void);

/* Sets these options on an accepted socket. */
void msi_socket_tune(int fd);

/*
 * For connections to the store: the kernel closes them after 2/3 of the timeout without an answer, also with
 * unacknowledged data (TCP_USER_TIMEOUT). Not for links between ranks: that also closes a connection whose
 * other end does not read, and a rank that computes may not read for a long time.
 */
void msi_socket_expect(int fd);

/*
 * For links between ranks: selects Reno as congestion control if both ends have one address. Almost nothing
 * is lost over loopback, so Reno does not slow it down. BBR, the default of some machines, paces what is
 * sent: large messages take up to a third longer.
 */
void msi_socket_unpace(int fd);

/*
 * For links between ranks: has the other host not acknowledged data for the whole timeout? Its kernel
 * acknowledges also what its process does not read. Asks the kernel at most once in a while; *next is when,
 * and 0 at first.
 */
bool msi_socket_is_silent(int fd, int64_t *next);

/*
 * Acknowledges at once what was received, which the kernel may delay. The other end notices later that this
 * host is lost if data was not acknowledged before.
 */
void msi_socket_quicken(int fd);

/* Is it a Unix socket? Then both ends are on this host. */
bool msi_socket_is_local(int fd);
/*
 * Does the other end run as this user? For TCP: is it a socket of this host, in this network namespace, that
 * a process of this user has opened? See same_user.c.
 */
bool msi_socket_is_same_user(int fd);

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
