/* calls.c - each call of comm.h with each kind of invalid argument, on one rank. */
#include "misuse.h"

#include <stdio.h>
#include <string.h>

/* The arguments of a call. Each call takes those that it has. */
struct args {
    bool no_out, no_in;
    size_t count;
    mst_dtype dtype;
    int peer;
    mst_call call;
};

static void *out_of(const struct args *a) {
    return a->no_out ? NULL : out;
}
static const void *in_of(const struct args *a) {
    return a->no_in ? NULL : in;
}
static void *const *outs_of(const struct args *a) {
    return a->no_out ? NULL : outs;
}
static const void *const *ins_of(const struct args *a) {
    return a->no_in ? NULL : ins;
}

static mst_status barrier(const struct args *a) {
    return mst_barrier_with(&a->call);
}
static mst_status monitored_barrier(const struct args *a) {
    return mst_monitored_barrier_with(&a->call);
}
static mst_status broadcast(const struct args *a) {
    return mst_broadcast_with(out_of(a), a->count, a->dtype, &a->call);
}
static mst_status all_reduce(const struct args *a) {
    return mst_all_reduce_with(out_of(a), a->count, a->dtype, &a->call);
}
static mst_status inference_all_reduce(const struct args *a) {
    return mst_inference_all_reduce_with(out_of(a), a->count, a->dtype, &a->call);
}
static mst_status reduce(const struct args *a) {
    return mst_reduce_with(out_of(a), a->count, a->dtype, &a->call);
}
static mst_status scan(const struct args *a) {
    return mst_scan_with(out_of(a), a->count, a->dtype, &a->call);
}
static mst_status exscan(const struct args *a) {
    return mst_exscan_with(out_of(a), a->count, a->dtype, &a->call);
}
static mst_status all_gather_into_tensor(const struct args *a) {
    return mst_all_gather_into_tensor_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status allgather_fn(const struct args *a) {
    return mst_allgather_fn_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status reduce_scatter_tensor(const struct args *a) {
    return mst_reduce_scatter_tensor_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status reduce_scatter_fn(const struct args *a) {
    return mst_reduce_scatter_fn_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status gather(const struct args *a) {
    return mst_gather_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status scatter(const struct args *a) {
    return mst_scatter_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status all_to_all_single(const struct args *a) {
    return mst_all_to_all_single_with(out_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status all_gather(const struct args *a) {
    return mst_all_gather_with(outs_of(a), in_of(a), a->count, a->dtype, &a->call);
}
static mst_status reduce_scatter(const struct args *a) {
    return mst_reduce_scatter_with(out_of(a), ins_of(a), a->count, a->dtype, &a->call);
}
static mst_status all_to_all(const struct args *a) {
    return mst_all_to_all_with(outs_of(a), ins_of(a), a->count, a->dtype, &a->call);
}
static mst_status all_reduce_coalesced(const struct args *a) {
    return mst_all_reduce_coalesced_with(outs_of(a), &a->count, 1, a->dtype, &a->call);
}
static mst_status broadcast_coalesced(const struct args *a) {
    return mst_broadcast_coalesced_with(outs_of(a), &a->count, 1, a->dtype, &a->call);
}
static mst_status all_gather_coalesced(const struct args *a) {
    return mst_all_gather_coalesced_with(outs_of(a), ins_of(a), &a->count, 1, a->dtype, &a->call);
}
static mst_status reduce_scatter_coalesced(const struct args *a) {
    return mst_reduce_scatter_coalesced_with(outs_of(a), ins_of(a), &a->count, 1, a->dtype, &a->call);
}
static mst_status send(const struct args *a) {
    return mst_send_with(in_of(a), a->count, a->dtype, a->peer, &a->call);
}
static mst_status recv(const struct args *a) {
    return mst_recv_with(out_of(a), a->count, a->dtype, a->peer, &a->call);
}
static mst_status isend(const struct args *a) {
    mst_work *begun = NULL;
    mst_call call = a->call;
    call.work = &begun;
    return mst_isend_with(in_of(a), a->count, a->dtype, a->peer, &call);
}
static mst_status irecv(const struct args *a) {
    mst_work *begun = NULL;
    mst_call call = a->call;
    call.work = &begun;
    return mst_irecv_with(out_of(a), a->count, a->dtype, a->peer, &call);
}
static mst_status send_recv(const struct args *a) {
    return mst_send_recv_with(out_of(a), a->count, a->peer, in_of(a), a->count, a->peer, a->dtype, &a->call);
}
static mst_status probe(const struct args *a) {
    mst_message found;
    return mst_probe_with(a->peer, &found, &a->call);
}
static mst_status iprobe(const struct args *a) {
    bool found;
    return mst_iprobe_with(a->peer, a->no_out ? NULL : &found, NULL, &a->call);
}
static mst_status batch_isend_irecv(const struct args *a) {
    mst_work *begun = NULL;
    mst_p2p op = {out_of(a), a->count, a->dtype, a->peer, 0, false};
    return mst_batch_isend_irecv_with(&op, 1, &begun, &a->call);
}
static mst_status broadcast_bytes(const struct args *a) {
    mst_bytes bytes = {0};
    mst_status st = mst_broadcast_bytes_with(a->no_out ? NULL : &bytes, in_of(a), 4, &a->call);
    mst_bytes_free(&bytes);
    return st;
}
static mst_status all_gather_bytes(const struct args *a) {
    mst_bytes bytes[RANKS_MAX] = {{0}};
    mst_status st = mst_all_gather_bytes_with(a->no_out ? NULL : bytes, in_of(a), 4, &a->call);
    mst_bytes_free(bytes);
    return st;
}
static mst_status gather_bytes(const struct args *a) {
    mst_bytes bytes[RANKS_MAX] = {{0}};
    mst_status st = mst_gather_bytes_with(a->no_out ? NULL : bytes, in_of(a), 4, &a->call);
    mst_bytes_free(bytes);
    return st;
}
static mst_status scatter_bytes(const struct args *a) {
    mst_bytes bytes = {0}, all[RANKS_MAX] = {{(char *)in, 4}};
    mst_status st = mst_scatter_bytes_with(a->no_out ? NULL : &bytes, a->no_in ? NULL : all, &a->call);
    mst_bytes_free(&bytes);
    return st;
}
static mst_status send_bytes(const struct args *a) {
    return mst_send_bytes_with(in_of(a), 4, a->peer, &a->call);
}
static mst_status recv_bytes(const struct args *a) {
    mst_bytes bytes = {0};
    mst_status st = mst_recv_bytes_with(a->no_out ? NULL : &bytes, a->peer, &a->call);
    mst_bytes_free(&bytes);
    return st;
}
static mst_status alloc(const struct args *a) {
    void *memory = NULL;
    mst_status st = mst_alloc_with(64, a->no_out ? NULL : &memory, &a->call);
    mst_free(memory);
    return st;
}

enum {
    TENSOR = 1,  /* has a count and a dtype */
    REDUCES = 2, /* has an op */
    ROOTED = 4,
    PEER = 8,
    BLOCKS = 16,  /* always: it does not use .work */
    MEMORY = 32,  /* a buffer, not an operation of the group */
    MESSAGE = 64, /* has a tag */
};

#define REDUCTION "op deterministic factor"

/* A call, the options of single calls that it uses, and the names of its buffers. */
static const struct call {
    const char *name;
    mst_status (*run)(const struct args *a);
    unsigned has;
    const char *used, *out, *in;
} calls[] = {
    {"mst_barrier", barrier, 0, "", NULL, NULL},
    {"mst_monitored_barrier", monitored_barrier, 0, "wait_all_ranks", NULL, NULL},
    {"mst_broadcast", broadcast, TENSOR | ROOTED, "root in", "buf", NULL},
    {"mst_all_reduce", all_reduce, TENSOR | REDUCES, REDUCTION " in quantize", "buf", NULL},
    {"mst_inference_all_reduce", inference_all_reduce, TENSOR | REDUCES, REDUCTION " in", "buf", NULL},
    {"mst_reduce", reduce, TENSOR | REDUCES | ROOTED, REDUCTION " root in", "buf", NULL},
    {"mst_scan", scan, TENSOR | REDUCES, REDUCTION " in", "buf", NULL},
    {"mst_exscan", exscan, TENSOR | REDUCES, REDUCTION " in", "buf", NULL},
    {"mst_all_gather_into_tensor", all_gather_into_tensor, TENSOR, "", "out", "in"},
    {"mst_allgather_fn", allgather_fn, TENSOR, "", "out", "in"},
    {"mst_reduce_scatter_tensor", reduce_scatter_tensor, TENSOR | REDUCES, REDUCTION, "out", "in"},
    {"mst_reduce_scatter_fn", reduce_scatter_fn, TENSOR | REDUCES, REDUCTION, "out", "in"},
    {"mst_gather", gather, TENSOR | ROOTED, "root counts", "out", "in"},
    {"mst_scatter", scatter, TENSOR | ROOTED, "root counts", "out", "in"},
    {"mst_all_to_all_single", all_to_all_single, TENSOR, "in_splits out_splits", "out", "in"},
    {"mst_all_gather", all_gather, TENSOR, "counts", "outs", "in"},
    {"mst_reduce_scatter", reduce_scatter, TENSOR | REDUCES, REDUCTION " counts", "out", "ins"},
    {"mst_all_to_all", all_to_all, TENSOR, "in_splits out_splits", "outs", "ins"},
    {"mst_all_reduce_coalesced", all_reduce_coalesced, TENSOR | REDUCES, REDUCTION " quantize", "bufs", NULL},
    {"mst_broadcast_coalesced", broadcast_coalesced, TENSOR | ROOTED, "root", "bufs", NULL},
    {"mst_all_gather_coalesced", all_gather_coalesced, TENSOR, "", "outs", "ins"},
    {"mst_reduce_scatter_coalesced", reduce_scatter_coalesced, TENSOR | REDUCES, REDUCTION, "outs", "ins"},
    {"mst_send", send, TENSOR | PEER | MESSAGE, "tag", NULL, "buf"},
    {"mst_recv", recv, TENSOR | PEER | MESSAGE, "tag sender message", "buf", NULL},
    {"mst_isend", isend, TENSOR | PEER | MESSAGE, "tag", NULL, "buf"},
    {"mst_irecv", irecv, TENSOR | PEER | MESSAGE, "tag sender message", "buf", NULL},
    {"mst_send_recv", send_recv, TENSOR | PEER | MESSAGE | BLOCKS, "tag sender message", "out", "in"},
    {"mst_probe", probe, PEER | MESSAGE | BLOCKS, "tag", NULL, NULL},
    {"mst_iprobe", iprobe, PEER | MESSAGE | BLOCKS, "tag", "found", NULL},
    {"mst_batch_isend_irecv", batch_isend_irecv, TENSOR | PEER | BLOCKS, "", "buf", NULL},
    {"mst_broadcast_bytes", broadcast_bytes, ROOTED | BLOCKS, "root", "out", "data"},
    {"mst_all_gather_bytes", all_gather_bytes, BLOCKS, "", "outs", "data"},
    {"mst_gather_bytes", gather_bytes, ROOTED | BLOCKS, "root", "outs", "data"},
    {"mst_scatter_bytes", scatter_bytes, ROOTED | BLOCKS, "root", "out", "ins"},
    {"mst_send_bytes", send_bytes, PEER | MESSAGE | BLOCKS, "tag", NULL, "data"},
    {"mst_recv_bytes", recv_bytes, PEER | MESSAGE | BLOCKS, "tag sender message", "out", NULL},
    {"mst_alloc", alloc, BLOCKS | MEMORY, "", "memory", NULL},
};

static const size_t one[RANKS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
static int sender;
static mst_message message;

static void set_op(mst_call *c) {
    c->op = MST_MAX;
}
static void set_root(mst_call *c) {
    c->root = 1;
}
static void set_tag(mst_call *c) {
    c->tag = 1;
}
static void set_deterministic(mst_call *c) {
    c->deterministic = true;
}
static void set_wait_all_ranks(mst_call *c) {
    c->wait_all_ranks = true;
}
static void set_factor(mst_call *c) {
    c->factor = 0.5;
}
static void set_in(mst_call *c) {
    c->in = in;
}
static void set_counts(mst_call *c) {
    c->counts = one;
}
static void set_in_splits(mst_call *c) {
    c->in_splits = one;
}
static void set_out_splits(mst_call *c) {
    c->out_splits = one;
}
static void set_sender(mst_call *c) {
    c->sender = &sender;
}
static void set_quantize(mst_call *c) {
    c->quantize = MST_Q8;
}
static void set_message(mst_call *c) {
    c->message = &message;
}
static const struct {
    const char *name;
    void (*set)(mst_call *c);
} options[] = {{"op", set_op},
               {"root", set_root},
               {"tag", set_tag},
               {"deterministic", set_deterministic},
               {"wait_all_ranks", set_wait_all_ranks},
               {"factor", set_factor},
               {"in", set_in},
               {"counts", set_counts},
               {"in_splits", set_in_splits},
               {"out_splits", set_out_splits},
               {"sender", set_sender},
               {"message", set_message},
               {"quantize", set_quantize}};

/* Whether the list of words contains the word. */
static bool uses(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == 0)) return true;
    return false;
}

static struct args good(void) {
    return (struct args){.count = 1,
                         .dtype = MST_F32,
                         .call = {.size = sizeof(mst_call), .site = MST_HERE, .timeout_ms = 20000}};
}

/* Makes the call and checks that the error names the call and matches the pattern. */
static void expect(const struct call *c, const char *what, const char *wanted, const char *pattern,
                   const struct args *a) {
    char name[96], both[160];
    snprintf(name, sizeof name, "%s %s", c->name, what);
    snprintf(both, sizeof both, "%s\\b.*%s", c->name, pattern);
    check(name, wanted, both, c->run(a));
}

static void unused_options(const struct call *c) {
    mst_work *begun = NULL;
    char what[64], pattern[64];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (uses(c->used, options[i].name)) continue;
        struct args a = good();
        options[i].set(&a.call);
        snprintf(what, sizeof what, "unused .%s", options[i].name);
        snprintf(pattern, sizeof pattern, "does not use \\.%s\\b", options[i].name);
        expect(c, what, "MST_ERR_INVALID", pattern, &a);
    }
    struct args a = good();
    a.call.work = &begun;
    if (c->has & BLOCKS) expect(c, "unused .work", "MST_ERR_INVALID|MST_ERR_UNSUPPORTED", "\\.work\\b", &a);
}

static void tensors(const struct call *c) {
    static const int dtypes[] = {0, -1, MST_DTYPE_COUNT, 1000};
    char what[64];
    if (!(c->has & TENSOR)) return;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct args a = good();
        a.dtype = (mst_dtype)dtypes[i];
        snprintf(what, sizeof what, "dtype %d", dtypes[i]);
        expect(c, what, "MST_ERR_INVALID", "dtype", &a);
    }
    struct args a = good();
    a.count = SIZE_MAX / 2;
    expect(c, "count SIZE_MAX / 2", "MST_ERR_INVALID|MST_ERR_LIMIT", "count", &a);
}

static void buffers(const struct call *c) {
    char pattern[64];
    struct args a = good();
    a.no_out = true;
    snprintf(pattern, sizeof pattern, "\\b%s\\b(\\[0\\])? is NULL", c->out ? c->out : "");
    if (c->out) expect(c, "NULL output", "MST_ERR_INVALID", pattern, &a);
    a = good();
    a.no_in = true;
    snprintf(pattern, sizeof pattern, "\\b%s\\b(\\[0\\])? is NULL", c->in ? c->in : "");
    if (c->in) expect(c, "NULL input", "MST_ERR_INVALID", pattern, &a);
}

static void reductions(const struct call *c) {
    struct args a = good();
    if (!(c->has & REDUCES)) return;
    a.call.op = MST_OP_COUNT;
    expect(c, "op too large", "MST_ERR_INVALID", "\\.op\\b", &a);
    a.call.op = (mst_op)-1;
    expect(c, "op -1", "MST_ERR_INVALID", "\\.op\\b", &a);
    a.call.op = MST_BAND;
    expect(c, "BAND of f32", "MST_ERR_INVALID", "BAND.*f32", &a);
    a.call.op = MST_PREMUL_SUM;
    a.dtype = MST_I32;
    expect(c, "PREMUL_SUM of i32", "MST_ERR_INVALID", "PREMUL_SUM.*i32", &a);
    a = good();
    a.call.factor = 0.5;
    expect(c, "factor of SUM", "MST_ERR_INVALID", "\\.factor\\b", &a);
}

static void ranks(const struct call *c) {
    static const int wrong[] = {1, -3, 1 << 30};
    char what[64];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct args a = good();
        a.call.root = wrong[i];
        snprintf(what, sizeof what, "root %d", wrong[i]);
        if (c->has & ROOTED) expect(c, what, "MST_ERR_INVALID", "\\.root\\b", &a);
        a = good();
        a.peer = wrong[i];
        snprintf(what, sizeof what, "peer %d", wrong[i]);
        if (c->has & PEER) expect(c, what, "MST_ERR_INVALID", "\\b(src|dst|peer)\\b", &a);
    }
    struct args a = good();
    a.call.tag = MST_ANY_TAG;
    if (c->has & MESSAGE && c->in) expect(c, "any tag", "MST_ERR_INVALID", "\\.tag\\b", &a);
    a.call.tag = -2;
    if (c->has & MESSAGE) expect(c, "tag -2", "MST_ERR_INVALID", "\\.tag\\b", &a);
}

static void common_options(const struct call *c) {
    struct args a = good();
    mst_group *freed;
    a.call.timeout_ms = -1;
    expect(c, "timeout -1", "MST_ERR_INVALID", "\\.timeout_ms\\b", &a);
    a = good();
    a.call.positional = (const void *)in;
    expect(c, "too many positional arguments", "MST_ERR_INVALID", "too many positional", &a);
    a.call.positional = MST_ARGUMENT_IS_MISSING;
    expect(c, "too few positional arguments", "MST_ERR_INVALID", "too few positional", &a);
    a = good();
    a.call.size = 3;
    expect(c, "size of the options 3", "MST_ERR_INVALID", "(size|\\.work)\\b", &a);
    a = good();
    if (mst_new_group(&me, 1, &freed) == MST_OK && mst_destroy_process_group(freed) == MST_OK) {
        a.call.group = freed;
        expect(c, "freed group", "MST_ERR_STATE", "group", &a);
    }
    a.call.group = (mst_group *)(void *)out;
    expect(c, "pointer that is no group", "MST_ERR_STATE", "group", &a);
}

void list_calls(void) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) printf("%s\n", calls[i].name);
}

int misuse_call(const char *name) {
    const struct call *c = calls;
    while (c < calls + sizeof calls / sizeof *calls && strcmp(c->name, name) != 0) c++;
    if (c == calls + sizeof calls / sizeof *calls) return 2;
    struct args a = good();
    expect(c, "without a world", "MST_ERR_STATE", "mst_init", &a);
    check("mst_init", "MST_OK", "", mst_init());
    unused_options(c);
    tensors(c);
    buffers(c);
    reductions(c);
    ranks(c);
    common_options(c);
    float value = 1;
    check("mst_all_reduce afterwards", "MST_OK", "", mst_all_reduce(&value, 1, MST_F32));
    check("mst_destroy_process_group", "MST_OK", "", mst_destroy_process_group(NULL));
    expect(c, "after the world", "MST_ERR_STATE", "mst_init", &a);
    return 0;
}
