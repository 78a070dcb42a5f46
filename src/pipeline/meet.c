/*
 * meet.c - what the stages tell each other before the first run: which schedule they mean, and what they pass on. It goes through the
 * store, so that it works whatever memory the group's engine wants. All of them come to a barrier, also those that found fault with
 * something, who leave word of it first: so it fails everywhere or nowhere. To another they come when they have memory for messages, and
 * to a third when their pairs have met. Word is for those of the same meeting: some may still be leaving the one before.
 */
#include "base/error.h"
#include "base/handles.h"
#include "pipeline/blame.h"
#include "wire/cursor.h"

#include <stdio.h>

static void add_shape(struct msi_buf *to, const mst_shape *shape) {
    msi_put_u32(to, (uint32_t)shape->dtype);
    msi_put_u32(to, (uint32_t)shape->n);
    for (int i = 0; i < MST_SHAPE_DIMS; i++) msi_put_u64(to, shape->sizes[i]);
}

static mst_shape read_shape(struct msi_reader *r) {
    mst_shape shape = {.dtype = (mst_dtype)msi_read_u32(r), .n = (int)msi_read_u32(r)};
    for (int i = 0; i < MST_SHAPE_DIMS; i++) shape.sizes[i] = (size_t)msi_read_u64(r);
    return shape;
}

/* Equal for specs that are equal, and for no others. */
static void spec_words(const struct msi_schedule_spec *s, char *text, size_t size) {
    int n = snprintf(text, size, "a pipeline of %s of %d stages, %d micro-batches",
                     msi_schedule_name(s->kind), s->stages, s->micros);
    if (s->chunks > 1) snprintf(text + n, size - (size_t)n, ", %d chunks", s->chunks);
    if (s->kind == MSI_STREAM)
        snprintf(text + n, size - (size_t)n, ", %d batches, %d tokens, %d at a time", s->batches, s->tokens,
                 s->inner);
}

/* What a rank passes on lies here until the one behind it has read it. */
static void name_passes(const mst_group *whole, int rank, char key[96]) {
    snprintf(key, 96, "%s/passes/%d", whole->id, rank);
}

static mst_status tell(const mst_pipeline *p, mst_group *whole, const struct msi_wait *wait) {
    char words[200], key[96];
    struct msi_buf note = {0};
    spec_words(&p->spec, words, sizeof words);
    mst_status st = msi_group_declare(whole, words, wait);
    if (st != MST_OK) return st;
    add_shape(&note, &p->own.out);
    add_shape(&note, &p->own.prompt);
    add_shape(&note, &p->own.ids);
    name_passes(whole, p->rank, key);
    st = note.failed ? msi_fail_memory() : msi_world_put(whole->world, wait, key, msi_buf_str(&note));
    msi_buf_free(&note);
    return st;
}

void msi_pipeline_unsay(mst_pipeline *p, const struct msi_wait *wait) {
    const mst_group *whole = msi_handle_memory(p->whole);
    char key[96];
    name_passes(whole, p->rank, key);
    msi_world_drop(whole->world, wait, key);
}

static mst_status read_note(mst_pipeline *p, const struct msi_buf *note) {
    static const char what[] = "the stage before passes on";
    struct msi_reader r = msi_reader(note->data, note->len);
    p->previous.out = read_shape(&r);
    p->previous.prompt = read_shape(&r);
    p->previous.ids = read_shape(&r);
    if (r.bad || r.left)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "what rank %d says of its stage is no such thing", p->before);
    mst_status st = msi_shape_check(&p->previous.out, what);
    if (st == MST_OK) st = msi_shape_check(&p->previous.prompt, what);
    return st == MST_OK ? msi_shape_check(&p->previous.ids, what) : st;
}

mst_status msi_pipeline_hear(mst_pipeline *p, const struct msi_wait *wait) {
    mst_group *whole = msi_handle_memory(p->whole);
    char key[96];
    struct msi_buf note = {0};
    if (whole->size == 1) {
        p->previous = p->own;
        return MST_OK;
    }
    name_passes(whole, p->before, key);
    mst_status st = msi_world_look(whole->world, wait, key, &note);
    if (st == MST_OK) st = read_note(p, &note);
    msi_world_drop(whole->world, wait, key);
    msi_buf_free(&note);
    return st;
}

mst_status msi_pipeline_agree(mst_pipeline *p, const struct msi_wait *wait, mst_status own) {
    mst_group *whole = msi_handle_memory(p->whole);
    struct msi_words words;
    if (whole->size == 1) return own;
    if (own != MST_OK) {
        bool told = msi_blame_settle(p, &own);
        msi_words_keep(&words, own);
        if (told) msi_group_barrier(whole, wait); /* else the others would take it that all is well */
        return msi_words_say(&words);
    }
    own = msi_group_barrier(whole, wait);
    msi_blame_settle(p, &own); /* who waited too long may find that all came after all */
    if (own == MST_OK) p->meetings++;
    return own;
}

mst_status msi_pipeline_meet(mst_pipeline *p, const struct msi_wait *wait, mst_status own) {
    mst_group *whole = msi_handle_memory(p->whole);
    if (own == MST_OK && whole->size > 1) own = tell(p, whole, wait);
    return msi_pipeline_agree(p, wait, own);
}
