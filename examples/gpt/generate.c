/*
 * generate.c - the command: text from a model, token by token; in one process, or in stages that may be split into slices.
 * What the last stage chooses returns to the first, which prints it.
 *
 * Where the context is full, a new segment begins: the later half is read again as a prompt.
 */
#include "cache.h"
#include "checkpoint.h"
#include "commands.h"
#include "fail.h"
#include "parallel.h"
#include "random.h"
#include "sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct generator {
    const struct gpt_options *options;
    struct gpt_config config;
    struct gpt_parallel parallel;
    struct gpt_model *model;
    struct gpt_cache *cache;
    struct gpt_sequence text;    /* the first stage alone adds to it */
    size_t length, done;         /* tokens there are, and were generated before this segment */
    size_t begin, prompt, fresh; /* the segment: where it begins, what is read at once, how many follow */
    bool failed;                 /* in a turn, with words of its own */
};

static void say(const struct generator *g, int token) {
    if (g->parallel.rank > 0) return;
    if (g->options->ids)
        printf("%d ", token);
    else
        putchar(token);
    fflush(stdout);
}

static int take_id(struct generator *g, int32_t id) {
    say(g, id);
    return gpt_append(&g->text, id);
}

static mst_status ended(struct generator *g, int st) {
    if (st) g->failed = true;
    return st ? MST_ERR_STATE : MST_OK;
}

static mst_status take(const mst_turn *turn, void *arg) {
    return ended(arg, take_id(arg, *(const int32_t *)turn->in));
}

/* What this stage reads: tokens, or what the stage before made of them. */
static int read_input(struct generator *g, const mst_turn *turn, size_t count) {
    struct gpt_hooks hooks = gpt_parallel_hooks(&g->parallel);
    if (!turn->first) {
        memcpy(gpt_acts_input(&g->cache->acts), turn->in, count * g->config.width * sizeof(float));
        return gpt_cache_read(g->cache, NULL, count, &hooks);
    }
    if (turn->token > 0 && take_id(g, *(const int32_t *)turn->in)) return -1;
    return gpt_cache_read(g->cache, g->text.tokens + (turn->token ? g->text.count - 1 : g->begin), count,
                          &hooks);
}

static mst_status forward(const mst_turn *turn, void *arg) {
    struct generator *g = arg;
    const struct gpt_options *o = g->options;
    size_t count = turn->token ? 1 : g->prompt;
    if (turn->token == 0) gpt_cache_cut(g->cache, 0);
    if (read_input(g, turn, count)) return ended(g, -1);
    if (turn->last) {
        double draw =
            gpt_random_uniform(gpt_random_stream(o->seed, "generate"), g->done + (size_t)turn->token);
        *(int32_t *)turn->out =
            gpt_choose(g->cache->logits, g->config.vocabulary, (float)o->temperature, draw);
    } else {
        memcpy(turn->out, gpt_acts_output(&g->cache->acts), count * g->config.width * sizeof(float));
    }
    return MST_OK;
}

/* All stages in this process. */
static mst_status run_alone(struct generator *g) {
    int32_t id = 0, next = 0;
    mst_status st = MST_OK;
    for (size_t i = 0; i < g->fresh && st == MST_OK; i++, id = next) {
        mst_turn turn = {.token = (int)i, .first = true, .last = true, .in = &id, .out = &next};
        st = forward(&turn, g);
    }
    return st == MST_OK ? take(&(mst_turn){.in = &id}, g) : st;
}

static mst_status run_stages(struct generator *g) {
    mst_pipeline *pipeline;
    mst_status st =
        mst_pipeline_new(&pipeline, .group = g->parallel.group[GPT_PP], .schedule = "stream", .batches = 1,
                         .inner = 1, .tokens = (int)g->fresh, .out = {MST_F32, 2, {1, g->config.width}},
                         .prompt = {MST_F32, 2, {g->prompt, g->config.width}}, .ids = {MST_I32, 1, {1}},
                         .forward = forward, .take = take, .arg = g);
    if (st != MST_OK) return st;
    st = mst_pipeline_run(pipeline);
    mst_pipeline_free(pipeline);
    return st;
}

static int generate(struct generator *g) {
    size_t context = g->config.context;
    for (size_t i = 0; i < g->text.count; i++) say(g, g->text.tokens[i]);
    while (g->done < g->options->tokens) {
        if (g->length - g->begin > context) g->begin = g->length - context / 2;
        g->prompt = g->length - g->begin;
        size_t room = context - g->prompt + 1, left = g->options->tokens - g->done;
        g->fresh = left < room ? left : room;
        mst_status st = g->parallel.group[GPT_PP] ? run_stages(g) : run_alone(g);
        if (st != MST_OK) return g->failed ? -1 : gpt_check(st);
        g->done += g->fresh;
        g->length += g->fresh;
    }
    return 0;
}

static int open_generator(struct generator *g) {
    const struct gpt_options *o = g->options;
    struct gpt_part part;
    if (!o->load) return gpt_fail("give the directory of a model with --load");
    if (gpt_parallel_open(&g->parallel, o->mesh, o->deterministic)) return -1;
    if (g->parallel.copies) return gpt_fail("--mesh %s: text is generated over pp and tp alone", o->mesh);
    if (gpt_checkpoint_config(o->load, &g->config) ||
        gpt_parallel_part(&g->parallel, &g->config, 0, 1, &part) ||
        !(g->model = gpt_model_new(&g->config, &part, o->seed)) ||
        gpt_checkpoint_load(o->load, g->model, NULL) || gpt_read_prompt(o, &g->text))
        return -1;
    if (!o->ids && g->config.vocabulary != 256)
        return gpt_fail("this model's %zu tokens are not bytes: give --ids", g->config.vocabulary);
    g->length = g->text.count;
    g->cache = gpt_cache_new(g->model, 1, g->config.context, g->config.context);
    return g->cache ? 0 : -1;
}

int gpt_generate(const struct gpt_options *options) {
    struct generator g = {.options = options};
    int st = open_generator(&g);
    double begin = gpt_now();
    if (!st) st = generate(&g);
    if (!st && g.parallel.rank == 0) {
        putchar('\n');
        fflush(stdout);
        fprintf(stderr, "%zu tokens, %.0f tokens/s\n", options->tokens,
                (double)options->tokens / (gpt_now() - begin));
    }
    gpt_cache_free(g.cache);
    gpt_model_free(g.model);
    free(g.text.tokens);
    gpt_parallel_close(&g.parallel, st != 0);
    return st;
}
