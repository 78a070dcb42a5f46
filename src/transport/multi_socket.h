/*
 * multi_socket.h - one link over several sockets, because networks limit the bandwidth of one connection.
 *
 * The byte at offset o of the stream travels on link o / unit % links. Both sides compute this, so that the
 * stream needs no headers and does not depend on how transfers are cut.
 *
 * The link fails when it needs a socket link that has failed; bytes that arrived on the others can still be
 * received. Closing it closes all of them, so that the peer fails as well.
 */
#ifndef MSI_TRANSPORT_MULTI_SOCKET_H
#define MSI_TRANSPORT_MULTI_SOCKET_H

#include "transport/link.h"

/* Measured: with a smaller unit, a message of that size takes up to 50 % longer on a fast network. */
enum { MSI_MULTI_SOCKET_MOST = 16, MSI_MULTI_SOCKET_UNIT = 256 << 10 };

/* Takes ownership of the links on success. Both sides pass them in the same order and with the same unit. */
mst_status msi_link_open_multi_socket(struct msi_link *const *links, int n, size_t unit,
                                      struct msi_link **link);

#endif
