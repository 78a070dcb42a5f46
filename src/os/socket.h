/*
 * socket.h - TCP sockets with deadlines. All descriptors made here are non-blocking and close on exec, with
 * TCP_NODELAY and keep-alive probes that notice a vanished host in about half a minute.
 */
#ifndef MSI_OS_SOCKET_H
#define MSI_OS_SOCKET_H

#include "base/address.h"
#include "os/wait.h"

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
mst_status msi_connect(const struct msi_address *address, const struct msi_wait *wait, int *fd);

/* Sets the options named above on an accepted socket. */
void msi_socket_tune(int fd);

/* The other end as "address:port", or "?"; returns out. */
const char *msi_socket_peer(int fd, char out[MSI_ADDRESS_TEXT_MAX]);

/* Who listens on a port, as "pid 123 (python3)"; "" if it cannot be seen. Returns out. */
const char *msi_port_holder(int port, char *out, size_t size);

#endif
