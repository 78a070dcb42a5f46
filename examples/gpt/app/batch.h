/*
 * batch.h - texts that are generated together, over the stages of a pipeline or in one process.
 *
 * A batch has one micro-batch for each stage, if there are enough texts, so that every stage computes one
 * micro-batch while the others are on their way. The tokens of a micro-batch's texts go through a stage
 * together. The last stage samples the next tokens and sends them to the first stage, which stores them.
 *
 * When the context is full, a new segment starts: the model reads the last half of the context again, as a
 * prompt.
 */
#ifndef GPT_APP_BATCH_H
#define GPT_APP_BATCH_H

#include "app/texts.h"
#include "nn/kv_cache.h"
#include "parallel/mesh.h"

struct gpt_batch {
    const struct gpt_options *options;
    struct gpt_mesh *mesh;
    struct gpt_model *model;
    struct gpt_texts *texts;
    void (*on_token)(void *context,
                     int token); /* in the first stage, for each generated token; may be NULL */
    void *context;

    size_t first, count;         /* texts [first, first + count) */
    size_t micro_batches, rows;  /* texts of a micro-batch; the last text pads the last micro-batch */
    struct gpt_kv_cache **cache; /* of each micro-batch */
    int *tokens;                 /* input of the first stage: at most [rows][prompt] */
    int32_t *ids;                /* [rows]: sampled tokens, if there is a single stage */
    size_t length;               /* tokens of each text before the segment */
    size_t begin, prompt, fresh; /* of the segment: first token, tokens read at once, tokens to generate */
    bool failed;                 /* a pipeline step failed and called gpt_fail */
};

/* The most texts of a batch. */
size_t gpt_batch_max(const struct gpt_batch *batch);
/* Generates texts [first, first + count) to their ends. */
int gpt_batch_generate(struct gpt_batch *batch, size_t first, size_t count);

#endif
