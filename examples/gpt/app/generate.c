/*
 * generate.c - the command generate. Prints a single text token by token; prints several texts whole and in
 * order, batch by batch.
 */
#include "app/batch.h"
#include "app/commands.h"
#include "base/fail.h"
#include "io/checkpoint.h"

#include <ctype.h>
#include <stdio.h>

enum { HEADER_BYTES = 40 }; /* of a prompt, above its text */

struct generator {
    const struct gpt_options *options;
    struct gpt_config config;
    struct gpt_mesh mesh;
    struct gpt_model *model;
    struct gpt_texts texts;
    size_t tokens;             /* generated so far */
    double begin, reported_at; /* times of the start and of the last line of progress */
};

static void print_token(const struct generator *g, int token) {
    if (g->texts.numbers)
        printf("%d ", token);
    else
        putchar(token);
}

/* Prints the token of a single text, or a line of progress every few seconds. */
static void on_token(void *context, int token) {
    enum { SECONDS = 5 };
    struct generator *g = context;
    g->tokens++;
    if (g->texts.count == 1) {
        print_token(g, token);
        fflush(stdout);
    } else if (gpt_now() - g->reported_at > SECONDS) {
        g->reported_at = gpt_now();
        fprintf(stderr, "%zu of %zu tokens, %.0f tokens/s\n", g->tokens, g->texts.count * g->options->tokens,
                (double)g->tokens / (g->reported_at - g->begin));
    }
}

/* "--- 3: Once upon a time" */
static void print_header(const struct generator *g, size_t index) {
    const struct gpt_generated *text = &g->texts.list[index];
    const int *byte = text->all.tokens;
    size_t n = text->prompt < HEADER_BYTES ? text->prompt : HEADER_BYTES;
    while (n < text->prompt && n > 0 && (byte[n] & 0xc0) == 0x80) n--; /* do not split a UTF-8 character */
    printf("--- %zu: ", index + 1);
    for (size_t i = 0; i < n; i++) putchar(iscntrl(byte[i]) ? ' ' : byte[i]);
    puts(n < text->prompt ? "..." : "");
}

static void print_text(const struct generator *g, size_t index) {
    const struct gpt_generated *text = &g->texts.list[index];
    if (!g->texts.numbers) print_header(g, index);
    for (size_t i = 0; i < text->end; i++) print_token(g, text->all.tokens[i]);
    putchar('\n');
}

static void print_prompt(const struct generator *g) {
    const struct gpt_sequence *only = &g->texts.list[0].all;
    for (size_t i = 0; i < only->count; i++) print_token(g, only->tokens[i]);
    fflush(stdout);
}

/* Generates in batches of equal size, as large as possible. */
static int generate_all(struct generator *g) {
    bool prints = g->mesh.rank == 0;
    struct gpt_batch batch = {.options = g->options, .mesh = &g->mesh, .model = g->model};
    batch.texts = &g->texts;
    batch.context = g;
    if (prints) batch.on_token = on_token;
    size_t count = g->texts.count, max = gpt_batch_max(&batch), batches = (count + max - 1) / max;
    size_t each = (count + batches - 1) / batches;
    if (prints && count == 1) print_prompt(g);
    for (size_t first = 0; first < count; first += each) {
        size_t n = count - first < each ? count - first : each;
        if (gpt_batch_generate(&batch, first, n)) return -1;
        if (ferror(stdout)) return gpt_fail("cannot write to standard output");
        for (size_t i = first; i < first + n && prints && count > 1; i++) print_text(g, i);
        fflush(stdout);
    }
    if (prints && count == 1) puts("");
    return 0;
}

/* The part of opening that each process does without the others. */
static int open_local(struct generator *g) {
    const struct gpt_options *o = g->options;
    struct gpt_shard shard;
    if (!o->load) return gpt_fail("give the directory of a model with --load");
    if (o->batch == 0) return gpt_fail("--batch 0: a micro-batch needs at least one text");
    if (g->mesh.replicas) return gpt_fail("--mesh %s: generate supports pp and tp only", o->mesh);
    if (gpt_checkpoint_config(o->load, &g->config) || gpt_mesh_shard(&g->mesh, &g->config, 0, 1, &shard) ||
        !(g->model = gpt_model_blank(&g->config, &shard)) || gpt_checkpoint_load(o->load, g->model, NULL))
        return -1;
    return gpt_texts_open(o, &g->config, &g->texts);
}

static int open_generator(struct generator *g) {
    const struct gpt_options *o = g->options;
    if (gpt_mesh_open(&g->mesh, o->mesh, o->deterministic, NULL)) return -1;
    if (o->backend && gpt_mesh_set_backend(&g->mesh, o->backend)) return -1;
    return gpt_mesh_agree(&g->mesh, open_local(g));
}

int gpt_generate(const struct gpt_options *options) {
    struct generator g = {.options = options};
    int st = open_generator(&g);
    g.begin = g.reported_at = gpt_now();
    if (!st) st = generate_all(&g);
    if (!st && g.mesh.rank == 0) {
        size_t tokens = g.texts.count * options->tokens;
        fflush(stdout);
        fprintf(stderr, "%zu text%s, %zu tokens, %.0f tokens/s\n", g.texts.count,
                g.texts.count > 1 ? "s" : "", tokens, (double)tokens / (gpt_now() - g.begin));
    }
    gpt_model_free(g.model);
    gpt_texts_close(&g.texts);
    gpt_mesh_close(&g.mesh, st != 0);
    return st;
}
