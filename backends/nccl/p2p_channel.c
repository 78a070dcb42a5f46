/*
 * p2p_channel.c - channels for messages between two ranks: for each pair and direction a communicator of the
 * two ranks, in which the sender is rank 0, and a stream. A message waits only for earlier messages of its
 * channel.
 *
 * The sender publishes the unique id in the store under "p2p SENDER-RECEIVER". The receiver polls the store
 * for it.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

enum { ASK_EVERY_MS = 2 }; /* poll interval of the store; each get waits for half of it */

static struct mnc_channel *new_channel(mst_backend_engine *engine, const mst_backend_op *op) {
    struct mnc_channel *channel = calloc(1, sizeof *channel);
    if (!channel) return NULL;
    *channel = (struct mnc_channel){.engine = engine,
                                    .next = engine->main.next,
                                    .peer = op->peer,
                                    .sends = op->kind == MST_KIND_SEND,
                                    .own = op->tag != 0};
    if (mnc_cuda.StreamCreateWithFlags(&channel->stream, MNC_STREAM_NON_BLOCKING) != MNC_CUDA_OK) {
        free(channel);
        return NULL;
    }
    engine->main.next = channel;
    return channel;
}

/* *channel is NULL for messages of a rank to itself. */
mst_status mnc_channel_of(mst_backend_engine *engine, const mst_backend_op *op,
                          struct mnc_channel **channel) {
    bool sends = op->kind == MST_KIND_SEND;
    *channel = &engine->main;
    if (!sends && op->kind != MST_KIND_RECV) return MST_OK;
    *channel = NULL;
    if (op->peer == engine->host->rank) return MST_OK;
    for (*channel = engine->main.next; *channel; *channel = (*channel)->next)
        if ((*channel)->peer == op->peer && (*channel)->sends == sends && (*channel)->own == (op->tag != 0))
            return MST_OK;
    *channel = new_channel(engine, op);
    return *channel ? MST_OK
                    : engine->host->fail(engine->host, MST_ERR_MEMORY, -1, NULL,
                                         "out of memory or CUDA streams for messages to another rank");
}

static void channel_key(const struct mnc_channel *channel, char key[64]) {
    int me = channel->engine->host->rank;
    snprintf(key, 64, "p2p %d-%d%s", channel->sends ? me : channel->peer, channel->sends ? channel->peer : me,
             channel->own ? " own" : "");
}

static mst_status begin_comm(struct mnc_channel *channel, const mnc_id *id) {
    mnc_config config = mnc_make_config(false);
    mnc_result result = mnc_nccl.CommInitRankConfig(&channel->comm, 2, *id, channel->sends ? 0 : 1, &config);
    if (!mnc_begun(result))
        return mnc_fail_nccl(channel->engine, channel->comm, result, "connecting two ranks for messages");
    channel->state = MNC_CHANNEL_CONNECTING;
    return MST_OK;
}

static mst_status begin_send(struct mnc_channel *channel) {
    char key[64];
    mnc_id id;
    channel_key(channel, key);
    mst_status st = mnc_publish_id(channel->engine, key, &id);
    return st == MST_OK ? begin_comm(channel, &id) : st;
}

static mst_status begin_receive(struct mnc_channel *channel) {
    int64_t now = mnc_now();
    char key[64];
    mnc_id id;
    if (now - channel->asked < ASK_EVERY_MS * MNC_MS) return MST_OK;
    channel_key(channel, key);
    mst_status st =
        mnc_fetch_id(channel->engine->host, channel->peer, key, now + ASK_EVERY_MS * MNC_MS / 2, &id);
    channel->asked = mnc_now();
    if (st == MST_ERR_TIMEOUT || st == MST_ERR_NOT_FOUND) return MST_OK;
    return st == MST_OK ? begin_comm(channel, &id) : st;
}

mst_status mnc_channel_connect(struct mnc_channel *channel) {
    bool busy = false;
    if (channel->state == MNC_CHANNEL_NEW)
        return channel->sends ? begin_send(channel) : begin_receive(channel);
    mst_status st =
        mnc_check_comm(channel->engine, channel->comm, "connecting two ranks for messages", &busy);
    if (st == MST_OK && !busy) channel->state = MNC_CHANNEL_READY;
    return st;
}
