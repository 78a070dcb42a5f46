/* p2p.c - the public point-to-point calls. */
#include "base/error.h"
#include "group/call.h"

#include <stdlib.h>

/* The group rank at the other end; -1 for any, where that is allowed. */
static mst_status find_peer(struct msi_call *call, bool send, int *peer) {
    if (!send && call->options.src == MST_ANY_SOURCE && call->options.group_src == 0) {
        *peer = -1;
        return MST_OK;
    }
    mst_status st = msi_call_root(call, !send);
    *peer = call->root;
    return st;
}

static mst_status check_tag(int tag) {
    return tag >= 0 ? MST_OK : msi_fail(MST_ERR_INVALID, "use tags from 0 up", ".tag is %d", tag);
}

/* Opens a call and finds its peer. */
static mst_status open_message(const char *name, bool send, const mst_call *given, struct msi_call *call,
                               int *peer) {
    mst_status st = msi_call_open_as(name, send ? MSI_KIND_SEND : MSI_KIND_RECV, given, call);
    if (st == MST_OK) st = check_tag(call->options.tag);
    if (st == MST_OK) st = find_peer(call, send, peer);
    return st;
}

/* The same with profiling on. */
__attribute__((noinline)) static bool message_now_watched(struct msi_call *call, const struct msi_op *op,
                                                          unsigned watch) {
    struct msi_op_trace trace;
    call->entered = msi_tick();
    call->group->messages++;
    uint64_t noted = msi_call_note(call);
    bool through = msi_comm_message_now(call->group->comm, op);
    msi_call_leave(noted, MST_OK);
    if (!through) {
        call->group->messages--;
        return false;
    }
    call->number = msi_comm_message_number(call->group->comm, op);
    msi_call_trace(call, watch, &trace);
    msi_op_trace_end(&trace, MST_OK);
    return true;
}

/* False: nothing has happened. */
static bool message_now(struct msi_call *call, const struct msi_op *op) {
    unsigned watch = msi_sinks_on();
    if (call->group->backends.of[MST_MEMORY_CUDA]) return false; /* the buffer may be the device's */
    if (watch) return message_now_watched(call, op, watch);
    if (!msi_comm_message_now(call->group->comm, op)) return false;
    call->group->messages++;
    return true;
}

/* Runs a message of call->count elements. bytes: where a receive of variable length puts them. */
static mst_status run_message(struct msi_call *call, int peer, const void *buf, mst_bytes *bytes) {
    bool send = call->kind == MSI_KIND_SEND;
    struct msi_op op; /* as much of it as a message that is done at once needs */
    op.desc = (mst_backend_op){.kind = send ? MST_KIND_SEND : MST_KIND_RECV,
                               .dtype = call->dtype,
                               .element = call->element,
                               .count = call->count,
                               .peer = peer,
                               .tag = call->options.tag,
                               .in = send ? buf : NULL,
                               .out = send ? NULL : (void *)(uintptr_t)buf};
    op.bytes = bytes;
    op.sender = send ? NULL : call->options.sender;
    call->op = &op;
    bool done = !call->options.work && !call->options.stream && message_now(call, &op);
    mst_status st = done ? MST_OK : msi_call_submit_message(call, &op);
    call->op = NULL;
    return st;
}

static mst_status tensor_message(const char *name, bool send, const void *buf, size_t count, mst_dtype dtype,
                                 const mst_call *given) {
    struct msi_call call;
    int peer;
    mst_status st = open_message(name, send, given, &call, &peer);
    if (st == MST_OK) st = msi_call_tensor(&call, 1, count, dtype);
    if (st == MST_OK) st = msi_call_buffer("buf", buf, count);
    return st == MST_OK ? run_message(&call, peer, buf, NULL) : st;
}

mst_status mst_send_with(const void *buf, size_t count, mst_dtype dtype, const mst_call *call) {
    return tensor_message("mst_send", true, buf, count, dtype, call);
}

mst_status mst_recv_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call) {
    return tensor_message("mst_recv", false, buf, count, dtype, call);
}

static mst_status insist_on_work(const char *name, const mst_call *call) {
    msi_call_begin(name, call ? &call->site : NULL, msi_call_get_rank());
    if (call && call->size > offsetof(mst_call, work) && call->work) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "give the address of a work, or use the blocking call", ".work is NULL");
}

mst_status mst_isend_with(const void *buf, size_t count, mst_dtype dtype, const mst_call *call) {
    mst_status st = insist_on_work("mst_isend", call);
    return st == MST_OK ? tensor_message("mst_isend", true, buf, count, dtype, call) : st;
}

mst_status mst_irecv_with(void *buf, size_t count, mst_dtype dtype, const mst_call *call) {
    mst_status st = insist_on_work("mst_irecv", call);
    return st == MST_OK ? tensor_message("mst_irecv", false, buf, count, dtype, call) : st;
}

mst_status mst_batch_isend_irecv_with(const mst_p2p *ops, size_t n, mst_work **works, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open_as("mst_batch_isend_irecv", MSI_KIND_SEND, given, &call);
    if (st == MST_OK && n && (!ops || !works))
        st = msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", ops ? "works" : "ops");
    if (st != MST_OK) return st;
    mst_call each = call.options;
    each.size = sizeof each;
    each.group_src = each.group_dst = 0;
    each.sender = NULL;
    size_t begun = 0;
    struct msi_comm *comm;
    mst_memory memory;
    st = msi_group_comm(call.group, n ? ops[0].buf : NULL, &comm, &memory);
    bool batch = st == MST_OK && n > 1 && msi_comm_batch_begin(comm);
    for (; begun < n && st == MST_OK; begun++) {
        const mst_p2p *op = &ops[begun];
        if (msi_group_rank_of(call.group, op->peer) < 0 && (op->send || op->peer != MST_ANY_SOURCE)) {
            st = msi_fail(MST_ERR_INVALID, NULL, "ops[%zu].peer is rank %d, which is not in the group", begun,
                          op->peer);
            break;
        }
        each.src = each.dst = op->peer;
        each.tag = op->tag;
        each.work = &works[begun];
        st = tensor_message("mst_batch_isend_irecv", op->send, op->buf, op->count, op->dtype, &each);
        if (st != MST_OK) break;
    }
    if (batch) msi_comm_batch_end(comm);
    /* Messages that began before the refused one continue, and the program need not wait for them. */
    for (size_t i = 0; i < begun && st != MST_OK; i++) mst_work_free(works[i]);
    return st;
}

mst_status mst_send_bytes_with(const void *data, size_t len, const mst_call *given) {
    struct msi_call call;
    int peer;
    mst_status st = open_message("mst_send_bytes", true, given, &call, &peer);
    if (st == MST_OK) st = msi_call_buffer("data", data, len);
    if (st != MST_OK) return st;
    call.dtype = MST_U8;
    call.element = 1;
    call.count = len;
    call.variable = true;
    return run_message(&call, peer, data, NULL);
}

mst_status mst_recv_bytes_with(mst_bytes *out, const mst_call *given) {
    struct msi_call call;
    int peer;
    mst_status st = open_message("mst_recv_bytes", false, given, &call, &peer);
    if (st == MST_OK) st = msi_call_buffer("out", out, 1);
    if (st != MST_OK) return st;
    call.dtype = MST_U8;
    call.element = 1;
    *out = (mst_bytes){NULL, 0};
    call.variable = true;
    st = run_message(&call, peer, NULL, out);
    if (st != MST_OK) mst_bytes_free(out);
    return st;
}
