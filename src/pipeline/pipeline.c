/* pipeline.c - making and freeing a pipeline. See pipeline.h. */
#include "base/error.h"
#include "base/handles.h"
#include "pipeline/blame.h"

#include <stdatomic.h>
#include <stdlib.h>

size_t msi_shape_count(const mst_shape *shape) {
    size_t count = shape->n ? 1 : 0;
    for (int i = 0; i < shape->n; i++) count *= shape->sizes[i];
    return count;
}

static size_t shape_bytes(const mst_shape *shape) {
    return msi_shape_count(shape) * mst_dtype_size(shape->dtype);
}

mst_status msi_shape_check(const mst_shape *shape, const char *what) {
    size_t bytes = 1;
    if (shape->n == 0) return MST_OK;
    if (shape->n < 0 || shape->n > MST_SHAPE_DIMS)
        return msi_fail(MST_ERR_INVALID, NULL, "%s a tensor of %d dimensions; the limit is %d", what,
                        shape->n, MST_SHAPE_DIMS);
    if (!mst_dtype_size(shape->dtype))
        return msi_fail(MST_ERR_INVALID, "give one of MST_F32, MST_BF16, …",
                        "%s a tensor of dtype %d, which is not valid", what, (int)shape->dtype);
    bytes = mst_dtype_size(shape->dtype);
    for (int i = 0; i < shape->n; i++)
        if (!shape->sizes[i] || __builtin_mul_overflow(bytes, shape->sizes[i], &bytes) ||
            bytes > SIZE_MAX / 2)
            return msi_fail(MST_ERR_INVALID, NULL, "%s a tensor whose size %d is %zu", what, i,
                            shape->sizes[i]);
    return MST_OK;
}

const mst_shape *msi_pipeline_shape(const mst_pipeline *p, int channel, bool in, bool prompt) {
    /* Gradients have the shape of the activations in the other direction. */
    const struct msi_outputs *outputs = in == (channel != MSI_GRADIENTS) ? &p->previous : &p->own;
    if (channel == MSI_TOKENS) return &outputs->ids;
    return prompt && outputs->prompt.n ? &outputs->prompt : &outputs->out;
}

static size_t slot_bytes(const mst_pipeline *p, int channel, bool in) {
    size_t usual = shape_bytes(msi_pipeline_shape(p, channel, in, false));
    size_t prompt = shape_bytes(msi_pipeline_shape(p, channel, in, true));
    return usual > prompt ? usual : prompt;
}

static void *allocate(const mst_pipeline *p, size_t bytes) {
    if (p->options.alloc) return p->options.alloc(bytes, p->options.arg);
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static mst_status fail_no_shape(int channel) {
    return msi_fail(MST_ERR_INVALID, NULL, "%s",
                    channel == MSI_TOKENS ? "the last stage has no .ids, the shape of its token ids"
                                          : ".out is missing, the shape of this stage's output");
}

static mst_status make_slots(mst_pipeline *p, int channel, int direction) {
    int n = p->list.slots[channel][direction];
    size_t bytes = slot_bytes(p, channel, direction == MSI_IN_SLOT);
    if (!n) return MST_OK;
    if (!bytes) return fail_no_shape(channel);
    p->slots[channel][direction] = calloc((size_t)n, sizeof(struct msi_buffer));
    if (!p->slots[channel][direction]) return msi_fail_memory();
    for (int i = 0; i < n; i++)
        if (!(p->slots[channel][direction][i].memory = allocate(p, bytes))) return msi_fail_memory();
    return MST_OK;
}

/* .prompt is enough if there is only one token. */
static bool lacks_shape(const mst_pipeline *p, int channel) {
    bool prompts_alone = p->spec.kind == MSI_STREAM && p->spec.tokens == 1;
    if (channel == MSI_TOKENS) return !p->own.ids.n;
    return !p->own.out.n && !(prompts_alone && p->own.prompt.n);
}

/* Checks this stage's own options. */
static mst_status check_own(const mst_pipeline *p) {
    mst_status st = msi_shape_check(&p->own.out, ".out is");
    if (st == MST_OK) st = msi_shape_check(&p->own.prompt, ".prompt is");
    if (st == MST_OK) st = msi_shape_check(&p->own.ids, ".ids is");
    for (int c = 0; c < MSI_CHANNELS && st == MST_OK; c++)
        if (c != MSI_GRADIENTS && p->list.slots[c][MSI_OUT_SLOT] && lacks_shape(p, c)) st = fail_no_shape(c);
    if (st == MST_OK && !p->options.forward) st = msi_fail(MST_ERR_INVALID, NULL, ".forward is NULL");
    if (st == MST_OK && msi_schedule_trains(p->spec.kind) && !p->options.backward)
        st = msi_fail(MST_ERR_INVALID, "give one, or .schedule = \"forward\"",
                      ".backward is NULL, but %s trains", msi_schedule_name(p->spec.kind));
    if (st == MST_OK && !p->options.alloc != !p->options.release)
        st = msi_fail(MST_ERR_INVALID, NULL, "only one of .alloc and .release is set; set both or none");
    return st;
}

static mst_status choose(const mst_pipeline_options *o, int stages, struct msi_schedule_spec *spec) {
    const char *name = o->schedule ? o->schedule : "1f1b";
    *spec = (struct msi_schedule_spec){.kind = msi_schedule_kind(name),
                                       .stages = stages,
                                       .micros = o->micros ? o->micros : 1,
                                       .chunks = o->chunks,
                                       .batches = o->batches,
                                       .tokens = o->tokens,
                                       .inner = o->inner};
    if (spec->kind < 0)
        return msi_fail(MST_ERR_INVALID, "give stream, forward, gpipe, 1f1b or interleaved",
                        ".schedule is '%s'", name);
    return msi_schedule_settle(spec);
}

static mst_status open_groups(mst_pipeline *p, const mst_group *stages) {
    static const struct msi_pairs_kind kind = {.label = "pipeline", .follow = true};
    mst_status st = msi_group_duplicate(stages, kind.label, &p->whole);
    return st == MST_OK ? msi_pairs_open(stages, &kind, &p->pairs) : st;
}

static mst_status check_all(mst_pipeline *p, int stages) {
    mst_status st = choose(&p->options, stages, &p->spec);
    if (st == MST_OK) st = msi_schedule_stage(&p->spec, p->stage, &p->list);
    return st == MST_OK ? check_own(p) : st;
}

static mst_status prepare(mst_pipeline *p, const struct msi_wait *wait) {
    mst_status st = msi_pipeline_read_previous(p, wait);
    for (int c = 0; c < MSI_CHANNELS && st == MST_OK; c++) {
        st = make_slots(p, c, MSI_IN_SLOT);
        if (st == MST_OK) st = make_slots(p, c, MSI_OUT_SLOT);
    }
    return st;
}

/* A buffer for messages with the stage after, or before; NULL: none. */
static const void *find_buffer(const mst_pipeline *p, bool after) {
    for (int c = 0; c < MSI_CHANNELS; c++) {
        int direction = after == (c != MSI_GRADIENTS) ? MSI_OUT_SLOT : MSI_IN_SLOT;
        if (p->slots[c][direction]) return p->slots[c][direction][0].memory;
    }
    return NULL;
}

/* The communicator of a pair; NULL: it has no messages. */
static mst_status find_comm(const mst_pipeline *p, bool after, struct msi_comm **comm) {
    const void *buffer = find_buffer(p, after);
    mst_memory memory;
    *comm = NULL;
    if (!buffer) return MST_OK;
    return msi_group_comm(msi_handle_memory(after ? p->pairs.succ : p->pairs.pred), buffer, comm, &memory);
}

mst_status msi_pipeline_join(const mst_pipeline *p, const struct msi_wait *wait) {
    struct msi_comm *pred, *succ;
    if (!p->pairs.succ) return MST_OK;
    mst_status st = find_comm(p, false, &pred);
    if (st == MST_OK) st = find_comm(p, true, &succ);
    if (st == MST_OK) st = msi_pairs_join(p->stage == 0, pred, succ, wait);
    if (st != MST_OK) msi_pairs_report(&p->pairs, st); /* neighbours may be waiting */
    return st;
}

static mst_pipeline *begin(mst_group *stages, const mst_pipeline_options *options) {
    static atomic_uint generation; /* must only change; orders nothing */
    mst_pipeline *p = msi_handle_alloc(sizeof *p);
    if (!p) return NULL;
    p->handle = msi_handle_make(p, atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed));
    if (!msi_handle_add(p->handle)) {
        free(p);
        return NULL;
    }
    int n = stages->size;
    p->options = *options;
    p->stage = stages->rank;
    p->rank = stages->world->rank;
    p->before = msi_group_global_rank(stages, (stages->rank + n - 1) % n);
    p->after = msi_group_global_rank(stages, (stages->rank + 1) % n);
    p->timeout_ms = options->timeout_ms ? options->timeout_ms : stages->timeout_ms;
    p->own = (struct msi_outputs){options->out, options->prompt, options->ids};
    return p;
}

/* Opens the groups first, so that a stage with invalid arguments can report it to the others. */
mst_status msi_pipeline_new(mst_group *stages, const mst_pipeline_options *options, mst_pipeline **pipeline) {
    mst_pipeline *made = begin(stages, options);
    if (!made) return msi_fail_memory();
    struct msi_wait wait = {msi_deadline(made->timeout_ms), NULL};
    mst_status st = open_groups(made, stages);
    if (st == MST_OK) st = msi_pipeline_exchange(made, &wait, check_all(made, stages->size));
    if (st == MST_OK) st = msi_pipeline_agree(made, &wait, prepare(made, &wait));
    if (st == MST_OK) st = msi_pipeline_agree(made, &wait, msi_pipeline_join(made, &wait));
    if (st == MST_OK) {
        *pipeline = made;
        return MST_OK;
    }
    struct msi_saved_error error;
    msi_error_save(&error, st);
    msi_pipeline_free(made);
    return msi_error_restore(&error);
}

static void free_slots(mst_pipeline *p, int channel, int direction) {
    struct msi_buffer *slots = p->slots[channel][direction];
    for (int i = 0; slots && i < p->list.slots[channel][direction]; i++) {
        if (slots[i].memory && p->options.release)
            p->options.release(slots[i].memory, p->options.arg);
        else
            free(slots[i].memory);
    }
    free(slots);
}

/* Ends the groups first, which ends messages in the buffers. */
void msi_pipeline_free(mst_pipeline *p) {
    msi_handle_remove(p->handle);
    if (p->failed || p->agreements < MSI_PIPELINE_AGREEMENTS) msi_blame_forget(p);
    msi_pairs_close(&p->pairs);
    msi_group_end(&p->whole);
    for (int c = 0; c < MSI_CHANNELS; c++) {
        free_slots(p, c, MSI_IN_SLOT);
        free_slots(p, c, MSI_OUT_SLOT);
    }
    msi_schedule_stage_free(&p->list);
    free(p);
}
