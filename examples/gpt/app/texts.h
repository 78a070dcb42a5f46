/*
 * texts.h - the texts of a run of generate: each has a prompt, its tokens so far, and its own random numbers.
 *
 * Texts of a batch have the same length: the model reads the same number of tokens of each. Prompts may
 * differ in length. All texts start with as many tokens as the shortest prompt has; the next token of a text
 * with a longer prompt is taken from the prompt, whatever the logits are. Reading the rest of a prompt token
 * by token is slower, but there is no padding and no mask, and each text has the same tokens as if it were
 * generated alone.
 *
 * If a prompt is longer than the context, the model reads its last half context, from `skip` on. Lengths
 * count from there, so the context is full at the same length for all texts.
 */
#ifndef GPT_APP_TEXTS_H
#define GPT_APP_TEXTS_H

#include "app/sequence.h"

struct gpt_generated {
    struct gpt_sequence all; /* the prompt and the generated tokens that this process knows */
    size_t prompt, skip;     /* tokens of the prompt; how many of them the model never reads */
    size_t end;              /* number of tokens at the end; later ones are ignored */
    uint64_t stream;         /* of random numbers */
};

struct gpt_texts {
    struct gpt_generated *list;
    size_t count, capacity;
    bool numbers; /* read and print tokens as numbers */
};

/* The texts of the options, each with its prompt; the --samples of a prompt follow each other. */
int gpt_texts_open(const struct gpt_options *o, const struct gpt_config *config, struct gpt_texts *texts);
void gpt_texts_close(struct gpt_texts *texts);

/* The number of tokens that are read again when the context is full: half of it. */
size_t gpt_texts_reread(size_t context);
/* The number of tokens of the prompt that the model reads. */
size_t gpt_generated_prompt_length(const struct gpt_generated *text);
/*
 * The token after the first `length` tokens: that of the prompt, or a sample of the logits, which are
 * overwritten.
 */
int gpt_generated_next_token(const struct gpt_generated *text, size_t length, float *logits,
                             size_t vocabulary, double temperature);
/*
 * Appends the token after the first `length` ones: 1 if it was generated, 0 if it is ignored, -1 after
 * gpt_fail.
 */
int gpt_generated_append(struct gpt_generated *text, size_t length, int token);

#endif
