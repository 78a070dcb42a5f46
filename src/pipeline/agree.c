/*
 * agree.c - the stages agree on schedule and shapes before the first run, through the store, so that it works
 * with any kind of memory. They pass three barriers: after the exchange, after the allocation of buffers, and
 * after the connection of the pairs. A stage that fails writes its failure first and then passes the barrier,
 * so an agreement fails on all stages or on none. Failures are numbered by agreement, because some stages may
 * still be leaving the one before.
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

/* Equal for equal specs only. */
static void spec_text(const struct msi_schedule_spec *s, char *text, size_t size) {
    int n = snprintf(text, size, "a pipeline of %s of %d stages, %d micro-batches",
                     msi_schedule_name(s->kind), s->stages, s->micros);
    if (s->chunks > 1) snprintf(text + n, size - (size_t)n, ", %d chunks", s->chunks);
    if (s->kind == MSI_STREAM)
        snprintf(text + n, size - (size_t)n, ", %d batches, %d tokens, %d at a time", s->batches, s->tokens,
                 s->inner);
}

/* The shapes of a rank's outputs, until the next rank has read them. */
static void output_key(const mst_group *whole, int rank, char key[96]) {
    snprintf(key, 96, "%s/passes/%d", whole->id, rank);
}

static mst_status publish(const mst_pipeline *p, mst_group *whole, const struct msi_wait *wait) {
    char text[200], key[96];
    struct msi_buf note = {0};
    spec_text(&p->spec, text, sizeof text);
    mst_status st = msi_group_declare(whole, text, wait);
    if (st != MST_OK) return st;
    add_shape(&note, &p->own.out);
    add_shape(&note, &p->own.prompt);
    add_shape(&note, &p->own.ids);
    output_key(whole, p->rank, key);
    st = note.failed ? msi_fail_memory() : msi_world_put(whole->world, wait, key, msi_buf_str(&note));
    msi_buf_free(&note);
    return st;
}

void msi_pipeline_withdraw(mst_pipeline *p, const struct msi_wait *wait) {
    const mst_group *whole = msi_handle_memory(p->whole);
    char key[96];
    output_key(whole, p->rank, key);
    msi_world_delete(whole->world, wait, key);
}

static mst_status read_note(mst_pipeline *p, const struct msi_buf *note) {
    static const char what[] = "the output of the previous stage is";
    struct msi_reader r = msi_reader(note->data, note->len);
    p->previous.out = read_shape(&r);
    p->previous.prompt = read_shape(&r);
    p->previous.ids = read_shape(&r);
    if (r.bad || r.left)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the shapes that rank %d has published are malformed",
                        p->before);
    mst_status st = msi_shape_check(&p->previous.out, what);
    if (st == MST_OK) st = msi_shape_check(&p->previous.prompt, what);
    return st == MST_OK ? msi_shape_check(&p->previous.ids, what) : st;
}

mst_status msi_pipeline_read_previous(mst_pipeline *p, const struct msi_wait *wait) {
    mst_group *whole = msi_handle_memory(p->whole);
    char key[96];
    struct msi_buf note = {0};
    if (whole->size == 1) {
        p->previous = p->own;
        return MST_OK;
    }
    output_key(whole, p->before, key);
    mst_status st = msi_world_read(whole->world, wait, key, &note);
    if (st == MST_OK) st = read_note(p, &note);
    msi_world_delete(whole->world, wait, key);
    msi_buf_free(&note);
    return st;
}

mst_status msi_pipeline_agree(mst_pipeline *p, const struct msi_wait *wait, mst_status own) {
    mst_group *whole = msi_handle_memory(p->whole);
    struct msi_saved_error error;
    if (whole->size == 1) return own;
    if (own != MST_OK) {
        bool reported = msi_blame_settle(p, &own);
        msi_error_save(&error, own);
        if (reported) msi_group_barrier(whole, wait, NULL); /* otherwise the others would assume success */
        return msi_error_restore(&error);
    }
    own = msi_group_barrier(whole, wait, NULL);
    msi_blame_settle(p, &own); /* after a timeout here, the others may still have succeeded */
    if (own == MST_OK) p->agreements++;
    return own;
}

mst_status msi_pipeline_exchange(mst_pipeline *p, const struct msi_wait *wait, mst_status own) {
    mst_group *whole = msi_handle_memory(p->whole);
    if (own == MST_OK && whole->size > 1) own = publish(p, whole, wait);
    return msi_pipeline_agree(p, wait, own);
}
