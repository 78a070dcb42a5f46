/* texts.c - see texts.h. */
#include "app/texts.h"

#include "base/fail.h"
#include "base/random.h"
#include "io/file.h"
#include "nn/kv_cache.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 1 << 16 };

/* Text 0 has the same numbers as a single text. */
static uint64_t stream_of(uint64_t seed, size_t text) {
    uint64_t first = gpt_random_stream(seed, "generate");
    return text ? gpt_random_bits(first ^ gpt_random_stream(seed, "texts"), text) : first;
}

static struct gpt_generated *add_text(struct gpt_texts *t, uint64_t seed) {
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 16;
        struct gpt_generated *list = realloc(t->list, capacity * sizeof *list);
        if (!list) return gpt_fail("no memory for %zu texts", capacity), NULL;
        t->list = list;
        t->capacity = capacity;
    }
    t->list[t->count] = (struct gpt_generated){.stream = stream_of(seed, t->count)};
    return &t->list[t->count++];
}

/* Adds a text for each sample of a prompt. */
static int add_prompt(struct gpt_texts *t, const struct gpt_options *o, const struct gpt_config *config,
                      const char *prompt) {
    if (o->samples > MAX_TEXTS - t->count) return gpt_fail("more than %d texts", MAX_TEXTS);
    for (size_t i = 0; i < o->samples; i++) {
        struct gpt_generated *text = add_text(t, o->seed);
        if (!text || gpt_sequence_append_prompt(&text->all, prompt, t->numbers)) return -1;
        text->prompt = text->all.count;
        text->end = text->prompt + o->tokens;
        if (text->prompt == 0) return gpt_fail("empty prompt: give at least one token");
        if (gpt_tokens_check(config, text->all.tokens, text->prompt)) return -1;
        if (text->prompt > config->context) text->skip = text->prompt - gpt_texts_reread(config->context);
    }
    return 0;
}

/* Copies the line at offset `at`, without its line end; returns the offset of the next line. */
static size_t next_line(const struct gpt_file *file, size_t at, char **line) {
    const char *from = file->data + at, *end = memchr(from, '\n', file->size - at);
    size_t length = end ? (size_t)(end - from) : file->size - at, kept = length;
    if (kept && from[kept - 1] == '\r') kept--;
    *line = strndup(from, kept);
    return at + length + 1;
}

static int add_lines(struct gpt_texts *t, const struct gpt_options *o, const struct gpt_config *config,
                     const struct gpt_file *file) {
    int st = 0;
    for (size_t at = 0; at < file->size && !st;) {
        char *line;
        at = next_line(file, at, &line);
        if (!line) return gpt_fail("no memory");
        if (*line) st = add_prompt(t, o, config, line);
        free(line);
    }
    return st || t->count ? st : gpt_fail("%s has no prompt: all lines are empty", o->prompts);
}

int gpt_texts_open(const struct gpt_options *o, const struct gpt_config *config, struct gpt_texts *t) {
    struct gpt_file file;
    bool bytes = config->vocabulary == 256;
    *t = (struct gpt_texts){.numbers = o->ids || (o->prompts && !bytes)};
    if (o->samples == 0) return gpt_fail("--samples 0: there is nothing to generate");
    if (!o->prompts && !o->ids && !bytes)
        return gpt_fail("the model has %zu tokens, not bytes: give --ids", config->vocabulary);
    if (!o->prompts) return add_prompt(t, o, config, o->ids ? o->ids : o->prompt);
    if (gpt_file_map(o->prompts, &file)) return -1;
    int st = add_lines(t, o, config, &file);
    gpt_file_unmap(&file);
    return st;
}

void gpt_texts_close(struct gpt_texts *t) {
    for (size_t i = 0; i < t->count; i++) free(t->list[i].all.tokens);
    free(t->list);
}

size_t gpt_texts_reread(size_t context) {
    return context > 1 ? context / 2 : 1;
}

size_t gpt_generated_prompt_length(const struct gpt_generated *text) {
    return text->prompt - text->skip;
}

int gpt_generated_next_token(const struct gpt_generated *text, size_t length, float *logits,
                             size_t vocabulary, double temperature) {
    size_t prompt = gpt_generated_prompt_length(text);
    if (length < prompt) return text->all.tokens[text->skip + length];
    return gpt_sample_token(logits, vocabulary, (float)temperature,
                            gpt_random_uniform(text->stream, length - prompt));
}

int gpt_generated_append(struct gpt_generated *text, size_t length, int token) {
    size_t at = text->skip + length;
    if (at < text->prompt) return 0;
    return gpt_sequence_append(&text->all, token) ? -1 : at < text->end;
}
