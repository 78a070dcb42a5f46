/*
 * server.h - the server of the tcp store: one thread, one event loop, any number of connections, all
 * dialects.
 *
 * It closes a connection that violates the protocol, a limit or store_stall_ms, and logs the reason; other
 * connections are not affected. Memory stays below store_max_total.
 */
#ifndef MSI_STORE_SERVER_H
#define MSI_STORE_SERVER_H

#include "base/address.h"
#include "base/settings.h"
#include "os/wait.h"

struct msi_server;

/* Listens on that address; port 0 becomes a free port. */
mst_status msi_server_open(struct msi_address *address, const struct msi_settings *settings,
                           struct msi_server **server);

/*
 * Opens a standby of the server at primary: it follows every change, and serves with the same state if that
 * server's process or host is lost. It ends with that server if that ends in order. See server_standby.c.
 */
mst_status msi_server_open_standby(struct msi_address *address, const struct msi_address *primary,
                                   const struct msi_settings *settings, const struct msi_wait *wait,
                                   struct msi_server **server);

/*
 * Serves until the last muster client has disconnected, at most for linger_ms, and ends. muster clients that
 * still wait get MST_ERR_STORE_ENDED; other connections are closed. New clients are served until then: a rank
 * that comes late reads why its world has failed. server may be NULL.
 */
void msi_server_close(struct msi_server *server, int64_t linger_ms);

#endif
