/* p2p.c - the public point-to-point calls. */
#include "base/error.h"
#include "group/call.h"

#include <stdio.h>

static mst_status check_peer(struct msi_call *call, bool send, int peer) {
    const char *name = send ? "dst" : "src";
    return !send && peer == MST_ANY_SOURCE ? MST_OK : msi_call_peer(call, name, peer);
}

static mst_status check_tag(bool send, int tag) {
    if (tag >= 0 || (!send && tag == MST_ANY_TAG)) return MST_OK;
    return msi_fail(MST_ERR_INVALID, send ? "use tags from 0 up" : "use tags from 0 up, or MST_ANY_TAG",
                    ".tag is %d", tag);
}

/* Opens a call and checks its peer. */
static inline mst_status open_message(const char *name, bool send, int peer, const mst_call *given,
                                      struct msi_call *call) {
    mst_status st = msi_call_open_as(name, send ? MSI_KIND_SEND : MSI_KIND_RECV, given, call);
    if (st == MST_OK) st = check_tag(send, call->options->tag);
    if (st == MST_OK) st = check_peer(call, send, peer);
    return st;
}

/* The same with profiling on. */
__attribute__((noinline)) static bool message_now_watched(struct msi_call *call, struct msi_comm *comm,
                                                          struct msi_op *op, unsigned watch) {
    struct msi_op_trace trace;
    call->entered = msi_tick();
    uint64_t noted = msi_call_note(call);
    bool through = msi_comm_message_now(comm, op);
    msi_call_leave(noted, MST_OK);
    if (!through) return false;
    if (watch & MSI_SINK_CAUSE) msi_world_take_cause_back(call->group->world);
    msi_count_up(&call->group->messages);
    call->number = msi_comm_message_number(comm, op);
    msi_call_trace(call, watch, &trace);
    msi_op_trace_end(&trace, MST_OK);
    return true;
}

/* False: nothing has happened. */
static inline bool message_now(struct msi_call *call, struct msi_op *op) {
    if (call->options->work || call->options->stream) return false;
    unsigned watch = msi_sinks_on();
    struct msi_comm *comm = atomic_load_explicit(&call->group->comm, memory_order_acquire); /* its maker's */
    if (!comm || call->group->backends.of[MST_MEMORY_CUDA]) return false; /* the buffer may be the device's */
    if (watch) return message_now_watched(call, comm, op, watch);
    if (!msi_comm_message_now(comm, op)) return false;
    msi_count_up(&call->group->messages);
    return true;
}

/* Describes a message of call->count elements: as much of it as a message that is done at once needs. */
static inline void describe(struct msi_call *call, int peer, const void *buf, struct msi_op *op) {
    bool send = call->kind == MSI_KIND_SEND;
    op->desc = (mst_backend_op){.kind = send ? MST_KIND_SEND : MST_KIND_RECV,
                                .dtype = call->dtype,
                                .element = call->element,
                                .count = call->count,
                                .peer = peer,
                                .tag = call->options->tag,
                                .in = send ? buf : NULL,
                                .out = send ? NULL : (void *)(uintptr_t)buf};
    op->bytes = NULL;
    op->sender = send ? NULL : call->options->sender;
    op->message = send ? NULL : call->options->message;
    call->op = op;
}

/* Runs a message. bytes: where a receive of variable length puts them. */
static mst_status run_message(struct msi_call *call, int peer, const void *buf, mst_bytes *bytes) {
    struct msi_op op;
    describe(call, peer, buf, &op);
    op.bytes = bytes;
    mst_status st = message_now(call, &op) ? MST_OK : msi_call_submit_message(call, &op);
    call->op = NULL;
    return st;
}

static mst_status tensor_message(const char *name, const mst_p2p *m, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_message(name, m->send, m->peer, given, &call);
    if (st == MST_OK) st = msi_call_tensor(&call, 1, m->count, m->dtype);
    if (st == MST_OK) st = msi_call_buffer("buf", m->buf, m->count);
    return st == MST_OK ? run_message(&call, m->peer, m->buf, NULL) : st;
}

/* The message of a call; its tag is in the options. */
static mst_p2p to_send(const void *buf, size_t count, mst_dtype dtype, int dst) {
    return (mst_p2p){(void *)(uintptr_t)buf, count, dtype, dst, 0, true};
}
static mst_p2p to_receive(void *buf, size_t count, mst_dtype dtype, int src) {
    return (mst_p2p){buf, count, dtype, src, 0, false};
}

mst_status mst_send_with(const void *buf, size_t count, mst_dtype dtype, int dst, const mst_call *call) {
    mst_p2p m = to_send(buf, count, dtype, dst);
    return tensor_message("mst_send", &m, call);
}

mst_status mst_recv_with(void *buf, size_t count, mst_dtype dtype, int src, const mst_call *call) {
    mst_p2p m = to_receive(buf, count, dtype, src);
    return tensor_message("mst_recv", &m, call);
}

static mst_status insist_on_work(const char *name, const mst_call *call) {
    msi_call_begin(name, call ? &call->site : NULL, msi_call_get_rank());
    if (call && call->size > offsetof(mst_call, work) && call->work) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "give the address of a work, or use the blocking call", ".work is NULL");
}

mst_status mst_isend_with(const void *buf, size_t count, mst_dtype dtype, int dst, const mst_call *call) {
    mst_p2p m = to_send(buf, count, dtype, dst);
    mst_status st = insist_on_work("mst_isend", call);
    return st == MST_OK ? tensor_message("mst_isend", &m, call) : st;
}

mst_status mst_irecv_with(void *buf, size_t count, mst_dtype dtype, int src, const mst_call *call) {
    mst_p2p m = to_receive(buf, count, dtype, src);
    mst_status st = insist_on_work("mst_irecv", call);
    return st == MST_OK ? tensor_message("mst_irecv", &m, call) : st;
}

/* Fails if a call that does not use an option has it. */
static mst_status reject(const struct msi_call *call, bool given, const char *option, const char *remedy) {
    return given ? msi_fail(MST_ERR_INVALID, remedy, "%s does not use .%s", call->name, option) : MST_OK;
}

/* Checks one half of a send_recv. */
static mst_status check_half(struct msi_call *call, const mst_p2p *m) {
    mst_status st = msi_call_tensor(call, 1, m->count, m->dtype);
    if (st != MST_OK || m->peer == MST_NO_RANK) return st;
    st = check_tag(m->send, call->options->tag);
    if (st == MST_OK) st = check_peer(call, m->send, m->peer);
    if (st == MST_OK) st = msi_call_buffer(m->send ? "in" : "out", m->buf, m->count);
    return st;
}

static mst_status check_overlap(const mst_p2p *send, const mst_p2p *receive) {
    uintptr_t in = (uintptr_t)send->buf, out = (uintptr_t)receive->buf;
    size_t element = mst_dtype_size(send->dtype), sent = send->count * element,
           got = receive->count * element;
    if (send->peer == MST_NO_RANK || receive->peer == MST_NO_RANK || in >= out + got || out >= in + sent)
        return MST_OK;
    return msi_fail(MST_ERR_INVALID, "give two buffers", "out and in overlap");
}

/* Both halves are under way together. The engine may have to begin them together, too. */
static mst_status exchange(struct msi_call *send, const struct msi_op *out, struct msi_call *receive,
                           const struct msi_op *in) {
    struct msi_comm *comm;
    mst_memory memory;
    mst_status st = msi_group_comm(send->group, out->desc.in, &comm, &memory);
    if (st != MST_OK) return st;
    uint64_t noted = msi_call_note(receive);
    bool batch = msi_comm_batch_begin(comm);
    st = msi_call_start_message(send, out);
    bool sends = st == MST_OK;
    if (sends) st = msi_call_start_message(receive, in);
    bool receives = sends && st == MST_OK;
    if (batch) msi_comm_batch_end(comm);
    mst_status sent = sends ? msi_comm_complete(send->work) : MST_OK;
    if (receives) st = msi_comm_complete(receive->work); /* the error of the last one that failed is kept */
    return msi_call_leave(noted, st != MST_OK ? st : sent);
}

/* Sends only. There is no message to describe. */
static mst_status send_half(struct msi_call *send, const mst_p2p *m) {
    const mst_call *o = send->options;
    mst_status st = m->peer != MST_NO_RANK ? run_message(send, m->peer, m->buf, NULL) : MST_OK;
    if (st == MST_OK && o->sender) *o->sender = MST_NO_RANK;
    if (st == MST_OK && o->message) *o->message = (mst_message){MST_NO_RANK, MST_ANY_TAG, 0};
    return st;
}

static mst_status run_halves(struct msi_call *receive, const mst_p2p *to_receive, const mst_p2p *to_send) {
    struct msi_call send = *receive;
    struct msi_op out, in;
    send.kind = MSI_KIND_SEND;
    mst_status st = check_half(&send, to_send);
    if (st == MST_OK) st = check_half(receive, to_receive);
    if (st == MST_OK) st = check_overlap(to_send, to_receive);
    if (st != MST_OK) return st;
    if (to_receive->peer == MST_NO_RANK) return send_half(&send, to_send);
    describe(&send, to_send->peer, to_send->buf, &out);
    if (to_send->peer == MST_NO_RANK || message_now(&send, &out))
        return run_message(receive, to_receive->peer, to_receive->buf, NULL);
    describe(receive, to_receive->peer, to_receive->buf, &in);
    st = exchange(&send, &out, receive, &in);
    receive->op = NULL;
    return st;
}

mst_status mst_send_recv_with(void *out, size_t out_count, int src, const void *in, size_t in_count, int dst,
                              mst_dtype dtype, const mst_call *given) {
    static const char *const remedy = "use mst_batch_isend_irecv";
    mst_p2p receive = to_receive(out, out_count, dtype, src), send = to_send(in, in_count, dtype, dst);
    struct msi_call call;
    mst_status st = msi_call_open_as("mst_send_recv", MSI_KIND_RECV, given, &call);
    if (st == MST_OK) st = reject(&call, call.options->work, "work", remedy);
    if (st == MST_OK) st = reject(&call, call.options->stream, "stream", remedy);
    return st == MST_OK ? run_halves(&call, &receive, &send) : st;
}

static mst_status probe(int src, bool wait, bool *found, mst_message *message, const mst_call *given) {
    static const char *const remedy = "leave it out";
    struct msi_call call;
    mst_status st = open_message(wait ? "mst_probe" : "mst_iprobe", false, src, given, &call);
    if (st == MST_OK) st = reject(&call, call.options->sender, "sender", remedy);
    if (st == MST_OK) st = reject(&call, call.options->message, "message", remedy);
    if (st == MST_OK) st = reject(&call, call.options->work, "work", remedy);
    if (st == MST_OK) st = reject(&call, call.options->stream, "stream", remedy);
    if (st == MST_OK) st = msi_call_buffer("found", found, !wait);
    if (st != MST_OK) return st;
    mst_message got = {.sender = -1};
    struct msi_op op;
    call.dtype = MST_U8;
    call.element = 1;
    describe(&call, src, NULL, &op);
    op.message = &got;
    st = msi_call_probe(&call, &op, wait);
    if (st != MST_OK) return st;
    if (!wait) *found = got.sender >= 0;
    if (message && got.sender >= 0) *message = got;
    return MST_OK;
}

mst_status mst_probe_with(int src, mst_message *message, const mst_call *call) {
    return probe(src, true, NULL, message, call);
}

mst_status mst_iprobe_with(int src, bool *found, mst_message *message, const mst_call *call) {
    return probe(src, false, found, message, call);
}

/* Checks all messages of a batch before one begins. */
static mst_status check_batch(struct msi_call *call, const mst_p2p *ops, size_t n) {
    char name[48];
    mst_status st = MST_OK;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        const mst_p2p *op = &ops[i];
        struct msi_call each = *call;
        snprintf(name, sizeof name, "ops[%zu].peer", i);
        if (op->send || op->peer != MST_ANY_SOURCE) st = msi_call_peer(call, name, op->peer);
        if (st == MST_OK) st = check_tag(op->send, op->tag);
        if (st == MST_OK) st = msi_call_tensor(&each, 1, op->count, op->dtype);
        if (st == MST_OK) st = msi_call_buffer("buf", op->buf, op->count);
    }
    return st;
}

/* The program may change the buffers after a failure. Returns the failure. */
static mst_status withdraw(mst_work **works, size_t n, const struct msi_saved_error *failure) {
    for (size_t i = 0; i < n; i++) {
        msi_comm_withdraw(works[i]);
        works[i] = NULL;
    }
    return msi_error_restore(failure);
}

mst_status mst_batch_isend_irecv_with(const mst_p2p *ops, size_t n, mst_work **works, const mst_call *given) {
    struct msi_call call;
    mst_status st = msi_call_open_as("mst_batch_isend_irecv", MSI_KIND_NONE, given, &call);
    if (st == MST_OK)
        st = reject(&call, call.options->work, "work", "leave it out: works has one for each message");
    if (st == MST_OK && n && (!ops || !works))
        st = msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", ops ? "works" : "ops");
    if (st != MST_OK) return st;
    mst_call each = *call.options;
    each.size = sizeof each;
    size_t begun = 0;
    struct msi_comm *comm;
    mst_memory memory;
    st = check_batch(&call, ops, n);
    if (st == MST_OK) st = msi_group_comm(call.group, n ? ops[0].buf : NULL, &comm, &memory);
    bool batch = st == MST_OK && n > 1 && msi_comm_batch_begin(comm);
    for (; begun < n && st == MST_OK; begun++) {
        each.tag = ops[begun].tag;
        each.work = &works[begun];
        st = tensor_message("mst_batch_isend_irecv", &ops[begun], &each);
        if (st != MST_OK) break;
    }
    struct msi_saved_error failure;
    if (st != MST_OK) msi_error_save(&failure, st);
    if (batch) msi_comm_batch_end(comm);
    return st == MST_OK ? st : withdraw(works, begun, &failure);
}

/* Opens a message of variable length, which always blocks. */
static mst_status open_bytes(const char *name, bool send, int peer, const mst_call *given,
                             struct msi_call *call) {
    mst_status st = open_message(name, send, peer, given, call);
    if (st == MST_OK && call->options->work)
        st = msi_fail(MST_ERR_UNSUPPORTED, "leave .work out",
                      "calls on byte strings have no non-blocking form");
    return st;
}

mst_status mst_send_bytes_with(const void *data, size_t len, int dst, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_bytes("mst_send_bytes", true, dst, given, &call);
    if (st == MST_OK) st = msi_call_buffer("data", data, len);
    if (st != MST_OK) return st;
    call.dtype = MST_U8;
    call.element = 1;
    call.count = len;
    call.variable = true;
    return run_message(&call, dst, data, NULL);
}

mst_status mst_recv_bytes_with(mst_bytes *out, int src, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_bytes("mst_recv_bytes", false, src, given, &call);
    if (st == MST_OK) st = msi_call_buffer("out", out, 1);
    if (st != MST_OK) return st;
    call.dtype = MST_U8;
    call.element = 1;
    *out = (mst_bytes){NULL, 0};
    call.variable = true;
    st = run_message(&call, src, NULL, out);
    if (st != MST_OK) mst_bytes_free(out);
    return st;
}
