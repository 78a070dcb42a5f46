/* sequence.h - the tokens of a text: a prompt, and what is added to it. */
#ifndef GPT_APP_SEQUENCE_H
#define GPT_APP_SEQUENCE_H

#include "app/options.h"

struct gpt_sequence {
    int *tokens; /* the owner frees them */
    size_t count, room;
};

int gpt_append(struct gpt_sequence *s, int token);
/* A prompt as it is given: bytes, or with `numbers` ids with commas between. */
int gpt_append_prompt(struct gpt_sequence *s, const char *prompt, bool numbers);
/* What --prompt or --ids says. */
int gpt_read_prompt(const struct gpt_options *o, struct gpt_sequence *s);

#endif
