/* sequence.h - a growing list of tokens: a prompt and what follows it. */
#ifndef GPT_APP_SEQUENCE_H
#define GPT_APP_SEQUENCE_H

#include "app/options.h"

struct gpt_sequence {
    int *tokens; /* the owner frees them */
    size_t count, capacity;
};

int gpt_sequence_append(struct gpt_sequence *s, int token);
/* Appends a prompt: bytes, or with `numbers` token ids separated by commas. */
int gpt_sequence_append_prompt(struct gpt_sequence *s, const char *prompt, bool numbers);
/* Appends the prompt of --prompt or --ids. */
int gpt_sequence_read_prompt(const struct gpt_options *o, struct gpt_sequence *s);

#endif
