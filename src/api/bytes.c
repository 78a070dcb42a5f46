/* bytes.c - collectives on byte strings: one operation for the lengths, one for the bytes. */
#include "base/error.h"
#include "group/call.h"

#include <stdlib.h>
#include <string.h>

/* Opens a call. These calls block always. */
static mst_status open_bytes(const char *name, enum msi_kind kind, const mst_call *given, bool rooted,
                             struct msi_call *call) {
    mst_status st = msi_call_open_as(name, kind, given, call);
    if (st == MST_OK && call->options->work)
        st = msi_fail(MST_ERR_UNSUPPORTED, "leave .work out",
                      ".work is given, but calls on byte strings have no non-blocking form");
    if (st == MST_OK && (call->options->in || call->options->counts))
        st = msi_fail(MST_ERR_INVALID, "leave it out", "%s does not use .%s", name,
                      call->options->in ? "in" : "counts");
    if (st == MST_OK && rooted) st = msi_call_root(call);
    if (st != MST_OK) return st;
    call->copy = *call->options; /* to be changed for the operations that it consists of */
    call->options = &call->copy;
    return MST_OK;
}

/* Both operations have one profiler record. */
static struct msi_whole begin_bytes(struct msi_call *call) {
    return (struct msi_whole){.name = call->name,
                              .kind = call->kind,
                              .dtype = MST_U8,
                              .form = MSI_SIGNED_BYTES,
                              .root = call->root,
                              .options = call->options,
                              .group = call->group};
}

static void last_part(struct msi_whole *whole, uint64_t bytes) {
    whole->bytes = bytes;
    whole->last = true;
}

static mst_status make_room(mst_bytes *bytes, size_t len) {
    char *data = malloc(len + 1);
    if (!data) return msi_fail_memory();
    data[len] = 0;
    *bytes = (mst_bytes){data, len};
    return MST_OK;
}

mst_status mst_broadcast_bytes_with(mst_bytes *out, const void *data, size_t len, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_bytes("mst_broadcast_bytes", MSI_KIND_BROADCAST, given, true, &call);
    bool root = st == MST_OK && call.root == call.group->rank;
    if (st == MST_OK) st = msi_call_buffer("out", out, 1);
    if (root && st == MST_OK) st = msi_call_buffer("data", data, len);
    if (st != MST_OK) return msi_call_reject(&call, st);
    uint64_t bytes = len;
    struct msi_whole whole = begin_bytes(&call);
    *out = (mst_bytes){NULL, 0};
    st = msi_whole_begin(&whole);
    if (st != MST_OK) return st;
    st = mst_broadcast_with(&bytes, 1, MST_U64, call.options);
    if (st == MST_OK) st = make_room(out, (size_t)bytes);
    if (st == MST_OK && root && len) memcpy(out->data, data, len);
    last_part(&whole, bytes);
    if (st == MST_OK) st = mst_broadcast_with(out->data, (size_t)bytes, MST_U8, call.options);
    if (st != MST_OK) mst_bytes_free(out);
    return msi_whole_end(&whole, st);
}

/* An array with an entry per rank. */
static mst_status each_rank(const struct msi_call *call, size_t element, void **array) {
    *array = calloc((size_t)call->group->size, element);
    return *array ? MST_OK : msi_fail_memory();
}

static void free_all(mst_bytes *outs, int n) {
    for (int i = 0; i < n; i++) mst_bytes_free(&outs[i]);
}

/* Allocates bytes for each rank, of these lengths. */
static mst_status make_all(mst_bytes *outs, const uint64_t *lens, int n) {
    for (int i = 0; i < n; i++) outs[i] = (mst_bytes){NULL, 0};
    for (int i = 0; i < n; i++) {
        mst_status st = make_room(&outs[i], (size_t)lens[i]);
        if (st != MST_OK) {
            free_all(outs, n);
            return st;
        }
    }
    return MST_OK;
}

static uint64_t sum(const uint64_t *lens, int n) {
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += lens[i];
    return bytes;
}

/* Both gathers: an all_to_all in which each rank sends the same to all ranks, or only to the root. */
static mst_status gather_parts(struct msi_call *call, mst_bytes *outs, const void *data, size_t len) {
    int n = call->group->size;
    size_t *splits = NULL, *to, *from;
    void **lists = NULL;
    uint64_t *lens = NULL, own = len;
    struct msi_whole whole = begin_bytes(call);
    mst_status st = msi_whole_begin(&whole);
    if (st != MST_OK) return st;
    st = each_rank(call, sizeof *lens, (void **)&lens);
    if (st == MST_OK) st = each_rank(call, 2 * sizeof *splits, (void **)&splits);
    if (st == MST_OK) st = each_rank(call, 2 * sizeof *lists, (void **)&lists);
    call->copy.root = 0; /* call->root has it */
    if (st == MST_OK) st = mst_all_gather_into_tensor_with(lens, &own, 1, MST_U64, call->options);
    bool receives = call->root < 0 || call->root == call->group->rank;
    if (st == MST_OK && receives) st = make_all(outs, lens, n);
    if (st == MST_OK) {
        to = splits;
        from = splits + n;
        last_part(&whole, sum(lens, n));
        for (int r = 0; r < n; r++) {
            to[r] = call->root < 0 || call->root == r ? len : 0;
            from[r] = receives ? (size_t)lens[r] : 0;
            lists[r] = receives ? outs[r].data : NULL;
            lists[n + r] = (void *)(uintptr_t)data;
        }
        call->copy.in_splits = to;
        call->copy.out_splits = from;
        st = mst_all_to_all_with(lists, (const void *const *)(lists + n), 0, MST_U8, call->options);
        if (st != MST_OK && receives) free_all(outs, n);
    }
    free(lens);
    free(splits);
    free(lists);
    return msi_whole_end(&whole, st);
}

mst_status mst_all_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_bytes("mst_all_gather_bytes", MSI_KIND_ALL_GATHER, given, false, &call);
    if (st == MST_OK) st = msi_call_buffer("outs", outs, 1);
    if (st == MST_OK) st = msi_call_buffer("data", data, len);
    return st == MST_OK ? gather_parts(&call, outs, data, len) : msi_call_reject(&call, st);
}

mst_status mst_gather_bytes_with(mst_bytes *outs, const void *data, size_t len, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_bytes("mst_gather_bytes", MSI_KIND_GATHER, given, true, &call);
    if (st == MST_OK && call.root == call.group->rank) st = msi_call_buffer("outs", outs, 1);
    if (st == MST_OK) st = msi_call_buffer("data", data, len);
    return st == MST_OK ? gather_parts(&call, outs, data, len) : msi_call_reject(&call, st);
}

/* Bytes for one rank, and for all ranks together. */
struct length {
    uint64_t own, all;
};

static void list_lengths(struct length *lens, const mst_bytes *ins, int n) {
    uint64_t all = 0;
    for (int r = 0; r < n; r++) all += ins[r].len;
    for (int r = 0; r < n; r++) lens[r] = (struct length){ins[r].len, all};
}

static mst_status scatter_parts(struct msi_call *call, mst_bytes *out, const mst_bytes *ins) {
    int n = call->group->size, me = call->group->rank;
    bool root = call->root == me;
    struct length *lens = NULL, own = {0, 0};
    size_t *splits = NULL;
    void **lists = NULL;
    struct msi_whole whole = begin_bytes(call);
    mst_status st = msi_whole_begin(&whole);
    if (st != MST_OK) return st;
    st = each_rank(call, sizeof *lens, (void **)&lens);
    if (st == MST_OK) st = each_rank(call, 2 * sizeof *splits, (void **)&splits);
    if (st == MST_OK) st = each_rank(call, 2 * sizeof *lists, (void **)&lists);
    if (st == MST_OK && root) list_lengths(lens, ins, n);
    if (st == MST_OK) st = mst_scatter_with(&own, lens, 2, MST_U64, call->options);
    if (st == MST_OK) st = make_room(out, (size_t)own.own);
    if (st == MST_OK) {
        last_part(&whole, own.all);
        for (int r = 0; r < n && root; r++) {
            splits[r] = ins[r].len;
            lists[n + r] = ins[r].data;
        }
        splits[n + call->root] = (size_t)own.own;
        lists[call->root] = out->data;
        call->copy.root = 0;
        call->copy.in_splits = splits;
        call->copy.out_splits = splits + n;
        st = mst_all_to_all_with(lists, (const void *const *)(lists + n), 0, MST_U8, call->options);
        if (st != MST_OK) mst_bytes_free(out);
    }
    free(lens);
    free(splits);
    free(lists);
    return msi_whole_end(&whole, st);
}

static mst_status check_strings(const mst_bytes *ins, int n) {
    if (!ins) return msi_fail(MST_ERR_INVALID, NULL, "ins is NULL");
    for (int r = 0; r < n; r++)
        if (!ins[r].data && ins[r].len) return msi_fail(MST_ERR_INVALID, NULL, "ins[%d] is NULL", r);
    return MST_OK;
}

mst_status mst_scatter_bytes_with(mst_bytes *out, const mst_bytes *ins, const mst_call *given) {
    struct msi_call call;
    mst_status st = open_bytes("mst_scatter_bytes", MSI_KIND_SCATTER, given, true, &call);
    if (st == MST_OK) st = msi_call_buffer("out", out, 1);
    if (st == MST_OK && call.root == call.group->rank) st = check_strings(ins, call.group->size);
    return st == MST_OK ? scatter_parts(&call, out, ins) : msi_call_reject(&call, st);
}
