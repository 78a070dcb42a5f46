/*
 * lane.c - where messages between two ranks run: for each pair and direction a communicator of the two, in which the sender is rank 0,
 * and a stream, so that a message waits only for those that were begun before it in its own lane.
 *
 * The sender makes the id and leaves it in the store under "lane SENDER-RECEIVER"; the receiver asks for it now and then.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_EVERY_MS = 2 }; /* the store, for an id that is not there yet; each time for half as long */

static struct mnc_lane *new_lane(mst_backend_engine *engine, const mst_backend_op *op) {
    struct mnc_lane *lane = calloc(1, sizeof *lane);
    if (!lane) return NULL;
    *lane = (struct mnc_lane){.engine = engine,
                              .next = engine->lanes,
                              .peer = op->peer,
                              .sends = op->kind == MST_KIND_SEND,
                              .own = op->tag != 0};
    if (mnc_cuda.StreamCreateWithFlags(&lane->stream, MNC_STREAM_NON_BLOCKING) != MNC_CUDA_OK) {
        free(lane);
        return NULL;
    }
    engine->lanes = lane;
    return lane;
}

/* NULL for messages to oneself. */
mst_status mnc_lane_of(mst_backend_engine *engine, const mst_backend_op *op, struct mnc_lane **lane) {
    bool sends = op->kind == MST_KIND_SEND;
    *lane = &engine->main;
    if (!sends && op->kind != MST_KIND_RECV) return MST_OK;
    *lane = NULL;
    if (op->peer == engine->host->rank) return MST_OK;
    for (*lane = engine->lanes; *lane; *lane = (*lane)->next)
        if ((*lane)->peer == op->peer && (*lane)->sends == sends && (*lane)->own == (op->tag != 0))
            return MST_OK;
    *lane = new_lane(engine, op);
    return *lane ? MST_OK
                 : engine->host->fail(engine->host, MST_ERR_MEMORY, -1, NULL,
                                      "no memory or no CUDA stream for messages to another rank");
}

static void lane_key(const struct mnc_lane *lane, char key[64]) {
    int me = lane->engine->host->rank;
    snprintf(key, 64, "lane %d-%d%s", lane->sends ? me : lane->peer, lane->sends ? lane->peer : me,
             lane->own ? " own" : "");
}

static mst_status begin_comm(struct mnc_lane *lane, const mnc_id *id) {
    mnc_config config = mnc_make_config(false);
    mnc_result result = mnc_nccl.CommInitRankConfig(&lane->comm, 2, *id, lane->sends ? 0 : 1, &config);
    if (result != MNC_SUCCESS && result != MNC_IN_PROGRESS)
        return mnc_fail_nccl(lane->engine, lane->comm, result, "connecting two ranks for messages");
    lane->state = MNC_LANE_JOINING;
    return MST_OK;
}

static mst_status offer(struct mnc_lane *lane) {
    const mst_backend_host *host = lane->engine->host;
    char key[64];
    mnc_id id;
    lane_key(lane, key);
    mnc_result result = mnc_nccl.GetUniqueId(&id);
    if (result != MNC_SUCCESS) return mnc_fail_nccl(lane->engine, NULL, result, "ncclGetUniqueId");
    mst_status st = host->set(host, key, &id, sizeof id);
    return st == MST_OK ? begin_comm(lane, &id) : st;
}

static mst_status ask(struct mnc_lane *lane) {
    const mst_backend_host *host = lane->engine->host;
    int64_t now = mnc_now();
    char key[64];
    mst_bytes value = {0};
    mnc_id id;
    if (now - lane->asked < ASK_EVERY_MS * MNC_MS) return MST_OK;
    lane_key(lane, key);
    mst_status st = host->get(host, key, now + ASK_EVERY_MS * MNC_MS / 2, &value);
    lane->asked = mnc_now();
    if (st == MST_ERR_TIMEOUT || st == MST_ERR_NOT_FOUND) return MST_OK;
    if (st != MST_OK) return st;
    bool fits = value.len == sizeof id;
    if (fits) memcpy(&id, value.data, sizeof id);
    free(value.data);
    if (fits) return begin_comm(lane, &id);
    return host->fail(host, MST_ERR_PROTOCOL, lane->peer, NULL, "the id of a lane of messages is malformed");
}

mst_status mnc_lane_join(struct mnc_lane *lane) {
    bool busy = false;
    if (lane->state == MNC_LANE_NEW) return lane->sends ? offer(lane) : ask(lane);
    mst_status st = mnc_look(lane->engine, lane->comm, "connecting two ranks for messages", &busy);
    if (st == MST_OK && !busy) lane->state = MNC_LANE_READY;
    return st;
}
