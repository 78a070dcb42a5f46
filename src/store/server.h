/*
 * server.h - the tcp store's server: one thread, one loop, any number of connections, all dialects at once.
 *
 * Runs until it is closed. A connection that breaks the protocol, a limit or the patience of store_stall_ms
 * ends with a logged reason and touches nobody else; memory stays under store_max_total.
 */
#ifndef MSI_STORE_SERVER_H
#define MSI_STORE_SERVER_H

#include "base/address.h"
#include "base/settings.h"

struct msi_server;

/* Starts to listen on just that address; port 0 takes a free one. */
mst_status msi_server_open(const struct msi_address *address, const struct msi_settings *settings,
                           struct msi_server **server);

int msi_server_port(const struct msi_server *server);

/*
 * Serves on until the last client of ours has gone, at most for linger_ms, and ends. Clients of ours that then still
 * wait are told MST_ERR_STORE_ENDED; others find the connection closed. NULL is fine.
 */
void msi_server_close(struct msi_server *server, int64_t linger_ms);

#endif
