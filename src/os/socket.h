/*
 * socket.h - TCP sockets with deadlines. All descriptors made here are non-blocking and close on exec, with
 * TCP_NODELAY and keep-alive probes that notice a vanished host in about half a minute.
 */
#ifndef MSI_OS_SOCKET_H
#define MSI_OS_SOCKET_H

#include "base/address.h"
#include "os/wait.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Listens on just the address that host names. *port is the real port where 0 was asked for.
 * MST_ERR_PORT_TAKEN names the holder where it can be seen; MST_ERR_ADDRESS if host is not an address of
 * ours.
 */
mst_status msi_listen(const struct msi_address *address, int *fd, int *port);

/*
 * Connects, trying every address of the name again and again with growing pauses, until somebody answers or
 * the wait ends: MST_ERR_UNREACHABLE with the last reason and the number of attempts, or MST_ERR_CANCELLED.
 */
mst_status msi_connect(const struct msi_address *address, bool local, const struct msi_wait *wait, int *fd);

/*
 * A server's second endpoint, for clients on the same machine and in the same network namespace: a Unix socket in
 * the abstract name space, named after the address, which is cheaper than TCP on loopback. msi_connect knocks
 * there first if local is true, and goes in only if the server runs as the same user or as root. *fd is -1
 * where the name is taken or Unix sockets are missing; that is no failure.
 */
void msi_listen_local(int tcp_fd, int *fd);

/* Sets the options named above on an accepted socket. */
void msi_socket_tune(int fd);

/*
 * Lets a connection end once its host has been silent for so many seconds, also where something was sent that it does not take.
 * Not for links between ranks: one that computes and does not read for a while is not lost.
 */
void msi_socket_expect(int fd, int seconds);

/* The other end as "address:port" or "pid 12 on this host", or "?"; returns out. */
const char *msi_socket_peer(int fd, char out[MSI_ADDRESS_TEXT_MAX]);

/*
 * What holds a port: "pid 123 (python3)", which listens there or has connected from there, "a closed connection
 * (TIME_WAIT)", or "" if it cannot be seen. Returns out.
 */
const char *msi_port_holder(int port, char *out, size_t size);

/*
 * Begins to connect and does not wait: *fd has POLLOUT once that succeeded or failed, and msi_socket_error
 * tells which. Only the first address of a name is tried; looking up a name, unlike an address, may block.
 */
mst_status msi_connect_begin(const struct msi_address *address, int *fd);

/* The error that is pending at a socket, as errno has them; 0 for none. */
int msi_socket_error(int fd);

/* recv and send, but no cancellation points of threads: those cost two atomic operations a call. */
ssize_t msi_recv(int fd, void *data, size_t n);
ssize_t msi_send(int fd, const void *data, size_t n);

/* The same with several buffers, and a look at what there is to receive. */
ssize_t msi_recv_vector(int fd, struct iovec *parts, size_t n);
ssize_t msi_send_vector(int fd, struct iovec *parts, size_t n);
ssize_t msi_recv_peek(int fd, void *data, size_t n);

#endif
