/*
 * texts.h - the texts that are generated: what each begins with, its tokens so far, and random numbers of its own.
 *
 * Texts that go on together have one length: the model reads the same number of tokens of each. Their prompts need not. All
 * begin with as many tokens as the shortest prompt has; where a text's prompt has more, its next token is the prompt's,
 * whatever the model says. So a longer prompt is read in part token by token, which is slower than at once; but there is
 * nothing to pad and to mask, and each text has the bits that it has alone.
 *
 * Of a prompt that is longer than the context the model reads half a context, from `skip` on. Lengths count from there, so
 * the context is full for all texts at the same length.
 */
#ifndef GPT_APP_TEXTS_H
#define GPT_APP_TEXTS_H

#include "app/sequence.h"

struct gpt_written {
    struct gpt_sequence all; /* the prompt and what follows, as far as this process knows */
    size_t prompt, skip;     /* tokens of the prompt; those of them that are never read */
    size_t end;              /* tokens that it is to have in the end; further ones do not count */
    uint64_t stream;         /* of random numbers */
};

struct gpt_texts {
    struct gpt_written *list;
    size_t count, room;
    bool numbers; /* tokens are given and shown as numbers */
};

/* The texts that the options name, each with its prompt; --samples of the same prompt follow each other. */
int gpt_texts_open(const struct gpt_options *o, const struct gpt_config *config, struct gpt_texts *texts);
void gpt_texts_close(struct gpt_texts *texts);

/* What is read again where a context is full: its later half. */
size_t gpt_texts_again(size_t context);
/* Tokens of the prompt that are read. */
size_t gpt_written_given(const struct gpt_written *text);
/* The token behind the first `length` ones: the prompt's, or one chosen by the logits, which are spoilt. */
int gpt_written_next(const struct gpt_written *text, size_t length, float *logits, size_t vocabulary,
                     double temperature);
/* Tells it; 1 where it counts as generated, 0 where it does not, -1 and words. */
int gpt_written_take(struct gpt_written *text, size_t length, int token);

#endif
