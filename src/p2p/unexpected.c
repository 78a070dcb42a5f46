/* unexpected.c - messages that came before anybody asked for them. See unexpected.h. */
#include "p2p/unexpected.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROOM_LEAST = 256,
    SPARE_MOST = 8 << 20 /* bytes of those that were delivered */
};

void msi_strays_init(struct msi_strays *strays) {
    msi_list_init(&strays->kept);
    msi_list_init(&strays->spare);
    strays->spare_bytes = 0;
}

static void free_list(struct msi_list *list) {
    while (!msi_list_empty(list)) {
        struct msi_stray *stray = msi_container(list->next, struct msi_stray, node);
        msi_list_remove(&stray->node);
        free(stray);
    }
}

void msi_strays_free(struct msi_strays *strays) {
    free_list(&strays->kept);
    free_list(&strays->spare);
}

/* The smallest spare one that has room for so many bytes; NULL: none. */
static struct msi_stray *take_spare(struct msi_strays *strays, size_t bytes) {
    struct msi_stray *found = NULL;
    for (struct msi_list *at = strays->spare.next; at != &strays->spare; at = at->next) {
        struct msi_stray *spare = msi_container(at, struct msi_stray, node);
        if (spare->room >= bytes && (!found || spare->room < found->room)) found = spare;
    }
    if (!found) return NULL;
    msi_list_remove(&found->node);
    strays->spare_bytes -= found->room;
    return found;
}

static struct msi_stray *make(size_t bytes) {
    size_t room = ROOM_LEAST;
    if (bytes > SIZE_MAX / 4) return NULL;
    while (room < bytes) room *= 2; /* so that the next one fits too */
    struct msi_stray *made = malloc(sizeof *made + room);
    if (made) made->room = room;
    return made;
}

struct msi_stray *msi_strays_keep(struct msi_strays *strays, size_t bytes) {
    struct msi_stray *stray = take_spare(strays, bytes);
    if (!stray) stray = make(bytes);
    if (!stray) return NULL;
    *stray = (struct msi_stray){.room = stray->room, .bytes = bytes};
    msi_list_push(&strays->kept, &stray->node);
    return stray;
}

struct msi_stray *msi_strays_find(const struct msi_strays *strays, const struct msi_message *m) {
    for (struct msi_list *at = strays->kept.next; at != &strays->kept; at = at->next) {
        struct msi_stray *stray = msi_container(at, struct msi_stray, node);
        if (!stray->taker && msi_message_fits(m, stray->peer, stray->tag)) return stray;
    }
    return NULL;
}

/* Its message was delivered, or thrown away. */
static void end(struct msi_strays *strays, struct msi_stray *stray) {
    msi_list_remove(&stray->node);
    if (stray->room > SPARE_MOST - strays->spare_bytes) {
        free(stray);
        return;
    }
    strays->spare_bytes += stray->room;
    msi_list_push(&strays->spare, &stray->node);
}

static void deliver(struct msi_strays *strays, struct msi_stray *stray, struct mst_work *op) {
    if (stray->bytes) memcpy(op->message.buf, stray->data, stray->bytes);
    op->message.through = true;
    end(strays, stray);
}

void msi_strays_give(struct msi_strays *strays, struct msi_stray *stray, struct mst_work *op) {
    if (stray->complete)
        deliver(strays, stray, op);
    else
        stray->taker = op;
}

void msi_strays_drop(struct msi_strays *strays, struct msi_stray *stray) {
    stray->tag = -1;
    if (stray->complete) end(strays, stray);
}

void msi_strays_complete(struct msi_strays *strays, struct msi_stray *stray) {
    stray->complete = true;
    if (stray->taker)
        deliver(strays, stray, stray->taker);
    else if (stray->tag < 0)
        end(strays, stray);
}

void msi_strays_forget(const struct msi_strays *strays, const struct mst_work *op) {
    for (struct msi_list *at = strays->kept.next; at != &strays->kept; at = at->next) {
        struct msi_stray *stray = msi_container(at, struct msi_stray, node);
        if (stray->taker == op) stray->taker = NULL;
    }
}
