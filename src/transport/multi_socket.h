/*
 * multi_socket.h - several links as one. Networks limit what one connection may carry, and a long one is slow to fill; several
 * side by side are not.
 *
 * The byte at place o of the stream travels on link o / unit % links, so both sides know where it is, however the transfers
 * are cut, and nothing is added to the stream.
 *
 * A bundle fails when it needs a link that has failed: what came on others before can still be received. Closing it closes
 * them all, so that the other side fails as well.
 */
#ifndef MSI_TRANSPORT_MULTI_SOCKET_H
#define MSI_TRANSPORT_MULTI_SOCKET_H

#include "transport/link.h"

/* Measured: shorter units cost a message of their size up to half its time again, where nothing limits a connection. */
enum { MSI_MULTI_SOCKET_MOST = 16, MSI_MULTI_SOCKET_UNIT = 256 << 10 };

/* Owns the links from now on, unless it fails. Both sides give them in the same order, and the same unit. */
mst_status msi_link_open_multi_socket(struct msi_link *const *links, int n, size_t unit,
                                      struct msi_link **link);

#endif
