/*
 * data.h - a text as bytes, and the sequences that are cut out of it. Which sequence a step trains on is a function of
 * the seed, the step and the sequence's number in it, so processes that share the work need no words about it.
 */
#ifndef GPT_IO_DATA_H
#define GPT_IO_DATA_H

#include <stddef.h>
#include <stdint.h>

struct gpt_text {
    const char *path;
    size_t size;
    uint32_t sum; /* of its length, beginning and end: another text most likely has another */
    int fd;       /* read piece by piece, so that one that is cut off meanwhile is an error and no signal */
};

/* The file at path, or with NULL a licence that every Debian machine has. */
int gpt_text_open(const char *path, struct gpt_text *text);
void gpt_text_close(struct gpt_text *text);
/* 0 if the text has a sequence of time tokens and one that follows. */
int gpt_text_check(const struct gpt_text *text, size_t time);

/* Sequence `index` of a step: time tokens, and the tokens that follow each. 0 unless the text is too short or cannot be read. */
int gpt_text_sequence(const struct gpt_text *text, uint64_t seed, size_t step, size_t index, size_t time,
                      int *tokens, int *targets);

#endif
