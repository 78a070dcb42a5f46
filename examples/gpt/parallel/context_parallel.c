/*
 * context_parallel.c - ring attention: keys and values travel around the ring, and each process applies every
 * block to its own queries. A sequence is cut into 2 n pieces. Process r of n holds pieces r and 2 n - 1 - r,
 * so that causal attention is about the same work for all:
 *
 *   n = 2   pieces   0 1 2 3
 *           process  0 1 1 0
 *
 * In step s process r has the block of process r - s, computes with it and sends it on at the same time.
 * That is n - 1 messages of 2 rows width floats. In the backward pass the gradients of each block follow it,
 * and are back at its owner after n more messages.
 */
#include "base/fail.h"
#include "parallel/mesh.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS, GRADIENTS }; /* tags */

static size_t half_position(const struct gpt_mesh *mesh, size_t process, size_t half, size_t time) {
    return (half ? 2 * mesh->size[GPT_CP] - 1 - process : process) * (time / 2);
}

size_t gpt_cp_position(const struct gpt_mesh *mesh, size_t column, size_t time) {
    if (mesh->size[GPT_CP] == 1) return column;
    size_t half = column >= time / 2;
    return half_position(mesh, mesh->coordinate[GPT_CP], half, time) + column - half * (time / 2);
}

/* The keys and values of one process: k, then v, each [batch][time][width]. */
struct block {
    size_t batch, time, width, count; /* count: elements of k, and of v */
};

static struct block block_of(const struct gpt_attention *a) {
    size_t width = a->heads * a->head_width;
    return (struct block){a->batch, a->queries, width, a->batch * a->queries * width};
}

static int reserve(struct gpt_ring *r, const struct block *b) {
    size_t needed = 10 * b->count;
    if (needed > r->capacity) {
        float *memory = malloc(needed * sizeof *memory);
        if (!memory) return gpt_fail("no memory for the keys and values of ring attention");
        free(r->block);
        r->block = memory;
        r->capacity = needed;
    }
    float *at = r->block;
    for (size_t i = 0; i < 2; i++, at += 4 * b->count) {
        r->keys[i] = at;
        r->gradients[i] = at + 2 * b->count;
    }
    r->received = at;
    return 0;
}

/* Copies between the model's rows and the keys or the values of a block. */
static void copy(const struct block *b, struct gpt_rows rows, float *packed, bool pack) {
    for (size_t i = 0; i < b->batch; i++)
        for (size_t t = 0; t < b->time; t++) {
            float *row = rows.data + i * rows.batch + t * rows.row,
                  *at = packed + (i * b->time + t) * b->width;
            memcpy(pack ? at : row, pack ? row : at, b->width * sizeof *row);
        }
}

/* Starts to send a block to the next process and to receive one from the previous process. */
static int exchange(struct gpt_mesh *mesh, float *from, float *to, size_t count, int tag,
                    mst_work *works[2]) {
    int n = (int)mesh->size[GPT_CP], at = (int)mesh->coordinate[GPT_CP];
    mst_group *g = mesh->group[GPT_CP];
    mst_p2p ops[2] = {{from, count, MST_F32, (at + 1) % n, tag, true},
                      {to, count, MST_F32, (at + n - 1) % n, tag, false}};
    double begin = gpt_now();
    mst_status st = mst_batch_isend_irecv(ops, 2, works, .group = g);
    mesh->comm_seconds += gpt_now() - begin;
    return gpt_check(st);
}

static int wait_for(struct gpt_mesh *mesh, mst_work *works[2]) {
    double begin = gpt_now();
    int st = gpt_check(mst_wait(works[0])), other = gpt_check(mst_wait(works[1]));
    mesh->comm_seconds += gpt_now() - begin;
    return st ? st : other;
}

static struct gpt_rows from_row(struct gpt_rows rows, size_t t) {
    rows.data += t * rows.row;
    return rows;
}

/* One of this process's two pieces of the queries. */
static struct gpt_attention half_of(const struct gpt_mesh *mesh, const struct gpt_attention *a, size_t half) {
    struct gpt_attention h = *a;
    size_t skip = half * (a->queries / 2);
    h.queries = a->queries / 2;
    h.stride = a->queries;
    h.position = half_position(mesh, mesh->coordinate[GPT_CP], half, a->queries);
    h.q = from_row(a->q, skip);
    h.out = from_row(a->out, skip);
    h.lse += skip;
    h.sum += skip;
    return h;
}

static struct gpt_rows packed_rows(const struct block *b, float *packed, size_t half) {
    return from_row((struct gpt_rows){packed, b->time * b->width, b->width}, half * (b->time / 2));
}

static struct gpt_keys keys_half(const struct gpt_mesh *mesh, const struct block *b, float *packed,
                                 size_t process, size_t half) {
    return (struct gpt_keys){.count = b->time / 2,
                             .position = half_position(mesh, process, half, b->time),
                             .k = packed_rows(b, packed, half),
                             .v = packed_rows(b, packed + b->count, half)};
}

/* The process whose block is here in step s. */
static size_t owner(const struct gpt_mesh *mesh, size_t s) {
    return (mesh->coordinate[GPT_CP] + mesh->size[GPT_CP] - s) % mesh->size[GPT_CP];
}

static void attend_block(const struct gpt_mesh *mesh, const struct gpt_attention *a, const struct block *b,
                         float *packed, size_t process) {
    for (size_t i = 0; i < 4; i++) {
        struct gpt_attention half = half_of(mesh, a, i / 2);
        struct gpt_keys keys = keys_half(mesh, b, packed, process, i % 2);
        gpt_attend_block(&half, &keys);
    }
}

int gpt_cp_attend(void *context, const struct gpt_attention *a, const struct gpt_keys *own) {
    struct gpt_mesh *mesh = context;
    struct gpt_ring *r = &mesh->ring;
    struct block b = block_of(a);
    mst_work *works[2] = {NULL};
    if (reserve(r, &b)) return -1;
    copy(&b, own->k, r->keys[0], true);
    copy(&b, own->v, r->keys[0] + b.count, true);
    gpt_attend_begin(a);
    for (size_t s = 0; s < mesh->size[GPT_CP]; s++) {
        bool more = s + 1 < mesh->size[GPT_CP];
        float *here = r->keys[s % 2], *next = r->keys[(s + 1) % 2];
        if (more && exchange(mesh, here, next, 2 * b.count, KEYS, works)) return -1;
        attend_block(mesh, a, &b, here, owner(mesh, s));
        if (more && wait_for(mesh, works)) return -1;
    }
    gpt_attend_end(a);
    return 0;
}

static void attend_back_block(const struct gpt_mesh *mesh, const struct gpt_attention *a,
                              const struct block *b, float *packed, size_t process, struct gpt_rows dout,
                              struct gpt_rows dq, float *to) {
    memset(to, 0, 2 * b->count * sizeof *to);
    for (size_t i = 0; i < 4; i++) {
        size_t skip = i / 2 * (b->time / 2);
        struct gpt_attention half = half_of(mesh, a, i / 2);
        struct gpt_keys keys = keys_half(mesh, b, packed, process, i % 2);
        gpt_attend_back_block(&half, &keys, from_row(dout, skip), from_row(dq, skip),
                              packed_rows(b, to, i % 2), packed_rows(b, to + b->count, i % 2));
    }
}

/* Adds this process's share to the gradients of the block that is here, and sends them on. */
static int pass_gradients(struct gpt_mesh *mesh, const struct block *b, size_t s, mst_work *works[2]) {
    float *mine = mesh->ring.gradients[s % 2], *received = mesh->ring.received;
    if (s > 0) {
        if (wait_for(mesh, works)) return -1;
        for (size_t i = 0; i < 2 * b->count; i++) mine[i] += received[i];
    }
    return exchange(mesh, mine, received, 2 * b->count, GRADIENTS, works);
}

int gpt_cp_attend_back(void *context, const struct gpt_attention *a, const struct gpt_keys *own,
                       struct gpt_rows dout, struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv) {
    struct gpt_mesh *mesh = context;
    struct gpt_ring *r = &mesh->ring;
    struct block b = block_of(a);
    mst_work *works[2] = {NULL}, *gradients[2] = {NULL};
    if (reserve(r, &b)) return -1;
    copy(&b, own->k, r->keys[0], true);
    copy(&b, own->v, r->keys[0] + b.count, true);
    gpt_attend_back_begin(a, dout);
    for (size_t s = 0; s < mesh->size[GPT_CP]; s++) {
        bool more = s + 1 < mesh->size[GPT_CP];
        float *here = r->keys[s % 2], *next = r->keys[(s + 1) % 2];
        if (more && exchange(mesh, here, next, 2 * b.count, KEYS, works)) return -1;
        attend_back_block(mesh, a, &b, here, owner(mesh, s), dout, dq, r->gradients[s % 2]);
        if (pass_gradients(mesh, &b, s, gradients) || (more && wait_for(mesh, works))) return -1;
    }
    if (wait_for(mesh, gradients)) return -1;
    copy(&b, dk, r->received, false);
    copy(&b, dv, r->received + b.count, false);
    return 0;
}
