/* batch.c - the callbacks of the pipeline, and the segments of a batch. */
#include "app/batch.h"

#include "base/fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The text in a row of a micro-batch. */
static size_t text_at(const struct gpt_batch *b, size_t micro, size_t row) {
    return b->first + least(micro * b->rows + row, b->count - 1);
}

static mst_status result(struct gpt_batch *b, int st) {
    if (st) b->failed = true;
    return st ? MST_ERR_CALLBACK : MST_OK;
}

/* Stores the next tokens of a micro-batch, which follow the first `length` ones. */
static int store_ids(struct gpt_batch *b, size_t micro, size_t length, const int32_t *ids) {
    for (size_t row = 0; row < b->rows && micro * b->rows + row < b->count; row++) {
        int st = gpt_generated_append(&b->texts->list[text_at(b, micro, row)], length, ids[row]);
        if (st < 0) return st;
        if (st && b->on_token) b->on_token(b->context, ids[row]);
    }
    return 0;
}

static mst_status take_last(const mst_pipeline_step *step, void *arg) {
    struct gpt_batch *b = arg;
    return result(b, store_ids(b, (size_t)step->batch, b->length + b->fresh - 1, step->in));
}

/* Sets the first stage's input: the prompts of the segment, or the sampled tokens. */
static int set_tokens(struct gpt_batch *b, const mst_pipeline_step *step) {
    const int32_t *ids = step->in;
    for (size_t row = 0; row < b->rows; row++) {
        const struct gpt_generated *text = &b->texts->list[text_at(b, (size_t)step->batch, row)];
        if (step->token > 0)
            b->tokens[row] = ids[row];
        else
            memcpy(b->tokens + row * b->prompt, text->all.tokens + text->skip + b->begin,
                   b->prompt * sizeof *b->tokens);
    }
    return step->token ? store_ids(b, (size_t)step->batch, b->length + (size_t)step->token - 1, ids) : 0;
}

/* The hook between layers. Deterministic: the bits must not depend on the number of texts in the batch. */
static int sum_slices(void *context, float *x, size_t count) {
    struct gpt_mesh *mesh = context;
    return gpt_check(
        mst_inference_all_reduce(x, count, MST_F32, .group = mesh->group[GPT_TP], .deterministic = true));
}

/* Runs the stage on tokens, or on the output of the previous stage. */
static int run_stage(struct gpt_batch *b, struct gpt_kv_cache *cache, const mst_pipeline_step *step,
                     size_t count) {
    struct gpt_hooks hooks = {.context = b->mesh,
                              .reduce_forward = b->mesh->group[GPT_TP] ? sum_slices : NULL};
    if (step->first) return set_tokens(b, step) ? -1 : gpt_kv_cache_forward(cache, b->tokens, count, &hooks);
    memcpy(gpt_acts_input(&cache->acts), step->in, b->rows * count * b->model->config.width * sizeof(float));
    return gpt_kv_cache_forward(cache, NULL, count, &hooks);
}

/* Samples the next token of each text of a micro-batch. */
static int sample(const struct gpt_batch *b, const struct gpt_kv_cache *cache,
                  const mst_pipeline_step *step) {
    size_t vocabulary = b->model->config.vocabulary;
    int32_t *ids = step->out;
    for (size_t row = 0; row < b->rows; row++) {
        float *logits = cache->logits + row * vocabulary;
        if (!isfinite(logits[0]))
            return gpt_fail("the logits are not finite: the model has weights that are not");
        ids[row] = gpt_generated_next_token(&b->texts->list[text_at(b, (size_t)step->batch, row)],
                                            b->length + (size_t)step->token, logits, vocabulary,
                                            b->options->temperature);
    }
    return 0;
}

static mst_status forward(const mst_pipeline_step *step, void *arg) {
    struct gpt_batch *b = arg;
    struct gpt_kv_cache *cache = b->cache[step->keep];
    size_t count = step->token ? 1 : b->prompt;
    if (step->token == 0) gpt_kv_cache_truncate(cache, 0);
    if (run_stage(b, cache, step, count)) return result(b, -1);
    if (step->last) return result(b, sample(b, cache, step));
    memcpy(step->out, gpt_acts_output(&cache->acts),
           b->rows * count * b->model->config.width * sizeof(float));
    return MST_OK;
}

/* Without a pipeline: the whole model is in this process. */
static mst_status run_alone(struct gpt_batch *b) {
    mst_status st = MST_OK;
    for (size_t i = 0; i < b->fresh && st == MST_OK; i++) {
        mst_pipeline_step step = {.token = (int)i, .first = true, .last = true, .in = b->ids, .out = b->ids};
        st = forward(&step, b);
    }
    return st == MST_OK ? take_last(&(mst_pipeline_step){.in = b->ids}, b) : st;
}

static mst_status run_stages(struct gpt_batch *b) {
    size_t width = b->model->config.width;
    mst_pipeline *pipeline;
    mst_status st = mst_pipeline_new(
        &pipeline, .group = b->mesh->group[GPT_PP], .schedule = "stream", .batches = (int)b->micro_batches,
        .inner = (int)b->micro_batches, .tokens = (int)b->fresh, .out = {MST_F32, 2, {b->rows, width}},
        .prompt = {MST_F32, 3, {b->rows, b->prompt, width}}, .ids = {MST_I32, 1, {b->rows}},
        .forward = forward, .take = take_last, .arg = b);
    if (st != MST_OK) return st;
    st = mst_pipeline_run(pipeline);
    mst_pipeline_free(pipeline);
    return st;
}

/* Generates from the end of the shortest prompt to the end of the longest text. */
static int run_segments(struct gpt_batch *b, size_t shortest, size_t end) {
    size_t context = b->model->config.context;
    b->begin = 0;
    for (b->length = shortest; b->length < end; b->length += b->fresh) {
        if (b->length - b->begin > context) b->begin = b->length - gpt_texts_reread(context);
        b->prompt = b->length - b->begin;
        b->fresh = least(context - b->prompt + 1, end - b->length);
        mst_status st = b->mesh->group[GPT_PP] ? run_stages(b) : run_alone(b);
        if (st != MST_OK) return b->failed ? -1 : gpt_check(st);
    }
    return 0;
}

/* Allocates caches for `capacity` tokens, of which a call reads at most `max_count`. */
static int open_batch(struct gpt_batch *b, size_t capacity, size_t max_count) {
    b->cache = calloc(b->micro_batches, sizeof *b->cache);
    b->tokens = calloc(b->rows * max_count, sizeof *b->tokens);
    b->ids = calloc(b->rows, sizeof *b->ids);
    if (!b->cache || !b->tokens || !b->ids) return gpt_fail("no memory for %zu texts", b->count);
    for (size_t i = 0; i < b->micro_batches; i++)
        if (!(b->cache[i] = gpt_kv_cache_new(b->model, b->rows, capacity, max_count))) return -1;
    return 0;
}

static void close_batch(struct gpt_batch *b) {
    for (size_t i = 0; b->cache && i < b->micro_batches; i++) gpt_kv_cache_free(b->cache[i]);
    free(b->cache);
    free(b->tokens);
    free(b->ids);
}

size_t gpt_batch_max(const struct gpt_batch *b) {
    return b->mesh->size[GPT_PP] * least(b->options->batch, GPT_KV_CACHE_MAX);
}

/* As many micro-batches as stages, if there are enough texts, of equal size as far as possible. */
static void split(struct gpt_batch *b, size_t first, size_t count) {
    size_t stages = b->mesh->size[GPT_PP];
    b->first = first;
    b->count = count;
    b->rows = (count + stages - 1) / stages;
    b->micro_batches = (count + b->rows - 1) / b->rows;
}

int gpt_batch_generate(struct gpt_batch *b, size_t first, size_t count) {
    size_t context = b->model->config.context, shortest = SIZE_MAX, longest = 0;
    for (size_t i = first; i < first + count; i++) {
        size_t length = gpt_generated_prompt_length(&b->texts->list[i]);
        shortest = least(shortest, length);
        longest = length > longest ? length : longest;
    }
    split(b, first, count);
    size_t end = longest + b->options->tokens, reread = end > context + 1 ? gpt_texts_reread(context) : 0;
    int st = open_batch(b, least(context, end), shortest > reread ? shortest : reread);
    if (!st) st = run_segments(b, shortest, end);
    close_batch(b);
    return st;
}
