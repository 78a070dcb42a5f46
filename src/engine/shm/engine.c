/* engine.c - the shared-memory engine: the slots of comm/engine.h. See shm_coll.h. */
#include "base/error.h"
#include "comm/wait_reports.h"
#include "engine/engines.h"
#include "engine/shm/shm_coll.h"
#include "os/pidfd.h"

#include <stdio.h>

enum { SPINS = 4000 };

static size_t state_bytes(const struct msi_comm *comm) {
    return sizeof(struct msi_shm) + (size_t)comm->size * sizeof(void *);
}

static size_t op_bytes(const struct msi_comm *comm) {
    return sizeof(struct msi_shm_op) + 4 * (size_t)comm->size * sizeof(void *);
}

static mst_status open_engine(struct msi_comm *comm, const struct mst_work *first,
                              const struct msi_wait *wait) {
    struct msi_shm *shm = msi_shm(comm);
    msi_native_init(comm);
    comm->traits =
        (struct msi_engine_traits){.spins = SPINS, .max_fds = 1, .pollable = true, .barrier_survives = true};
    if (!shm->maps) shm->maps = msi_maps_new(comm->size);
    if (!shm->maps) return msi_fail_memory();
    mst_status st = msi_comm_agree(comm, wait);
    if (st == MST_OK) st = msi_peers_open_region(&shm->native.peers, wait);
    return msi_native_opened(comm, first, st);
}

static void close_engine(struct msi_comm *comm) {
    msi_maps_free(msi_shm(comm)->maps);
    msi_shm_free_copies(msi_shm(comm)->copies);
    msi_native_close(comm);
}

const struct msi_shm_shape msi_shm_shapes[MST_KIND_COUNT] = {
    [MST_KIND_BROADCAST] = {.src_is_root = true}, [MST_KIND_SCATTER] = {.src_is_root = true, .parts = true},
    [MST_KIND_GATHER] = {.dst_is_root = true},    [MST_KIND_REDUCE] = {.dst_is_root = true},
    [MST_KIND_REDUCE_SCATTER] = {.parts = true},  [MST_KIND_ALL_TO_ALL] = {.parts = true},
};

/* Sets where each of the blocks of different lengths begins, unless they are listed. */
static void set_starts(struct msi_blocks *blocks, size_t *starts, int n) {
    if (!blocks->counts || blocks->list) return;
    size_t at = 0;
    for (int r = 0; r < n; r++) {
        starts[r] = at;
        at += msi_block_len(blocks, r);
    }
    blocks->starts = starts;
}

void msi_shm_set_blocks(struct msi_shm_coll *coll) {
    coll->uneven = msi_op_is_uneven(&coll->work->op);
    coll->in = msi_op_in(&coll->work->op);
    coll->out = msi_op_out(&coll->work->op);
    if (!coll->uneven) return;
    set_starts(&coll->in, coll->in_starts, coll->region->size);
    set_starts(&coll->out, coll->out_starts, coll->region->size);
}

static void op_init(struct mst_work *work) {
    struct msi_shm_coll *coll = msi_shm_coll_of(work);
    size_t n = (size_t)work->comm->size;
    void **room = (void **)((struct msi_shm_op *)work->state + 1);
    coll->work = work;
    coll->sources = (const void **)(uintptr_t)room;
    coll->targets = room + n;
    coll->in_starts = (size_t *)(void *)(room + 2 * n);
    coll->out_starts = (size_t *)(void *)(room + 3 * n);
}

/* Derives the shape of the exchange from the operation. */
static void derive(struct msi_shm_coll *coll) {
    const mst_backend_op *desc = &coll->work->op.desc;
    const struct msi_shm_shape *shape = &msi_shm_shapes[desc->kind];
    coll->region = msi_native(coll->work->comm)->peers.region;
    coll->parts = shape->parts;
    coll->src_rank = shape->src_is_root ? desc->root : -1;
    coll->dst_rank = shape->dst_is_root ? desc->root : -1;
    coll->in_where.number = 0;
    coll->by_cma = coll->by_cells = coll->by_direct = 0;
}

/*
 * Up to this number of bytes, a rank that needs the result reduces all inputs by itself. That takes one
 * synchronization of the ranks instead of four, but work that grows with their number. Measured: 128 KiB with
 * 2 ranks, and a quarter with twice as many. With 2 ranks, the root of a reduce always does it: dividing the
 * work would only add a copy of the result.
 */
static size_t flat_most(mst_kind kind, int ranks) {
    if (kind == MST_KIND_REDUCE && ranks == 2) return SIZE_MAX;
    return ((size_t)512 << 10) / ((size_t)ranks * (size_t)ranks);
}

bool msi_shm_is_large_reduction(const struct msi_op *op, int ranks) {
    mst_kind kind = op->desc.kind;
    bool whole = kind == MST_KIND_ALL_REDUCE || kind == MST_KIND_REDUCE || kind >= MST_KIND_SCAN;
    return whole && ranks > 1 && msi_op_bytes(op) > flat_most(kind, ranks);
}

static void resume(struct mst_work *work) {
    struct msi_shm_coll *coll = msi_shm_coll_of(work);
    derive(coll);
    msi_shm_resume(coll);
    work->seq = coll->seq;
    work->begun = true;
}

/*
 * This rank's part of a call that is made for the first time is done. MSI_DONE: all ranks have made the same
 * call, and have read the splits of an all_to_all.
 */
static enum msi_advance compare(struct mst_work *work) {
    struct msi_shm_coll *coll = msi_shm_coll_of(work);
    for (int r = 0; r < coll->region->size; r++) {
        enum msi_advance seen = r == coll->region->rank ? MSI_MOVED : msi_shm_see(coll, r);
        if (seen != MSI_MOVED) return seen;
    }
    if (work->op.signature.flags & MSI_SIGNED_SPLITS && !msi_shm_all_have_read(coll)) return MSI_BLOCKED;
    msi_set_checked(&work->comm->checked, work->op.hash);
    return MSI_DONE;
}

/* Announces the pending calls, as far as it may. Ranks that make a call that was rejected here see that. */
static void announce_pending(struct msi_comm *comm) {
    struct msi_pending *pending = &msi_native(comm)->pending;
    struct msi_shm_region *region = msi_native(comm)->peers.region;
    for (; pending->n && msi_shm_region_may_announce(region, region->seq + 1); msi_pending_remove(pending)) {
        const struct msi_pending_call *call = pending->calls;
        msi_shm_announce_call(region, MSI_SLOT_NOTHING, &call->signature, call->hash);
    }
}

static void skip(struct msi_comm *comm, const struct msi_op *op) {
    msi_pending_add(comm, op);
    if (comm->joined) announce_pending(comm);
}

/* The first operation is over only when all ranks have begun theirs: they have the region open then. */
static enum msi_advance advance_one(struct mst_work *work) {
    struct msi_shm_coll *coll = msi_shm_coll_of(work);
    struct msi_peers *peers = &msi_native(work->comm)->peers;
    if (work->seq == 0) { /* it has not begun */
        announce_pending(work->comm);
        if (msi_native(work->comm)->pending.n) return MSI_BLOCKED;
        derive(coll);
        if (msi_shm_is_large_reduction(&work->op, work->comm->size))
            msi_shm_all_reduce(coll);
        else
            msi_shm_exchange(coll);
        work->seq = coll->seq;
    }
    enum msi_advance got = coll->advance(coll);
    if (got == MSI_DONE && msi_comm_must_compare(work->comm, &work->op)) got = compare(work);
    if (got != MSI_DONE || peers->all_here) return got;
    if (msi_shm_missing(coll->region, coll->seq, NULL, 0)) return MSI_BLOCKED;
    msi_peers_set_all_here(peers);
    return MSI_DONE;
}

static enum msi_advance step(struct mst_work *work) {
    enum msi_advance got = advance_one(work);
    if (got == MSI_DONE) msi_shm_end(work->comm, &work->op, work->seq);
    return got;
}

/* Leaves a barrier. If it is not announced yet, that is done before the next operation. */
static void leave(struct mst_work *work) {
    const struct msi_shm_region *region = msi_native(work->comm)->peers.region;
    if (work->seq == 0 || work->seq > region->seq) msi_pending_add(work->comm, &work->op);
}

/* Tells the other ranks whether this one waits. Read by is_waiting, for error messages: it orders nothing. */
static void set_waits(struct msi_comm *comm, bool waits) {
    struct msi_shm *shm = msi_shm(comm);
    if (shm->waits == waits) return;
    shm->waits = waits;
    atomic_store_explicit(&msi_shm_region_own(shm->native.peers.region)->waits, waits, memory_order_relaxed);
}

static bool is_waiting(const struct msi_comm *comm, int rank) {
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    return atomic_load_explicit(&region->areas[rank].waits, memory_order_relaxed) != 0; /* from set_waits */
}

static bool progress(struct msi_comm *comm) {
    bool moved = msi_comm_advance_queue(comm, step, leave);
    if (!msi_list_empty(&comm->ops.messages)) moved |= msi_p2p_progress(&msi_native(comm)->p2p);
    if (moved) set_waits(comm, false);
    return moved;
}

static bool waits_for(const struct mst_work *work, int rank) {
    const struct msi_shm_coll *coll = msi_shm_coll_of(work);
    if (work->seq && coll->phase != MSI_ANNOUNCE) return coll->waits_for(coll, rank);
    /* A rank that has left has done its part of what it began, also if this rank has not announced it yet. */
    const struct msi_shm_region *region = msi_native(work->comm)->peers.region;
    if (msi_native_has_left(work->comm, rank) &&
        msi_shm_region_begun(region, rank, work->seq ? work->seq : region->seq + 1))
        return false;
    return work->seq == 0 || coll->waits_for(coll, rank);
}

static bool needs_store(const struct mst_work *work) {
    const struct msi_native *native = msi_native(work->comm);
    return msi_op_is_message(&work->op) ? msi_p2p_needs_store(&native->p2p, work) : !native->peers.all_here;
}

static int missing(const struct mst_work *work, int *ranks, int max) {
    struct msi_shm_region *region = msi_native(work->comm)->peers.region;
    return msi_shm_missing(region, work->seq ? work->seq : region->seq + 1, ranks, max);
}

static const struct msi_call_signature *signature_of(const struct mst_work *work, int rank) {
    uint64_t seq = work->fault.seq ? work->fault.seq : work->seq;
    if (rank == work->comm->rank && seq == work->seq) return &work->op.signature;
    return &msi_native(work->comm)->peers.region->areas[rank].calls[seq % MSI_SLOTS];
}

/* Writes the rank that a failed rank blames, and what the blamed rank called, if that differs from the
 * others. */
static const char *show_blamed(const struct msi_comm *comm, int rank, uint64_t seq, mst_status status,
                               char *out, size_t size) {
    char what[200];
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    const struct msi_call_signature *called = &region->areas[rank].calls[seq % MSI_SLOTS];
    if (rank == comm->rank)
        snprintf(out, size, "this rank");
    else
        msi_comm_show(comm, rank, out, size);
    size_t used = strlen(out);
    if (status == MST_ERR_MISMATCH && msi_shm_region_begun(region, rank, seq))
        snprintf(out + used, size - used, " called %s", msi_call_signature_show(called, what, sizeof what));
    return out;
}

/* What this rank called as that operation, which may be over. */
static const struct msi_call_signature *signature_here(const struct msi_comm *comm,
                                                       const struct mst_work *own, uint64_t seq) {
    if (own->seq == seq) return &own->op.signature;
    return &msi_shm_region_own(msi_native(comm)->peers.region)->calls[seq % MSI_SLOTS];
}

/* The number and hash of the call that a rank has announced in the slot of that operation. */
static uint64_t announced(const struct msi_shm_region *region, int rank, uint64_t seq) {
    /* Pairs with msi_shm_region_announce. */
    return atomic_load_explicit(&region->areas[rank].slots[seq % MSI_SLOTS].flag, memory_order_acquire);
}

/* Whether a rank has announced another call as that operation than this rank. */
static bool has_called_differently(const struct msi_shm_region *region, int rank, uint64_t seq) {
    uint64_t here = announced(region, region->rank, seq), there = announced(region, rank, seq);
    return here >> 32 == (uint32_t)seq && there >> 32 == (uint32_t)seq && here != there;
}

/* Another rank gave up because the calls differ, and blames this one. If it made the same call as this rank,
 * it learned of the difference from a third rank. Returns the rank to blame. */
static int find_different(const struct msi_comm *comm, int announcer, uint64_t seq) {
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    if (has_called_differently(region, announcer, seq)) return comm->rank;
    for (int r = 0; r < comm->size; r++)
        if (has_called_differently(region, r, seq)) return r;
    return comm->rank;
}

/* Was the operation rejected, or the earlier one that this rank is in? Then the failure says so. */
static bool find_rejection(struct msi_comm *comm, const struct mst_work *own, uint64_t seq, int *rejecter) {
    if (msi_rejection_read(comm, seq, signature_here(comm, own, seq), rejecter) != MST_OK) return true;
    return !msi_op_is_message(&own->op) && own->seq && own->seq < seq &&
           msi_rejection_read(comm, own->seq, &own->op.signature, rejecter) != MST_OK;
}

/* Fails the communicator because another rank has announced that it failed. */
static void fail_as(struct msi_comm *comm, int rank, uint64_t gave_up) {
    char who[200], what[200], here[200], blamed[400];
    uint64_t seq = gave_up >> 32;
    const struct msi_call_signature *called =
        &msi_native(comm)->peers.region->areas[rank].calls[seq % MSI_SLOTS];
    mst_status status = (mst_status)(gave_up & (MSI_GAVE_UP_MESSAGE - 1));
    bool message = gave_up & MSI_GAVE_UP_MESSAGE;
    int global = (int)(gave_up >> 8 & 0xffff) - 1;
    int culprit = global >= 0 ? msi_comm_rank_of(comm, global) : -1;
    bool outside = global >= 0 && culprit < 0; /* the cause is the loss of a rank of another group */
    void *context = comm->hooks.context;
    if (culprit < 0) culprit = rank;
    if (status == MST_ERR_MISMATCH && culprit == comm->rank) culprit = find_different(comm, rank, seq);
    int blamed_rank = culprit;
    if (culprit == comm->rank) culprit = rank; /* only the other rank knows why it blames this one */
    struct mst_work *own = msi_comm_next_active(comm, NULL);
    int rejecter;
    if (status == MST_ERR_MISMATCH && find_rejection(comm, own, seq, &rejecter)) {
        culprit = rejecter;
    } else if (status == MST_ERR_PEER_LOST && outside) {
        msi_fail(status, "look at that rank's own message; the group must be recreated",
                 "%s gave up this group because rank %d is lost", msi_comm_show(comm, rank, who, sizeof who),
                 global);
        msi_blame(status, global);
    } else if (status == MST_ERR_PEER_LOST) {
        msi_comm_refresh(comm);
        if (msi_comm_check_abort(comm) == MST_OK) comm->hooks.say_lost(context, culprit, false);
    } else {
        bool other = blamed_rank != rank && (blamed_rank != comm->rank || status == MST_ERR_MISMATCH);
        msi_fail(
            status, "look at that rank's own message; the group must be recreated",
            "%s gave up %s (%s%s%s) while this rank was in %s", msi_comm_show(comm, rank, who, sizeof who),
            message ? "a message" : msi_call_signature_show(called, what, sizeof what),
            mst_status_text(status), other ? ": " : "",
            other ? show_blamed(comm, blamed_rank, seq, status, blamed, sizeof blamed) : "",
            msi_op_is_message(&own->op) ? own->op.name
                                        : msi_call_signature_show(&own->op.signature, here, sizeof here));
    }
    msi_comm_fail(comm, own, status, culprit);
    if (comm->failure.status == MST_OK) comm->failure = own->failure; /* the group has failed elsewhere */
}

/* Fails the communicator because another rank has aborted the group. */
static void abort_as(struct msi_comm *comm, int rank) {
    struct mst_work *own = msi_comm_next_active(comm, NULL);
    char who[200], group[96];
    mst_status st = msi_comm_check_abort(comm);
    if (st == MST_OK) /* the store is lost */
        st = msi_fail(MST_ERR_PEER_LOST, "the group must be recreated", "%s aborted %s",
                      msi_comm_show(comm, rank, who, sizeof who),
                      msi_comm_show(comm, -1, group, sizeof group));
    msi_comm_fail(comm, own, st, rank);
    if (comm->failure.status == MST_OK) comm->failure = own->failure; /* also if that rank has left since */
}

static bool hear_failure(struct msi_comm *comm) {
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    for (int r = 0; r < comm->size; r++) {
        /* Written by announce_failure. */
        uint64_t gave_up = atomic_load_explicit(&region->areas[r].gave_up, memory_order_acquire);
        if (r == comm->rank || gave_up == 0) continue;
        if (gave_up == MSI_GAVE_UP_ABORT)
            abort_as(comm, r);
        else
            fail_as(comm, r, gave_up);
        return true;
    }
    return false;
}

static int find_victim(const struct msi_comm *comm) {
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    const int *pids = comm->ranks.pids;
    int other = -1; /* has ended because of a rank that is not known to have ended */
    for (int r = 0; region && r < comm->size; r++) {
        if (pids[r] == pids[comm->rank] || msi_comm_has_left(comm, r)) continue;
        /* Written by announce_failure. */
        if (atomic_load_explicit(&region->areas[r].gave_up, memory_order_acquire)) continue;
        if (!msi_process_has_ended(pids[r])) continue;
        if (msi_native_cause_of(comm, r, false) < 0) return r;
        other = r;
    }
    return other;
}

static void announce_failure(const struct mst_work *work) {
    struct msi_shm_region *region = msi_native(work->comm)->peers.region;
    const struct msi_failure *f = &work->failure;
    bool message = msi_op_is_message(&work->op);
    if (!region) return;
    uint64_t what = (uint64_t)f->status | (message ? MSI_GAVE_UP_MESSAGE : 0);
    uint64_t seq = !message && work->begun && work->fault.seq ? work->fault.seq : region->seq;
    /* Read by hear_failure of the other ranks. */
    msi_shm_region_post(region, &msi_shm_region_own(region)->gave_up,
                        seq << 32 | (uint64_t)((f->global + 1) & 0xffff) << 8 | what);
}

/* Finds a mismatch if the ranks wait for each other to read, as two roots of a large broadcast do. */
static bool overhear(struct mst_work *work) {
    struct msi_shm_coll *coll = msi_shm_coll_of(work);
    const struct msi_shm_region *region = coll->region;
    if (work->seq == 0 || !msi_shm_region_begun(region, region->rank, coll->seq)) return false;
    for (int r = 0; r < region->size; r++)
        if (r != region->rank && msi_shm_see(coll, r) == MSI_FAILED) return true;
    return false;
}

static void announce_abort(struct msi_comm *comm) {
    struct msi_shm_region *region = msi_native(comm)->peers.region;
    /* Read by hear_failure of the other ranks. */
    if (region) msi_shm_region_post(region, &msi_shm_region_own(region)->gave_up, MSI_GAVE_UP_ABORT);
}

static void accept_links(struct msi_comm *comm) {
    msi_p2p_accept(&msi_native(comm)->p2p);
}

/*
 * What a rank in a barrier that it has announced waits for, as msi_area.awaits; 0: any event. It is a rank
 * that has not arrived yet, the last by number: ranks tend to arrive in order, and then no rank is woken
 * before all have arrived. Among many ranks only rank 0 does that, also in other small collectives in which
 * all wait for all, and wakes the others when all have arrived: else all would wake whenever the one that
 * they await arrives.
 */
static int awaited(const struct msi_comm *comm, const struct mst_work *work) {
    if (!work || msi_op_is_message(&work->op) || work->seq == 0) return 0;
    const struct msi_shm_coll *coll = msi_shm_coll_of(work);
    bool led = msi_shm_is_led(comm, &work->op);
    if (!led && work->op.desc.kind != MST_KIND_BARRIER) return 0;
    if (coll->phase != MSI_MOVE || coll->drained || !msi_list_empty(&comm->ops.messages)) return 0;
    if (led && comm->rank) return MSI_AWAITS_FINISH;
    for (int r = comm->size - 1; r >= 0; r--)
        if (r != comm->rank && !msi_shm_region_begun(coll->region, r, work->seq)) return r + 1;
    return 0;
}

static bool sleep_begin(struct msi_comm *comm, const struct mst_work *work) {
    struct msi_native *native = msi_native(comm);
    int wake_fd;
    if (msi_shm_region_asleep(native->peers.region, awaited(comm, work), &wake_fd) != MST_OK) return false;
    msi_p2p_accept(&native->p2p);
    set_waits(comm, true);
    return true;
}

static int poll_fds(struct msi_comm *comm, struct pollfd *fds) {
    fds[0] = (struct pollfd){msi_native(comm)->peers.region->wake_fd, POLLIN, 0};
    return 1;
}

static void sleep_end(struct msi_comm *comm) {
    msi_shm_region_awake(msi_native(comm)->peers.region);
}

static void describe(struct mst_work *work, struct msi_record *record) {
    const struct msi_shm_coll *coll = msi_shm_coll_of(work);
    if (msi_op_is_message(&work->op)) return;
    bool by_cma = coll->mode == MSI_SLOT_CMA || coll->by_cma;
    record->algorithm = msi_shm_is_large_reduction(&work->op, work->comm->size) ? "shm, in parts"
                        : by_cma                                                ? "shm, by CMA"
                                                                                : "shm";
}

static uint64_t count(const struct msi_comm *comm) {
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    return (region ? region->seq : 0) + (uint64_t)msi_native(comm)->pending.n;
}

const struct msi_engine msi_shm_engine = {
    .skip = skip,
    .state_bytes = state_bytes,
    .op_bytes = op_bytes,
    .op_init = op_init,
    .open = open_engine,
    .close = close_engine,
    .begin = msi_native_begin,
    .suits_now = msi_shm_suits_now,
    .begin_now = msi_shm_begin_now,
    .finish_now = msi_shm_finish_now,
    .resume = resume,
    .message_now = msi_p2p_message_now,
    .progress = progress,
    .waits_for = waits_for,
    .missing = missing,
    .find_victim = find_victim,
    .is_waiting = is_waiting,
    .needs_store = needs_store,
    .signature_of = signature_of,
    .cause_of = msi_native_cause_of,
    .news = msi_native_news,
    .has_left = msi_native_has_left,
    .hear_failure = hear_failure,
    .overhear = overhear,
    .accept = accept_links,
    .announce_failure = announce_failure,
    .announce_abort = announce_abort,
    .sleep_begin = sleep_begin,
    .poll_fds = poll_fds,
    .sleep_end = sleep_end,
    .describe = describe,
    .count = count,
};
