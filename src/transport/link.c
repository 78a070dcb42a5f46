/* link.c - the parts common to all transports: posting, cancelling and failing. See link.h. */
#include "transport/link.h"

#include <stdarg.h>
#include <stdio.h>

void msi_link_post(struct msi_link *link, bool send, struct msi_transfer *transfer, char *data, size_t len) {
    transfer->data = data;
    transfer->len = len;
    transfer->done = 0;
    msi_list_init(&transfer->node);
    if (len && link->status == MST_OK) msi_list_push(send ? &link->sends : &link->receives, &transfer->node);
}

void msi_link_send(struct msi_link *link, struct msi_transfer *transfer, const void *data, size_t len) {
    union {
        const void *read;
        char *any;
    } pointer = {data}; /* one struct serves both directions; no transport writes to the data of a send */
    msi_link_post(link, true, transfer, pointer.any, len);
}

void msi_link_receive(struct msi_link *link, struct msi_transfer *transfer, void *data, size_t len) {
    msi_link_post(link, false, transfer, data, len);
}

bool msi_link_cancel(struct msi_link *link, struct msi_transfer *transfer) {
    if (link->ops->cancel) return link->ops->cancel(link, transfer);
    msi_list_remove(&transfer->node);
    return transfer->done == 0;
}

void msi_link_init(struct msi_link *link, const struct msi_link_ops *ops) {
    link->ops = ops;
    link->status = MST_OK;
    link->why[0] = 0;
    msi_list_init(&link->sends);
    msi_list_init(&link->receives);
}

void msi_link_fail(struct msi_link *link, mst_status status, const char *format, ...) {
    if (link->status != MST_OK) return;
    va_list args;
    va_start(args, format);
    vsnprintf(link->why, sizeof link->why, format, args);
    va_end(args);
    link->status = status;
    while (!msi_list_empty(&link->sends)) msi_list_remove(link->sends.next);
    while (!msi_list_empty(&link->receives)) msi_list_remove(link->receives.next);
}
