/* wave.c - what a stage does in its turn, and the segments of a wave. */
#include "parallel/wave.h"

#include "app/fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The text in a row of a batch. */
static size_t text_at(const struct gpt_wave *w, size_t batch, size_t row) {
    return w->first + least(batch * w->rows + row, w->count - 1);
}

static mst_status ended(struct gpt_wave *w, int st) {
    if (st) w->failed = true;
    return st ? MST_ERR_CALLBACK : MST_OK;
}

/* A batch's tokens behind the first `length` ones have come. */
static int take_ids(struct gpt_wave *w, size_t batch, size_t length, const int32_t *ids) {
    for (size_t row = 0; row < w->rows && batch * w->rows + row < w->count; row++) {
        int st = gpt_written_take(&w->texts->list[text_at(w, batch, row)], length, ids[row]);
        if (st < 0) return st;
        if (st && w->told) w->told(w->context, ids[row]);
    }
    return 0;
}

static mst_status take(const mst_pipeline_step *turn, void *arg) {
    struct gpt_wave *w = arg;
    return ended(w, take_ids(w, (size_t)turn->batch, w->length + w->fresh - 1, turn->in));
}

/* The first stage's tokens: the segment's prompts, or those that were chosen. */
static int gather(struct gpt_wave *w, const mst_pipeline_step *turn) {
    const int32_t *ids = turn->in;
    for (size_t row = 0; row < w->rows; row++) {
        const struct gpt_written *text = &w->texts->list[text_at(w, (size_t)turn->batch, row)];
        if (turn->token > 0)
            w->tokens[row] = ids[row];
        else
            memcpy(w->tokens + row * w->prompt, text->all.tokens + text->skip + w->begin,
                   w->prompt * sizeof *w->tokens);
    }
    return turn->token ? take_ids(w, (size_t)turn->batch, w->length + (size_t)turn->token - 1, ids) : 0;
}

/* Between the layers of slices. The bits of the sum must not depend on how many texts go together. */
static int sum_slices(void *parallel, float *x, size_t count) {
    struct gpt_parallel *p = parallel;
    return gpt_check(
        mst_inference_all_reduce(x, count, MST_F32, .group = p->group[GPT_TP], .deterministic = true));
}

/* Reads tokens, or what the stage before made of them. */
static int read_input(struct gpt_wave *w, struct gpt_cache *cache, const mst_pipeline_step *turn,
                      size_t count) {
    struct gpt_hooks hooks = {.context = w->parallel,
                              .reduce_forward = w->parallel->group[GPT_TP] ? sum_slices : NULL};
    if (turn->first) return gather(w, turn) ? -1 : gpt_cache_read(cache, w->tokens, count, &hooks);
    memcpy(gpt_acts_input(&cache->acts), turn->in, w->rows * count * w->model->config.width * sizeof(float));
    return gpt_cache_read(cache, NULL, count, &hooks);
}

/* The next token of each text of a batch. */
static int choose(const struct gpt_wave *w, const struct gpt_cache *cache, const mst_pipeline_step *turn) {
    size_t vocabulary = w->model->config.vocabulary;
    int32_t *ids = turn->out;
    for (size_t row = 0; row < w->rows; row++) {
        float *logits = cache->logits + row * vocabulary;
        if (!isfinite(logits[0]))
            return gpt_fail("the model gives no numbers: its weights, or some of them, are none");
        ids[row] =
            gpt_written_next(&w->texts->list[text_at(w, (size_t)turn->batch, row)],
                             w->length + (size_t)turn->token, logits, vocabulary, w->options->temperature);
    }
    return 0;
}

static mst_status forward(const mst_pipeline_step *turn, void *arg) {
    struct gpt_wave *w = arg;
    struct gpt_cache *cache = w->cache[turn->keep];
    size_t count = turn->token ? 1 : w->prompt;
    if (turn->token == 0) gpt_cache_cut(cache, 0);
    if (read_input(w, cache, turn, count)) return ended(w, -1);
    if (turn->last) return ended(w, choose(w, cache, turn));
    memcpy(turn->out, gpt_acts_output(&cache->acts),
           w->rows * count * w->model->config.width * sizeof(float));
    return MST_OK;
}

/* All stages in this process. */
static mst_status run_alone(struct gpt_wave *w) {
    mst_status st = MST_OK;
    for (size_t i = 0; i < w->fresh && st == MST_OK; i++) {
        mst_pipeline_step turn = {.token = (int)i, .first = true, .last = true, .in = w->ids, .out = w->ids};
        st = forward(&turn, w);
    }
    return st == MST_OK ? take(&(mst_pipeline_step){.in = w->ids}, w) : st;
}

static mst_status run_stages(struct gpt_wave *w) {
    size_t width = w->model->config.width;
    mst_pipeline *pipeline;
    mst_status st = mst_pipeline_new(
        &pipeline, .group = w->parallel->group[GPT_PP], .schedule = "stream", .batches = (int)w->batches,
        .inner = (int)w->batches, .tokens = (int)w->fresh, .out = {MST_F32, 2, {w->rows, width}},
        .prompt = {MST_F32, 3, {w->rows, w->prompt, width}}, .ids = {MST_I32, 1, {w->rows}},
        .forward = forward, .take = take, .arg = w);
    if (st != MST_OK) return st;
    st = mst_pipeline_run(pipeline);
    mst_pipeline_free(pipeline);
    return st;
}

/* From the shortest prompt to the end of the text that has the longest. */
static int write_segments(struct gpt_wave *w, size_t shortest, size_t end) {
    size_t context = w->model->config.context;
    w->begin = 0;
    for (w->length = shortest; w->length < end; w->length += w->fresh) {
        if (w->length - w->begin > context) w->begin = w->length - gpt_texts_again(context);
        w->prompt = w->length - w->begin;
        w->fresh = least(context - w->prompt + 1, end - w->length);
        mst_status st = w->parallel->group[GPT_PP] ? run_stages(w) : run_alone(w);
        if (st != MST_OK) return w->failed ? -1 : gpt_check(st);
    }
    return 0;
}

/* Room for the batches: so many tokens, and so many at once. */
static int open_wave(struct gpt_wave *w, size_t capacity, size_t most) {
    w->cache = calloc(w->batches, sizeof *w->cache);
    w->tokens = calloc(w->rows * most, sizeof *w->tokens);
    w->ids = calloc(w->rows, sizeof *w->ids);
    if (!w->cache || !w->tokens || !w->ids) return gpt_fail("no memory for %zu texts", w->count);
    for (size_t i = 0; i < w->batches; i++)
        if (!(w->cache[i] = gpt_cache_new(w->model, w->rows, capacity, most))) return -1;
    return 0;
}

static void close_wave(struct gpt_wave *w) {
    for (size_t i = 0; w->cache && i < w->batches; i++) gpt_cache_free(w->cache[i]);
    free(w->cache);
    free(w->tokens);
    free(w->ids);
}

size_t gpt_wave_most(const struct gpt_wave *w) {
    return w->parallel->size[GPT_PP] * least(w->options->batch, GPT_CACHE_MOST);
}

/* As many batches as stages, if there are enough texts, and as even as can be. */
static void cut(struct gpt_wave *w, size_t first, size_t count) {
    size_t stages = w->parallel->size[GPT_PP];
    w->first = first;
    w->count = count;
    w->rows = (count + stages - 1) / stages;
    w->batches = (count + w->rows - 1) / w->rows;
}

int gpt_wave_write(struct gpt_wave *w, size_t first, size_t count) {
    size_t context = w->model->config.context, shortest = SIZE_MAX, longest = 0;
    for (size_t i = first; i < first + count; i++) {
        size_t given = gpt_written_given(&w->texts->list[i]);
        shortest = least(shortest, given);
        longest = given > longest ? given : longest;
    }
    cut(w, first, count);
    size_t end = longest + w->options->tokens, again = end > context + 1 ? gpt_texts_again(context) : 0;
    int st = open_wave(w, least(context, end), shortest > again ? shortest : again);
    if (!st) st = write_segments(w, shortest, end);
    close_wave(w);
    return st;
}
