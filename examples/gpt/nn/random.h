/*
 * random.h - random numbers without a state: the number at a place is a function of the seed, a name and the place, so
 * a process that needs but a slice of a matrix draws the numbers of that slice alone, and they are the right ones.
 */
#ifndef GPT_NN_RANDOM_H
#define GPT_NN_RANDOM_H

#include <stdint.h>

/* The stream of a name under a seed. */
uint64_t gpt_random_stream(uint64_t seed, const char *name);
/* 64 random bits: those at `index` of a stream. */
uint64_t gpt_random_bits(uint64_t stream, uint64_t index);
/* In [0, 1). */
double gpt_random_uniform(uint64_t stream, uint64_t index);
/* Normal, mean 0, deviation 1. */
double gpt_random_normal(uint64_t stream, uint64_t index);

#endif
