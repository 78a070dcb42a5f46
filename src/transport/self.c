/* self.c - a link from a rank to itself. Copies each send into the matching receive. See link.h. */
#include "base/error.h"
#include "transport/link.h"

#include <stdlib.h>
#include <string.h>

static bool progress(struct msi_link *link) {
    bool moved = false;
    while (!msi_list_empty(&link->sends) && !msi_list_empty(&link->receives)) {
        struct msi_transfer *from = msi_link_first(&link->sends), *to = msi_link_first(&link->receives);
        size_t n =
            msi_transfer_left(from) < msi_transfer_left(to) ? msi_transfer_left(from) : msi_transfer_left(to);
        memmove(to->data + to->done, from->data + from->done, n);
        msi_link_advance(from, n);
        msi_link_advance(to, n);
        moved = true;
    }
    return moved;
}

static void close_self(struct msi_link *link) {
    free(link);
}

static const struct msi_link_ops ops = {
    .progress = progress,
    .close = close_self,
};

mst_status msi_link_open_self(struct msi_link **link) {
    struct msi_link *self = malloc(sizeof *self);
    if (!self) return msi_fail_memory();
    msi_link_init(self, &ops);
    *link = self;
    return MST_OK;
}
