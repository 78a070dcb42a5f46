/*
 * wave.h - texts that are written together, in one process or in stages that may be split into slices.
 *
 * They are cut into batches, one for each stage where there are enough, so that every stage has one to work on while the
 * tokens of the others are on their way; a batch has `rows` texts, whose tokens go through a stage together. What the last
 * stage chooses returns to the first, which keeps it.
 *
 * Where the context is full, a new segment begins: its later half is read again, as a prompt.
 */
#ifndef GPT_PARALLEL_WAVE_H
#define GPT_PARALLEL_WAVE_H

#include "app/texts.h"
#include "nn/cache.h"
#include "parallel/mesh.h"

struct gpt_wave {
    const struct gpt_options *options;
    struct gpt_parallel *parallel;
    struct gpt_model *model;
    struct gpt_texts *texts;
    /* The first stage learnt a new token of a text; may be NULL. */
    void (*told)(void *context, int token);
    void *context;

    size_t first, count;         /* these texts */
    size_t batches, rows;        /* texts of a batch; the last text fills up what the last batch lacks */
    struct gpt_cache **cache;    /* of each batch */
    int *tokens;                 /* what the first stage reads: [rows][prompt] at most */
    int32_t *ids;                /* rows: what is chosen where there is one stage */
    size_t length;               /* tokens of each text before the segment */
    size_t begin, prompt, fresh; /* the segment: where it begins, what is read at once, how many follow */
    bool failed;                 /* in a turn, with words of its own */
};

/* Most texts of a wave. */
size_t gpt_wave_most(const struct gpt_wave *wave);
/* Writes the texts [first, first + count) to their ends. */
int gpt_wave_write(struct gpt_wave *wave, size_t first, size_t count);

#endif
