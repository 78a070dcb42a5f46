/*
 * buffers.c - the buffers of a case: allocates them, fills them before the call, and checks them after it.
 *
 * Guards of GUARD bytes surround the data. Memory without a piece holds junk that is a function of its
 * offset.
 */
#include "suite.h"

enum { GUARD = 64 };

static char junk_at(size_t i) {
    return (char)(0xa5 ^ (i * 7));
}

static struct buffer *add(struct run *run, struct buffer *buffer, size_t count) {
    *buffer = (struct buffer){.count = count, .bytes = count * run->element, .memory = run->shape.memory};
    return buffer;
}

struct buffer *add_out(struct run *run, size_t count) {
    return add(run, &run->outs[run->n_outs++], count);
}

struct buffer *add_in(struct run *run, size_t count) {
    return add(run, &run->ins[run->n_ins++], count);
}

void before(struct buffer *buffer, enum content content, int rank, size_t from, size_t count) {
    buffer->before[buffer->n_before++] = (struct piece){content, rank, from, count};
}

void after(struct buffer *buffer, enum content content, int rank, size_t from, size_t count) {
    buffer->after[buffer->n_after++] = (struct piece){content, rank, from, count};
}

static void element_at(const struct run *run, const struct piece *piece, size_t i, void *element) {
    if (piece->content == REDUCED)
        reduced_at(run, piece->from + i, element);
    else
        input_at(run, piece->rank, piece->from + i, element);
}

static void fill(const struct run *run, struct buffer *buffer) {
    size_t at = 0;
    for (size_t i = 0; i < buffer->bytes + 2 * GUARD; i++) buffer->data[i - GUARD] = junk_at(i);
    for (int p = 0; p < buffer->n_before; p++) {
        const struct piece *piece = &buffer->before[p];
        for (size_t i = 0; piece->content != JUNK && i < piece->count; i++)
            element_at(run, piece, i, buffer->data + (at + i) * run->element);
        at += piece->count;
    }
}

/* Device buffers are aligned to their elements. */
static void place_on_device(const struct run *run, struct buffer *buffer, int number) {
    size_t whole = buffer->bytes + 2 * GUARD;
    size_t shift = buffer->memory == MISALIGNED ? 1 + (run->shape.id + (unsigned)number) % 15 : 0;
    char *memory = device_alloc(whole + shift * run->element);
    buffer->base = malloc(whole);
    if (!buffer->base || !memory) fail_case(run, "no memory for %zu bytes", whole);
    buffer->memory = PLAIN;
    buffer->data = buffer->base + GUARD;
    buffer->device = memory + shift * run->element + GUARD;
    fill(run, buffer);
    device_copy(buffer->device - GUARD, buffer->base, whole);
}

static void place(const struct run *run, struct buffer *buffer, int number) {
    size_t whole = buffer->bytes + 2 * GUARD + 16;
    void *memory = NULL;
    if (suite.device && !(run->shape.operation->traits & BYTES_ONLY)) {
        place_on_device(run, buffer, number);
        return;
    }
    if (buffer->memory == SHARED)
        EXPECT_OK(mst_alloc(whole, &memory));
    else
        memory = malloc(whole);
    if (!memory) fail_case(run, "no memory for %zu bytes", whole);
    buffer->base = memory;
    buffer->data = buffer->base + GUARD;
    if (buffer->memory == MISALIGNED) buffer->data += 1 + (run->shape.id + (unsigned)number) % 15;
    fill(run, buffer);
}

void place_buffers(struct run *run) {
    for (int i = 0; i < run->n_outs; i++) {
        place(run, &run->outs[i], i);
        run->out_list[i] = run->outs[i].device ? run->outs[i].device : run->outs[i].data;
    }
    for (int i = 0; i < run->n_ins; i++) {
        place(run, &run->ins[i], i + 3);
        run->in_list[i] = run->ins[i].device ? run->ins[i].device : run->ins[i].data;
    }
}

static void check_guards(const struct run *run, const struct buffer *buffer, const char *name) {
    for (size_t i = 0; i < 2 * GUARD; i++) {
        size_t at = i < GUARD ? i : buffer->bytes + i;
        if (buffer->data[at - GUARD] == junk_at(at)) continue;
        fail_case(run, "%s: byte %ld of %zu, outside of the buffer, was written", name, (long)at - GUARD,
                  buffer->bytes);
    }
}

static void check_junk(const struct run *run, const struct buffer *buffer, const char *name, size_t from,
                       size_t count) {
    for (size_t i = from * run->element; i < (from + count) * run->element; i++)
        if (buffer->data[i] != junk_at(i + GUARD))
            fail_case(run, "%s: byte %zu was written, but this rank receives nothing", name, i);
}

static void check_piece(const struct run *run, const struct buffer *buffer, const char *name,
                        const struct piece *piece, size_t from) {
    for (size_t i = 0; i < piece->count; i++) {
        char wanted[ELEMENT_MAX], got_text[64], wanted_text[64];
        const char *got = buffer->data + (from + i) * run->element;
        element_at(run, piece, i, wanted);
        if (is_right(run, piece, i, got, wanted)) continue;
        show_element(run->shape.dtype, got, got_text, sizeof got_text);
        show_element(run->shape.dtype, wanted, wanted_text, sizeof wanted_text);
        fail_case(run, "%s: first wrong index %zu of %zu: got %s, expected %s", name, from + i, buffer->count,
                  got_text, wanted_text);
    }
}

static void check(const struct run *run, struct buffer *buffer, const char *kind, int number) {
    /* Without `after`, the content must not change. */
    const struct piece *pieces = buffer->n_after ? buffer->after : buffer->before;
    int n = buffer->n_after ? buffer->n_after : buffer->n_before;
    size_t at = 0;
    char name[32];
    snprintf(name, sizeof name, "%s %d", kind, number);
    if (buffer->device) device_copy(buffer->base, buffer->device - GUARD, buffer->bytes + 2 * GUARD);
    check_guards(run, buffer, name);
    for (int p = 0; p < n; p++) {
        if (pieces[p].content == JUNK)
            check_junk(run, buffer, name, at, pieces[p].count);
        else
            check_piece(run, buffer, name, &pieces[p], at);
        at += pieces[p].count;
    }
    check_junk(run, buffer, name, at, buffer->count - at);
}

void check_buffers(struct run *run) {
    for (int i = 0; i < run->n_outs; i++) check(run, &run->outs[i], "output", i);
    for (int i = 0; i < run->n_ins; i++) check(run, &run->ins[i], "input", i);
}

void free_buffers(struct run *run) {
    for (int i = 0; i < run->n_outs + run->n_ins; i++) {
        struct buffer *buffer = i < run->n_outs ? &run->outs[i] : &run->ins[i - run->n_outs];
        if (buffer->memory == SHARED)
            mst_free(buffer->base);
        else
            free(buffer->base);
    }
}
