/*
 * meet.c - what neighbours tell each other before the first run: which schedule they mean, and what they pass on. It goes through the
 * store, so that it works whatever memory the group's engine wants.
 */
#include "base/error.h"
#include "base/handles.h"
#include "pipeline/pipeline.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <string.h>

enum { SPEC_FIELDS = 7 };

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

static void spec_fields(const struct msi_schedule_spec *s, int fields[SPEC_FIELDS]) {
    const int all[SPEC_FIELDS] = {s->kind, s->stages, s->micros, s->chunks, s->batches, s->tokens, s->inner};
    memcpy(fields, all, sizeof all);
}

static void write_note(const mst_pipeline *p, struct msi_buf *to) {
    int fields[SPEC_FIELDS];
    spec_fields(&p->spec, fields);
    for (int i = 0; i < SPEC_FIELDS; i++) msi_put_u32(to, (uint32_t)fields[i]);
    add_shape(to, &p->own.out);
    add_shape(to, &p->own.prompt);
    add_shape(to, &p->own.ids);
}

static const char *spec_words(const int fields[SPEC_FIELDS], char *text, size_t size) {
    const char *name = msi_schedule_name(fields[0]);
    int n =
        snprintf(text, size, "%s of %d stages, %d micro-batches", name ? name : "?", fields[1], fields[2]);
    if (fields[3] > 1) snprintf(text + n, size - (size_t)n, ", %d chunks", fields[3]);
    if (fields[0] == MSI_STREAM)
        snprintf(text + n, size - (size_t)n, ", %d batches, %d tokens, %d at a time", fields[4], fields[5],
                 fields[6]);
    return text;
}

static mst_status check_shapes(const struct msi_passes *passes) {
    mst_status st = msi_shape_check(&passes->out, "the stage before passes on");
    if (st == MST_OK) st = msi_shape_check(&passes->prompt, "the stage before passes on");
    return st == MST_OK ? msi_shape_check(&passes->ids, "the stage before passes on") : st;
}

static mst_status read_note(mst_pipeline *p, const struct msi_buf *note) {
    int own[SPEC_FIELDS], fields[SPEC_FIELDS];
    char text[2][160];
    struct msi_reader r = msi_reader(note->data, note->len);
    spec_fields(&p->spec, own);
    for (int i = 0; i < SPEC_FIELDS; i++) fields[i] = (int)msi_read_u32(&r);
    p->previous.out = read_shape(&r);
    p->previous.prompt = read_shape(&r);
    p->previous.ids = read_shape(&r);
    if (r.bad || r.left)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "what rank %d says of its stage is no such thing", p->before);
    if (!memcmp(own, fields, sizeof own)) return check_shapes(&p->previous);
    return msi_blame(msi_fail(MST_ERR_MISMATCH, "make it alike on all ranks of the group",
                              "rank %d makes a pipeline of %s, but this rank one of %s", p->before,
                              spec_words(fields, text[0], sizeof text[0]),
                              spec_words(own, text[1], sizeof text[1])),
                     p->before);
}

/* Pair groups are this pipeline's alone, so their ids make keys that nobody else has. */
static void name_key(const mst_group *pair, char key[96]) {
    const mst_group *group = msi_handle_memory(pair);
    snprintf(key, 96, "%s/passes", group->id);
}

static mst_status hear(mst_pipeline *p, struct msi_world *world, const struct msi_wait *wait) {
    char key[96];
    struct msi_buf note = {0};
    name_key(p->pairs.pred, key);
    mst_status st = msi_world_get(world, wait, key, p->before, &note);
    if (st == MST_OK && !note.len)
        st = msi_blame(msi_fail(MST_ERR_PEER_LOST, NULL, "rank %d, the stage before, is gone", p->before),
                       p->before);
    if (st == MST_OK) st = read_note(p, &note);
    msi_buf_free(&note);
    return st;
}

mst_status msi_pipeline_meet(mst_pipeline *p) {
    const mst_group *stages = msi_handle_memory(p->stages);
    struct msi_wait wait = {msi_deadline(p->options.timeout_ms ? p->options.timeout_ms : stages->timeout_ms),
                            NULL};
    struct msi_buf note = {0};
    char key[96];
    if (stages->size == 1) {
        p->previous = p->own;
        return MST_OK;
    }
    write_note(p, &note);
    name_key(p->pairs.succ, key);
    mst_status st =
        note.failed ? msi_fail_memory() : msi_world_put(stages->world, &wait, key, msi_buf_str(&note));
    msi_buf_free(&note);
    return st == MST_OK ? hear(p, stages->world, &wait) : st;
}
