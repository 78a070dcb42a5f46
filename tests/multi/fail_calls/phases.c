/* phases.c - see phases.h. */
#include "phases.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 3, LARGE = 70000, MOST = 4 }; /* elements; ranks */

static const size_t counts[2] = {SMALL, LARGE};
static _Thread_local int a[MOST * LARGE], b[MOST * LARGE];

static int value(int rank, size_t i) {
    return 10 * rank + (int)(i % 7) + 1;
}

/* Fills in n elements of a rank. */
static void fill(int *out, int rank, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = value(rank, i);
}

/* The sum over ranks 0 to end - 1. */
static int sum(int end, size_t i) {
    int total = 0;
    for (int r = 0; r < end; r++) total += value(r, i);
    return total;
}

static mst_status check_sums(struct rank *r, mst_status st, const int *got, size_t n, size_t first, int end) {
    for (size_t i = 0; i < n && st == MST_OK; i++) r->wrong |= got[i] != sum(end, first + i);
    return st;
}

static mst_status check_of(struct rank *r, mst_status st, const int *got, size_t n, size_t first, int of) {
    for (size_t i = 0; i < n && st == MST_OK; i++) r->wrong |= got[i] != value(of, first + i);
    return st;
}

/* Runs a step with a few elements and one with many. */
static mst_status both(struct rank *r, mst_status (*step)(struct rank *r, size_t n)) {
    for (; r->step < 2; r->step++) {
        mst_status st = step(r, counts[r->step]);
        if (st != MST_OK) return st;
    }
    return MST_OK;
}

/* Collectives */

static mst_status barrier(struct rank *r) {
    return mst_barrier_with(&r->call);
}

static mst_status monitored_barrier(struct rank *r) {
    return mst_monitored_barrier_with(&r->call);
}

static mst_status broadcast_n(struct rank *r, size_t n) {
    mst_call call = r->call;
    call.root = 1;
    fill(a, r->rank, n);
    return check_of(r, mst_broadcast_with(a, n, MST_I32, &call), a, n, 0, 1);
}
static mst_status broadcast(struct rank *r) {
    return both(r, broadcast_n);
}

static mst_status all_reduce_n(struct rank *r, size_t n) {
    fill(a, r->rank, n);
    return check_sums(r, mst_all_reduce_with(a, n, MST_I32, &r->call), a, n, 0, r->size);
}
static mst_status all_reduce(struct rank *r) {
    return both(r, all_reduce_n);
}
mst_status phase_warm_up(struct rank *r) {
    return all_reduce_n(r, 1);
}

static mst_status reduce_n(struct rank *r, size_t n) {
    fill(a, r->rank, n);
    mst_status st = mst_reduce_with(a, n, MST_I32, &r->call);
    return r->rank ? st : check_sums(r, st, a, n, 0, r->size);
}
static mst_status reduce(struct rank *r) {
    return both(r, reduce_n);
}

static mst_status scan_n(struct rank *r, size_t n) {
    fill(a, r->rank, n);
    return check_sums(r, mst_scan_with(a, n, MST_I32, &r->call), a, n, 0, r->rank + 1);
}
static mst_status scan(struct rank *r) {
    return both(r, scan_n);
}

static mst_status all_gather_n(struct rank *r, size_t n) {
    fill(b, r->rank, n);
    mst_status st = mst_all_gather_into_tensor_with(a, b, n, MST_I32, &r->call);
    for (int from = 0; from < r->size; from++) check_of(r, st, a + (size_t)from * n, n, 0, from);
    return st;
}
static mst_status all_gather(struct rank *r) {
    return both(r, all_gather_n);
}

static mst_status reduce_scatter_n(struct rank *r, size_t n) {
    fill(b, r->rank, n * (size_t)r->size);
    mst_status st = mst_reduce_scatter_tensor_with(a, b, n, MST_I32, &r->call);
    return check_sums(r, st, a, n, n * (size_t)r->rank, r->size);
}
static mst_status reduce_scatter(struct rank *r) {
    return both(r, reduce_scatter_n);
}

static mst_status gather_n(struct rank *r, size_t n) {
    fill(b, r->rank, n);
    mst_status st = mst_gather_with(a, b, n, MST_I32, &r->call);
    for (int from = 0; !r->rank && from < r->size; from++) check_of(r, st, a + (size_t)from * n, n, 0, from);
    return st;
}
static mst_status gather(struct rank *r) {
    return both(r, gather_n);
}

static mst_status scatter_n(struct rank *r, size_t n) {
    fill(b, r->rank, n * (size_t)r->size);
    return check_of(r, mst_scatter_with(a, b, n, MST_I32, &r->call), a, n, n * (size_t)r->rank, 0);
}
static mst_status scatter(struct rank *r) {
    return both(r, scatter_n);
}

static mst_status all_to_all_n(struct rank *r, size_t n) {
    fill(b, r->rank, n * (size_t)r->size);
    mst_status st = mst_all_to_all_single_with(a, b, n, MST_I32, &r->call);
    for (int from = 0; from < r->size; from++)
        check_of(r, st, a + (size_t)from * n, n, n * (size_t)r->rank, from);
    return st;
}
static mst_status all_to_all(struct rank *r) {
    return both(r, all_to_all_n);
}

static mst_status lists_n(struct rank *r, size_t n) {
    void *outs[MOST];
    for (int from = 0; from < r->size; from++) outs[from] = a + (size_t)from * n;
    fill(b, r->rank, n);
    mst_status st = mst_all_gather_with(outs, b, n, MST_I32, &r->call);
    for (int from = 0; from < r->size; from++) check_of(r, st, outs[from], n, 0, from);
    return st;
}
static mst_status lists(struct rank *r) {
    return both(r, lists_n);
}

static mst_status coalesced(struct rank *r) {
    void *parts[2] = {a, a + LARGE};
    fill(a, r->rank, SMALL);
    fill(a + LARGE, r->rank, LARGE);
    mst_status st = mst_all_reduce_coalesced_with(parts, counts, 2, MST_I32, &r->call);
    check_sums(r, st, a, SMALL, 0, r->size);
    return check_sums(r, st, a + LARGE, LARGE, 0, r->size);
}

static mst_status bytes(struct rank *r) {
    mst_bytes all[MOST] = {{0}};
    char text[MOST] = {(char)('0' + r->rank)};
    mst_status st = mst_all_gather_bytes_with(all, text, (size_t)r->rank + 1, &r->call);
    for (int from = 0; st == MST_OK && from < r->size; from++) {
        r->wrong |= all[from].len != (size_t)from + 1 || *(char *)all[from].data != '0' + from;
        mst_bytes_free(&all[from]);
    }
    return st;
}

static void add(void *inout, const void *in, size_t n, mst_dtype dtype, void *arg) {
    (void)dtype, (void)arg;
    for (size_t i = 0; i < n; i++) ((int *)inout)[i] += ((const int *)in)[i];
}
static mst_status user_op(struct rank *r) {
    mst_call call = r->call;
    mst_status st = mst_op_create(add, NULL, &call.op);
    if (st != MST_OK) return st;
    fill(a, r->rank, LARGE);
    st = check_sums(r, mst_all_reduce_with(a, LARGE, MST_I32, &call), a, LARGE, 0, r->size);
    mst_op_free(call.op);
    return st;
}

static mst_status work_n(struct rank *r, size_t n) {
    mst_work *work;
    mst_call call = r->call;
    call.work = &work;
    fill(a, r->rank, n);
    mst_status st = mst_all_reduce_with(a, n, MST_I32, &call);
    if (st == MST_OK) st = mst_wait(work);
    return check_sums(r, st, a, n, 0, r->size);
}
static mst_status work(struct rank *r) {
    return both(r, work_n);
}

static mst_status alloc(struct rank *r) {
    int *memory;
    mst_status st = r->memory ? MST_OK : mst_alloc_with(LARGE * sizeof(int), &r->memory, &r->call);
    if (st != MST_OK) return st;
    memory = r->memory;
    fill(memory, r->rank, LARGE);
    return check_sums(r, mst_all_reduce_with(memory, LARGE, MST_I32, &r->call), memory, LARGE, 0, r->size);
}

/* Messages: each rank sends to the next one. */

static int next(const struct rank *r) {
    return (r->rank + 1) % r->size;
}
static int previous(const struct rank *r) {
    return (r->rank + r->size - 1) % r->size;
}

/* Rank 0 sends first, the others receive first. */
static mst_status messages(struct rank *r) {
    for (; r->step < 4; r->step++) {
        size_t n = counts[r->step / 2];
        bool sends = (r->step % 2 == 0) == (r->rank == 0);
        fill(b, r->rank, n);
        mst_status st = sends ? mst_send_with(b, n, MST_I32, next(r), &r->call)
                              : mst_recv_with(a, n, MST_I32, previous(r), &r->call);
        if (st == MST_OK && !sends) check_of(r, st, a, n, 0, previous(r));
        if (st != MST_OK) return st;
    }
    return MST_OK;
}

static mst_status send_recv_n(struct rank *r, size_t n) {
    fill(b, r->rank, n);
    mst_status st = mst_send_recv_with(a, n, previous(r), b, n, next(r), MST_I32, &r->call);
    return check_of(r, st, a, n, 0, previous(r));
}
static mst_status send_recv(struct rank *r) {
    return both(r, send_recv_n);
}

/* The first step has small messages, the second one large messages. */
static mst_status any_source_n(struct rank *r, size_t n) {
    mst_message message;
    mst_call call = r->call;
    call.tag = r->step;
    fill(b, r->rank, n);
    if (r->rank) return mst_send_with(b, n, MST_I32, 0, &call);
    for (; r->received < r->size - 1; r->received++) {
        mst_status st = mst_probe_with(MST_ANY_SOURCE, &message, &call);
        if (st == MST_OK) st = mst_recv_with(a, n, MST_I32, message.sender, &call);
        if (st != MST_OK) return st;
        check_of(r, st, a, n, 0, message.sender);
    }
    r->received = 0;
    return MST_OK;
}
static mst_status any_source(struct rank *r) {
    return both(r, any_source_n);
}

static mst_status batch(struct rank *r) {
    mst_work *works[2] = {NULL, NULL};
    const mst_p2p ops[2] = {{b, LARGE, MST_I32, next(r), 0, true},
                            {a, LARGE, MST_I32, previous(r), 0, false}};
    fill(b, r->rank, LARGE);
    mst_status st = mst_batch_isend_irecv_with(ops, 2, works, &r->call);
    if (st == MST_OK) st = mst_wait_all(works, 2);
    return check_of(r, st, a, LARGE, 0, previous(r));
}

static mst_status message_bytes(struct rank *r) {
    mst_bytes got = {0};
    mst_status st = MST_OK;
    if (r->rank == 0) st = mst_send_bytes_with("abc", 3, 1, &r->call);
    if (r->rank == 1) st = mst_recv_bytes_with(&got, 0, &r->call);
    if (st == MST_OK && r->rank == 1) r->wrong |= got.len != 3 || memcmp(got.data, "abc", 3) != 0;
    mst_bytes_free(&got);
    return st;
}

/* Groups */

static mst_status barrier_of(const struct rank *r, mst_group *group) {
    mst_call call = r->call;
    call.group = group;
    return mst_barrier_with(&call);
}

static mst_status split(struct rank *r) {
    mst_status st = MST_OK;
    if (!r->group) st = mst_split_group(0, -r->rank, &r->group, .group = r->world);
    if (st == MST_OK) r->wrong |= mst_get_rank(r->group) != r->size - 1 - r->rank;
    return st == MST_OK ? barrier_of(r, r->group) : st;
}

static mst_status new_group(struct rank *r) {
    static const int members[2] = {0, 1};
    mst_status st = MST_OK;
    if (!r->group) st = mst_new_group(members, 2, &r->group, .world = r->world);
    return st == MST_OK && r->rank < 2 ? barrier_of(r, r->group) : st;
}

static mst_status make_mesh(struct rank *r) {
    mst_group *along;
    const int shape[2] = {1, r->size};
    mst_status st = MST_OK;
    if (!r->mesh) st = mst_init_device_mesh(shape, 2, NULL, &r->mesh, .world = r->world);
    if (st == MST_OK) st = mst_mesh_get_group(r->mesh, "1", &along);
    return st == MST_OK ? barrier_of(r, along) : st;
}

static mst_status group_store(struct rank *r) {
    mst_store *store = mst_get_group_store(r->world);
    if (!store) return mst_last_error()->status;
    mst_bytes got;
    const char key[2] = {(char)('a' + r->rank),
                         '\0'}; /* a key of its own: a get would wait for others' keys */
    mst_status st = mst_store_set(store, key, "v", 1);
    if (st == MST_OK) st = mst_store_get(store, key, &got);
    if (st != MST_OK) return st;
    r->wrong |= got.len != 1;
    mst_bytes_free(&got);
    return MST_OK;
}

/* Recovery */

static mst_status agree(struct rank *r) {
    uint64_t flags = 7 & ~(1ull << r->rank);
    mst_status st = mst_agree(&flags, .group = r->world, .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK) r->wrong |= flags != (7 & ~((1ull << r->size) - 1));
    return st;
}

static mst_status agree_after_death(struct rank *r) {
    uint64_t flags = 7 & ~(1ull << r->rank);
    mst_status st = mst_ack_lost_ranks(r->world, NULL, 0, NULL);
    if (st == MST_OK) st = mst_agree(&flags, .group = r->world, .timeout_ms = TIMEOUT_MS);
    /* Ranks that acknowledged before they knew of the death get this; the flags are set. */
    return st == MST_ERR_PEER_LOST && mst_last_error()->culprit == r->size - 1 ? MST_OK : st;
}

/* The rank whose calls fail may have left meanwhile: there may be fewer ranks than size. */
static mst_status check_survivors(struct rank *r, mst_group *group, int size) {
    int one = 1;
    mst_call call = r->call;
    call.group = group;
    mst_status st = mst_all_reduce_with(&one, 1, MST_I32, &call);
    if (st == MST_OK) r->wrong |= one != mst_get_world_size(group) || one > size;
    return st;
}

static mst_status shrink_group(struct rank *r) {
    mst_status st = MST_OK;
    if (!r->group) st = mst_shrink_group(r->world, &r->group, .timeout_ms = TIMEOUT_MS);
    return st == MST_OK ? check_survivors(r, r->group, r->size - 1) : st;
}

static mst_status shrink_world(struct rank *r) {
    mst_status st = MST_OK;
    if (!r->step) st = mst_shrink_world(.world = &r->world, .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) return st;
    r->step = 1;
    return check_survivors(r, r->world, r->size - 1);
}

static mst_status grow_world(struct rank *r) {
    mst_status st = MST_OK;
    if (!r->step) st = mst_grow_world(1, .world = &r->world, .timeout_ms = r->grow_ms);
    if (st != MST_OK) return st;
    r->step = 1;
    return check_survivors(r, r->world, r->size + 1);
}

static mst_status abort_world(struct rank *r) {
    mst_status st = r->rank == 1 ? mst_abort(r->world, "a test") : mst_barrier_with(&r->call);
    return st == MST_ERR_PEER_LOST && mst_last_error()->culprit == 1 ? MST_OK : st;
}

static const struct phase phases[] = {
    {"init", NULL, false, false, false},
    {"close", NULL, false, false, false},
    {"barrier", barrier, false, false, false},
    {"monitored_barrier", monitored_barrier, false, false, false},
    {"broadcast", broadcast, false, false, false},
    {"all_reduce", all_reduce, false, false, false},
    {"reduce", reduce, false, false, false},
    {"scan", scan, false, false, false},
    {"all_gather", all_gather, false, false, false},
    {"reduce_scatter", reduce_scatter, false, false, false},
    {"gather", gather, false, false, false},
    {"scatter", scatter, false, false, false},
    {"all_to_all", all_to_all, false, false, false},
    {"lists", lists, false, false, false},
    {"coalesced", coalesced, false, false, false},
    {"bytes", bytes, false, false, false},
    {"user_op", user_op, false, false, false},
    {"work", work, false, false, false},
    {"alloc", alloc, false, false, false},
    {"messages", messages, false, false, true},
    {"send_recv", send_recv, false, false, true},
    {"any_source", any_source, false, false, true},
    {"batch", batch, false, false, true},
    {"message_bytes", message_bytes, false, false, true},
    {"split", split, false, false, false},
    {"new_group", new_group, false, false, false},
    {"mesh", make_mesh, false, false, false},
    {"group_store", group_store, false, false, false},
    {"agree", agree, false, false, false},
    {"abort", abort_world, false, false, false},
    {"agree_after_death", agree_after_death, true, false, false},
    {"shrink_group", shrink_group, true, false, false},
    {"shrink_world", shrink_world, true, false, false},
    {"grow_world", grow_world, false, true, false},
};
enum { PHASES = sizeof phases / sizeof *phases };

const struct phase *phase_at(int i) {
    return i < PHASES ? &phases[i] : NULL;
}

const struct phase *phase_find(const char *name) {
    for (int i = 0; i < PHASES; i++)
        if (!strcmp(phases[i].name, name)) return &phases[i];
    return NULL;
}

void phase_free(struct rank *r) {
    if (r->mesh) mst_mesh_free(r->mesh);
    if (r->group) mst_destroy_process_group(r->group);
    mst_free(r->memory);
}
