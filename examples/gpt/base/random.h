/*
 * random.h - random numbers without state: a number is a function of the seed, a name and an index. A process
 * that holds a slice of a matrix computes the initial values of this slice alone, and all splits give the
 * same matrix.
 */
#ifndef GPT_BASE_RANDOM_H
#define GPT_BASE_RANDOM_H

#include <stdint.h>

/* The stream of a name under a seed. */
uint64_t gpt_random_stream(uint64_t seed, const char *name);
/* Number `index` of a stream: 64 random bits, uniform in [0, 1), or normal with mean 0 and deviation 1. */
uint64_t gpt_random_bits(uint64_t stream, uint64_t index);
double gpt_random_uniform(uint64_t stream, uint64_t index);
double gpt_random_normal(uint64_t stream, uint64_t index);

#endif
