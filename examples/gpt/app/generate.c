/*
 * generate.c - the command: texts from a model. One is shown token by token; several are shown whole and in order, a wave of
 * them after the other.
 */
#include "app/commands.h"
#include "app/fail.h"
#include "io/checkpoint.h"
#include "parallel/wave.h"

#include <ctype.h>
#include <stdio.h>

enum { SHOWN = 40 }; /* of a prompt, above its text */

struct generator {
    const struct gpt_options *options;
    struct gpt_config config;
    struct gpt_parallel parallel;
    struct gpt_model *model;
    struct gpt_texts texts;
    size_t tokens;         /* that were generated */
    double begin, said_at; /* when generation began, and something was said of its progress */
};

static void show_token(const struct generator *g, int token) {
    if (g->texts.numbers)
        printf("%d ", token);
    else
        putchar(token);
}

/* A token of a text: shown at once where there is one text. */
static void told(void *context, int token) {
    enum { SECONDS = 5 };
    struct generator *g = context;
    g->tokens++;
    if (g->texts.count == 1) {
        show_token(g, token);
        fflush(stdout);
    } else if (gpt_now() - g->said_at > SECONDS) {
        g->said_at = gpt_now();
        fprintf(stderr, "%zu of %zu tokens, %.0f tokens/s\n", g->tokens, g->texts.count * g->options->tokens,
                (double)g->tokens / (g->said_at - g->begin));
    }
}

/* "--- 3: Once upon a time" */
static void show_header(const struct generator *g, size_t index) {
    const struct gpt_written *text = &g->texts.list[index];
    const int *byte = text->all.tokens;
    size_t n = text->prompt < SHOWN ? text->prompt : SHOWN;
    while (n < text->prompt && n > 0 && (byte[n] & 0xc0) == 0x80) n--; /* no character is cut in two */
    printf("--- %zu: ", index + 1);
    for (size_t i = 0; i < n; i++) putchar(iscntrl(byte[i]) ? ' ' : byte[i]);
    puts(n < text->prompt ? "..." : "");
}

static void show_text(const struct generator *g, size_t index) {
    const struct gpt_written *text = &g->texts.list[index];
    if (!g->texts.numbers) show_header(g, index);
    for (size_t i = 0; i < text->end; i++) show_token(g, text->all.tokens[i]);
    putchar('\n');
}

static void show_begin(const struct generator *g) {
    const struct gpt_sequence *only = &g->texts.list[0].all;
    for (size_t i = 0; i < only->count; i++) show_token(g, only->tokens[i]);
    fflush(stdout);
}

/* Waves of equal size, as large as they may be. */
static int write_all(struct generator *g) {
    bool shows = g->parallel.rank == 0;
    struct gpt_wave wave = {.options = g->options, .parallel = &g->parallel, .model = g->model};
    wave.texts = &g->texts;
    wave.context = g;
    if (shows) wave.told = told;
    size_t count = g->texts.count, most = gpt_wave_most(&wave), waves = (count + most - 1) / most;
    size_t each = (count + waves - 1) / waves;
    if (shows && count == 1) show_begin(g);
    for (size_t first = 0; first < count; first += each) {
        size_t n = count - first < each ? count - first : each;
        if (gpt_wave_write(&wave, first, n)) return -1;
        if (ferror(stdout)) return gpt_fail("what was printed could not be written");
        for (size_t i = first; i < first + n && shows && count > 1; i++) show_text(g, i);
        fflush(stdout);
    }
    if (shows && count == 1) puts("");
    return 0;
}

/* What each process does by itself. */
static int open_own(struct generator *g) {
    const struct gpt_options *o = g->options;
    struct gpt_part part;
    if (!o->load) return gpt_fail("give the directory of a model with --load");
    if (o->batch == 0) return gpt_fail("--batch 0: a stage goes on with at least one text");
    if (g->parallel.copies) return gpt_fail("--mesh %s: text is generated over pp and tp alone", o->mesh);
    if (gpt_checkpoint_config(o->load, &g->config) ||
        gpt_parallel_part(&g->parallel, &g->config, 0, 1, &part) ||
        !(g->model = gpt_model_blank(&g->config, &part)) || gpt_checkpoint_load(o->load, g->model, NULL))
        return -1;
    return gpt_texts_open(o, &g->config, &g->texts);
}

static int open_generator(struct generator *g) {
    const struct gpt_options *o = g->options;
    if (gpt_parallel_open(&g->parallel, o->mesh, o->deterministic)) return -1;
    if (o->backend && gpt_parallel_use(&g->parallel, o->backend)) return -1;
    return gpt_parallel_agree(&g->parallel, open_own(g));
}

int gpt_generate(const struct gpt_options *options) {
    struct generator g = {.options = options};
    int st = open_generator(&g);
    g.begin = g.said_at = gpt_now();
    if (!st) st = write_all(&g);
    if (!st && g.parallel.rank == 0) {
        size_t tokens = g.texts.count * options->tokens;
        fflush(stdout);
        fprintf(stderr, "%zu text%s, %zu tokens, %.0f tokens/s\n", g.texts.count,
                g.texts.count > 1 ? "s" : "", tokens, (double)tokens / (gpt_now() - g.begin));
    }
    gpt_model_free(g.model);
    gpt_texts_close(&g.texts);
    gpt_parallel_close(&g.parallel, st != 0);
    return st;
}
