/*
 * dataset.h - a text file whose bytes are tokens. The sequences of a step are a function of the seed, the
 * step and the index in the step, so processes agree on them without communication.
 */
#ifndef GPT_IO_DATASET_H
#define GPT_IO_DATASET_H

#include <stddef.h>
#include <stdint.h>

struct gpt_dataset {
    const char *path;
    size_t size;
    uint32_t hash; /* of length, beginning and end, to detect that processes read different texts */
    int fd;        /* not mapped: a file that is truncated while in use is then an error, not SIGBUS */
};

/* The file at path; NULL: a licence text of the distribution. */
int gpt_dataset_open(const char *path, struct gpt_dataset *d);
void gpt_dataset_close(struct gpt_dataset *d);
/* 0 if the text is longer than `time` tokens. */
int gpt_dataset_check(const struct gpt_dataset *d, size_t time);

/* Sequence `index` of a step: `time` tokens, and for each the token that follows it. */
int gpt_dataset_sequence(const struct gpt_dataset *d, uint64_t seed, size_t step, size_t index, size_t time,
                         int *tokens, int *targets);

#endif
