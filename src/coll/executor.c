/*
 * executor.c - see executor.h. A step is released once for each step that it waits for; the last release puts
 * it into the ready queue. Messages to one peer complete in posting order, and so do messages from one peer.
 * The executor therefore checks only the oldest message of each direction.
 */
#include "coll/executor.h"

#include "base/error.h"
#include "coll/emit.h"
#include "reduce/q8.h"

#include <stdlib.h>
#include <string.h>

/* State of a message: posted; all earlier messages in its direction are done. */
enum { POSTED = 1, OLDEST = 2 };

enum { SCRATCH_ALIGNMENT = 64 };
enum { STRIP = 32 * MSI_Q8_VALUES }; /* values that stay in the cache while they are converted */

static size_t aligned(size_t bytes) {
    return (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

/* The bytes of elements of a space. */
static size_t bytes_of(const struct msi_exec *e, enum msi_space space, size_t count) {
    return space == MSI_PACKED ? msi_q8_bytes(count) : count * e->size[space];
}

static bool allocate(struct msi_exec *e) {
    const struct msi_plan *plan = e->run.plan;
    bool failed = false;
    size_t n = plan->n, most = 0, scratch = 0, start[MSI_SPACES];
    for (int space = MSI_RAW; space < MSI_SPACES; space++) {
        start[space] = scratch;
        scratch += aligned(bytes_of(e, (enum msi_space)space, plan->scratch[space]));
    }
    for (uint32_t i = 0; i < plan->n; i++)
        if (plan->steps[i].kind == MSI_REDUCE_LOCAL && (size_t)plan->steps[i].peer > most)
            most = (size_t)plan->steps[i].peer;
    bool ok = msi_grow(&e->waits, &e->waits_cap, n, sizeof *e->waits, &failed) &&
              msi_grow(&e->state, &e->state_cap, n, sizeof *e->state, &failed) &&
              msi_grow(&e->transfers, &e->transfers_cap, n, sizeof *e->transfers, &failed) &&
              msi_grow(&e->ready, &e->ready_cap, n, sizeof *e->ready, &failed) &&
              msi_grow(&e->heads, &e->heads_cap, n, sizeof *e->heads, &failed) &&
              msi_grow(&e->sources, &e->sources_cap, most, sizeof *e->sources, &failed) &&
              msi_grow(&e->scratch, &e->scratch_cap, scratch + SCRATCH_ALIGNMENT, 1, &failed);
    if (!ok) return false;
    size_t skip = aligned((uintptr_t)e->scratch) - (uintptr_t)e->scratch;
    for (int space = MSI_RAW; space < MSI_SPACES; space++) e->base[space] = e->scratch + skip + start[space];
    return true;
}

mst_status msi_exec_begin(struct msi_exec *e, const struct msi_exec_run *run) {
    const struct msi_plan *plan = run->plan;
    union {
        const void *read;
        char *any;
    } in = {run->in}; /* a step writes IN only in place, where it is also OUT */
    e->run = *run;
    e->status = MST_OK;
    e->culprit = -1;
    e->left = plan->n;
    e->first_ready = e->end_ready = e->n_heads = 0;
    for (int space = 0; space < MSI_SPACES; space++) e->size[space] = run->raw_size;
    if (!run->unit) e->run.unit = 1;
    if (run->reducer) e->size[MSI_ACC] = run->reducer->acc_size * e->run.unit;
    e->base[MSI_IN] = in.any;
    e->base[MSI_OUT] = run->out;
    if (!allocate(e)) {
        e->left = 0;
        return msi_fail_memory();
    }
    for (uint32_t i = 0; i < plan->n; i++) {
        e->waits[i] = plan->steps[i].waits;
        e->state[i] = OLDEST;
        if (e->waits[i] == 0) e->ready[e->end_ready++] = i;
    }
    for (uint32_t i = 0; i < plan->n; i++)
        if (plan->steps[i].chain != MSI_NO_STEP) e->state[plan->steps[i].chain] = 0;
    return MST_OK;
}

static char *address(const struct msi_exec *e, struct msi_ref ref) {
    return e->base[ref.space] + bytes_of(e, ref.space, ref.at);
}

static void release(struct msi_exec *e, uint32_t step) {
    if (--e->waits[step] == 0) e->ready[e->end_ready++] = step;
}

static void finish(struct msi_exec *e, uint32_t step) {
    const struct msi_step *s = &e->run.plan->steps[step];
    for (uint32_t i = 0; i < s->n_after; i++) release(e, e->run.plan->after[s->after + i]);
    e->left--;
}

static void post(struct msi_exec *e, uint32_t step) {
    const struct msi_step *s = &e->run.plan->steps[step];
    struct msi_link *link = e->run.links[s->peer];
    if (s->kind == MSI_SEND)
        msi_link_send(link, &e->transfers[step], address(e, s->src), bytes_of(e, s->src.space, s->count));
    else
        msi_link_receive(link, &e->transfers[step], address(e, s->dst), bytes_of(e, s->dst.space, s->count));
    if (e->state[step] & OLDEST) e->heads[e->n_heads++] = step;
    e->state[step] |= POSTED;
    if (s->chain != MSI_NO_STEP) release(e, s->chain);
}

/* Sums in strips that stay in the cache. One source of f32 is quantised where it is. */
static void pack(const struct msi_exec *e, const struct msi_step *s, char *dst) {
    const struct msi_ref *sources = e->run.plan->sources + s->sources;
    const struct msi_q8 *q8 = msi_q8_get();
    float strip[STRIP];
    size_t element = e->size[sources->space];
    for (size_t i = 0, n; i < s->count; i += n) {
        const void *sum = address(e, *sources) + i * element;
        bool direct = s->peer == 1 && element == sizeof *strip;
        n = direct || s->count - i < STRIP ? s->count - i : STRIP;
        if (!direct && element == sizeof *strip)
            sum = memcpy(strip, sum, n * element);
        else if (!direct)
            sum = (e->run.reducer->begin(strip, sum, n, &e->run.scale), strip);
        for (int k = 1; k < s->peer; k++) q8->add(strip, address(e, msi_ref_plus(sources[k], i)), n);
        q8->pack(dst + msi_q8_bytes(i), sum, n);
    }
}

static void unpack(const struct msi_exec *e, const struct msi_step *s, char *dst, const char *src) {
    const struct msi_q8 *q8 = msi_q8_get();
    float strip[STRIP];
    size_t element = e->size[s->dst.space];
    if (element == sizeof *strip) {
        q8->unpack(dst, src, s->count, e->run.divisor);
        return;
    }
    for (size_t i = 0, n; i < s->count; i += n) {
        n = s->count - i < STRIP ? s->count - i : STRIP;
        q8->unpack(strip, src + msi_q8_bytes(i), n, e->run.divisor);
        e->run.reducer->end(dst + i * element, strip, n, &e->run.scale);
    }
}

static void run_local(struct msi_exec *e, const struct msi_step *s) {
    const struct msi_reducer *reducer = e->run.reducer;
    char *dst = address(e, s->dst), *src = address(e, s->src);
    size_t count = s->count * e->run.unit;
    switch ((enum msi_step_kind)s->kind) {
    case MSI_COPY:
        memmove(dst, src, s->count * e->run.raw_size);
        break;
    case MSI_BEGIN:
        reducer->begin(dst, src, count, &e->run.scale);
        break;
    case MSI_ADD:
        reducer->add(dst, src, count, &e->run.scale);
        break;
    case MSI_MERGE:
        reducer->merge(dst, src, count);
        break;
    case MSI_END:
        reducer->end(dst, src, count, &e->run.scale);
        break;
    case MSI_PACK:
        pack(e, s, dst);
        break;
    case MSI_UNPACK:
        unpack(e, s, dst, src);
        break;
    default:
        for (int i = 0; i < s->peer; i++)
            e->sources[i] = address(e, e->run.plan->sources[s->sources + (uint32_t)i]);
        reducer->reduce_local(dst, NULL, e->sources, s->peer, count, &e->run.scale);
    }
}

/* Ends after a quantised step, so that the links move bytes meanwhile. */
static bool start_ready(struct msi_exec *e) {
    bool any = e->first_ready < e->end_ready;
    while (e->first_ready < e->end_ready && !e->pauses) {
        uint32_t step = e->ready[e->first_ready++];
        const struct msi_step *s = &e->run.plan->steps[step];
        if (s->kind == MSI_SEND || s->kind == MSI_RECV) {
            post(e, step);
        } else {
            run_local(e, s);
            finish(e, step);
            e->pauses = s->kind == MSI_PACK || s->kind == MSI_UNPACK;
        }
    }
    return any;
}

/* Completes messages of one direction in order. Returns the first that is posted and not done, if any. */
static uint32_t complete_in_order(struct msi_exec *e, uint32_t step) {
    while (msi_transfer_done(&e->transfers[step])) {
        uint32_t next = e->run.plan->steps[step].chain;
        finish(e, step);
        if (next == MSI_NO_STEP) return next;
        e->state[next] |= OLDEST;
        if (!(e->state[next] & POSTED)) return MSI_NO_STEP;
        step = next;
    }
    return step;
}

static bool complete_transfers(struct msi_exec *e) {
    uint32_t kept = 0, left = e->left;
    for (uint32_t i = 0; i < e->n_heads; i++) {
        uint32_t step = complete_in_order(e, e->heads[i]);
        if (step == MSI_NO_STEP) continue;
        e->heads[kept++] = step;
        int peer = e->run.plan->steps[step].peer;
        if (e->status == MST_OK && e->run.links[peer]->status != MST_OK) {
            e->status = e->run.links[peer]->status;
            e->culprit = peer;
        }
    }
    e->n_heads = kept;
    return e->left < left;
}

bool msi_exec_advance(struct msi_exec *e) {
    bool any = false;
    e->pauses = false;
    for (bool moved = true; moved && e->status == MST_OK && !e->pauses; any |= moved) {
        moved = start_ready(e);
        moved |= complete_transfers(e);
    }
    return any;
}

void msi_exec_free(struct msi_exec *e) {
    free(e->scratch);
    free(e->waits);
    free(e->state);
    free(e->transfers);
    free(e->sources);
    free(e->ready);
    free(e->heads);
    memset(e, 0, sizeof *e);
}
