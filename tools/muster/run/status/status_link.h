/*
 * status_link.h - answers "muster status" for a launcher: see status/status_keys.h.
 *
 * A thread with its own connection waits until a request arrives, lets the loop compose the answer, and
 * writes it to the store. The loop never waits for the store, nor for the thread except in status_link_close.
 * If the store cannot be reached, the job runs on without answers.
 */
#ifndef MUSTER_TOOL_RUN_STATUS_STATUS_LINK_H
#define MUSTER_TOOL_RUN_STATUS_STATUS_LINK_H

#include "base/buf.h"

#include <uv.h>

struct status_link;

struct status_link_options {
    uv_loop_t *loop;
    const char *host; /* of the store */
    int port;
    /* Appends the answer to a request; called on the loop's thread. */
    void (*compose)(void *arg, int64_t request, struct msi_buf *to);
    void *arg;
};

/* NULL: it could not be opened. host is borrowed. */
struct status_link *status_link_open(const struct status_link_options *options);
/* Ends the thread; NULL is allowed. Run the loop once more before status_link_free. */
void status_link_close(struct status_link *link);
void status_link_free(struct status_link *link);

#endif
