/* unexpected.c - see unexpected.h. */
#include "p2p/p2p_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROOM_LEAST = 256,
    SPARE_MOST = 8 << 20 /* bytes of the spare messages */
};

void msi_unexpected_init(struct msi_unexpected *unexpected) {
    msi_list_init(&unexpected->kept);
    msi_list_init(&unexpected->spare);
    unexpected->spare_bytes = 0;
}

static void free_list(struct msi_list *list) {
    while (!msi_list_empty(list)) {
        struct msi_unexpected_msg *msg = msi_container(list->next, struct msi_unexpected_msg, node);
        msi_list_remove(&msg->node);
        free(msg);
    }
}

void msi_unexpected_free(struct msi_unexpected *unexpected) {
    free_list(&unexpected->kept);
    free_list(&unexpected->spare);
}

/* The smallest spare message that has room for the bytes; NULL: none. */
static struct msi_unexpected_msg *take_spare(struct msi_unexpected *unexpected, size_t bytes) {
    struct msi_unexpected_msg *found = NULL;
    for (struct msi_list *at = unexpected->spare.next; at != &unexpected->spare; at = at->next) {
        struct msi_unexpected_msg *spare = msi_container(at, struct msi_unexpected_msg, node);
        if (spare->room >= bytes && (!found || spare->room < found->room)) found = spare;
    }
    if (!found) return NULL;
    msi_list_remove(&found->node);
    unexpected->spare_bytes -= found->room;
    return found;
}

static struct msi_unexpected_msg *make(size_t bytes) {
    size_t room = ROOM_LEAST;
    if (bytes > SIZE_MAX / 4) return NULL;
    while (room < bytes) room *= 2; /* so that the next message fits too */
    struct msi_unexpected_msg *made = malloc(sizeof *made + room);
    if (made) made->room = room;
    return made;
}

struct msi_unexpected_msg *msi_unexpected_keep(struct msi_unexpected *unexpected, size_t bytes) {
    struct msi_unexpected_msg *msg = take_spare(unexpected, bytes);
    if (!msg) msg = make(bytes);
    if (!msg) return NULL;
    *msg = (struct msi_unexpected_msg){.room = msg->room, .bytes = bytes};
    msi_list_push(&unexpected->kept, &msg->node);
    return msg;
}

struct msi_unexpected_msg *msi_unexpected_find(const struct msi_unexpected *unexpected,
                                               const struct msi_op *op) {
    for (struct msi_list *at = unexpected->kept.next; at != &unexpected->kept; at = at->next) {
        struct msi_unexpected_msg *msg = msi_container(at, struct msi_unexpected_msg, node);
        if (!msg->receive && !msg->dropped && msi_message_matches(op, msg->peer, msg->tag)) return msg;
    }
    return NULL;
}

/* Keeps the memory of a message that was delivered or dropped, or frees it. */
static void end(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg) {
    msi_list_remove(&msg->node);
    if (msg->room > SPARE_MOST - unexpected->spare_bytes) {
        free(msg);
        return;
    }
    unexpected->spare_bytes += msg->room;
    msi_list_push(&unexpected->spare, &msg->node);
}

static void copy_out(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg,
                     struct mst_work *work) {
    if (msg->bytes) memcpy(work->op.desc.out, msg->data, msg->bytes);
    msi_p2p_request(work)->complete = true;
    end(unexpected, msg);
}

void msi_unexpected_deliver(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg,
                            struct mst_work *work) {
    if (msg->complete)
        copy_out(unexpected, msg, work);
    else
        msg->receive = work;
}

void msi_unexpected_drop(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg) {
    msg->dropped = true;
    if (msg->complete) end(unexpected, msg);
}

void msi_unexpected_complete(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg) {
    msg->complete = true;
    if (msg->receive)
        copy_out(unexpected, msg, msg->receive);
    else if (msg->dropped)
        end(unexpected, msg);
}

void msi_unexpected_forget(const struct msi_unexpected *unexpected, const struct mst_work *work) {
    for (struct msi_list *at = unexpected->kept.next; at != &unexpected->kept; at = at->next) {
        struct msi_unexpected_msg *msg = msi_container(at, struct msi_unexpected_msg, node);
        if (msg->receive == work) msg->receive = NULL;
    }
}
