/* generate.c - text from a model, token by token; and the logits of given tokens, for comparison. */
#include "cache.h"
#include "checkpoint.h"
#include "commands.h"
#include "fail.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sequence {
    int *tokens;
    size_t count, room;
};

static int append(struct sequence *s, int token) {
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        int *tokens = realloc(s->tokens, room * sizeof *tokens);
        if (!tokens) return gpt_fail("no memory");
        s->tokens = tokens;
        s->room = room;
    }
    s->tokens[s->count++] = token;
    return 0;
}

/* The prompt's bytes, or the numbers of --ids. */
static int read_prompt(const struct gpt_options *o, struct sequence *s) {
    int st = 0;
    if (!o->ids) {
        for (const char *c = o->prompt; *c && !st; c++) st = append(s, (unsigned char)*c);
    } else {
        char *end = NULL;
        for (const char *c = o->ids; *c && !st; c = *end == ',' ? end + 1 : end) {
            long id = strtol(c, &end, 10);
            if (end == c || (*end && *end != ',') || id < 0 || id > 1 << 20)
                return gpt_fail("--ids %s: numbers with commas between are expected", o->ids);
            st = append(s, (int)id);
        }
    }
    return st || s->count ? st : gpt_fail("an empty prompt: give at least one token to go on from");
}

static struct gpt_model *load(const struct gpt_options *o) {
    struct gpt_config config;
    if (!o->load) return gpt_fail("give the directory of a model with --load"), NULL;
    if (gpt_checkpoint_config(o->load, &config)) return NULL;
    struct gpt_part whole = gpt_part_whole(&config);
    struct gpt_model *model = gpt_model_new(&config, &whole, o->seed);
    if (model && gpt_checkpoint_load(o->load, model, NULL)) {
        gpt_model_free(model);
        return NULL;
    }
    return model;
}

static void say(const struct gpt_options *o, int token) {
    if (o->ids)
        printf("%d ", token);
    else
        putchar(token);
    fflush(stdout);
}

/* Reads what the cache has not read of the sequence. Where it is full, it begins again with the later half. */
static int catch_up(struct gpt_cache *c, const struct sequence *s, size_t *begin) {
    if (s->count - *begin > c->capacity) {
        *begin = s->count - c->capacity / 2;
        gpt_cache_cut(c, 0);
    }
    size_t read = *begin + c->length;
    return gpt_cache_read(c, s->tokens + read, s->count - read, NULL);
}

static int generate(const struct gpt_options *o, struct gpt_model *model, struct sequence *s) {
    size_t context = model->config.context, begin = 0;
    struct gpt_cache *cache = gpt_cache_new(model, 1, context, context);
    uint64_t stream = gpt_random_stream(o->seed, "generate");
    int st = cache ? 0 : -1;
    for (size_t i = 0; i < s->count && !st; i++) say(o, s->tokens[i]);
    for (size_t i = 0; i < o->tokens && !st; i++) {
        if ((st = catch_up(cache, s, &begin))) break;
        int next = gpt_choose(cache->logits, model->config.vocabulary, (float)o->temperature,
                              gpt_random_uniform(stream, i));
        say(o, next);
        st = append(s, next);
    }
    putchar('\n');
    gpt_cache_free(cache);
    return st;
}

int gpt_generate(const struct gpt_options *options) {
    struct sequence s = {0};
    struct timespec t[2];
    struct gpt_model *model = load(options);
    if (!model) return -1;
    int st = read_prompt(options, &s);
    clock_gettime(CLOCK_MONOTONIC, &t[0]);
    if (!st && !options->ids && model->config.vocabulary != 256)
        st = gpt_fail("this model's %zu tokens are not bytes: give --ids", model->config.vocabulary);
    if (!st) st = generate(options, model, &s);
    clock_gettime(CLOCK_MONOTONIC, &t[1]);
    double seconds = (double)(t[1].tv_sec - t[0].tv_sec) + 1e-9 * (double)(t[1].tv_nsec - t[0].tv_nsec);
    if (!st)
        fprintf(stderr, "%zu tokens, %.0f tokens/s\n", options->tokens, (double)options->tokens / seconds);
    free(s.tokens);
    gpt_model_free(model);
    return st;
}

int gpt_logits(const struct gpt_options *options) {
    struct sequence s = {0};
    struct gpt_model *model = load(options);
    struct gpt_acts *acts = NULL;
    int st = model ? read_prompt(options, &s) : -1;
    if (!st) st = (acts = gpt_acts_new(model, 1, s.count)) ? gpt_forward(model, acts, s.tokens, NULL) : -1;
    for (size_t row = 0; row < s.count && !st; row++)
        for (size_t i = 0; i < model->config.vocabulary; i++)
            printf("%.9g%c", (double)acts->logits[row * model->config.vocabulary + i],
                   i + 1 < model->config.vocabulary ? ' ' : '\n');
    gpt_acts_free(acts);
    free(s.tokens);
    gpt_model_free(model);
    return st;
}
