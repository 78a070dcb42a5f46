/* random.c - splitmix64 as a hash of (stream, index). */
#include "base/random.h"

#include <math.h>

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t gpt_random_stream(uint64_t seed, const char *name) {
    uint64_t hash = mix(seed);
    for (; *name; name++) hash = mix(hash ^ (unsigned char)*name);
    return hash;
}

uint64_t gpt_random_bits(uint64_t stream, uint64_t index) {
    return mix(stream ^ mix(index));
}

double gpt_random_uniform(uint64_t stream, uint64_t index) {
    return (double)(gpt_random_bits(stream, index) >> 11) * 0x1p-53;
}

/* Box-Muller; both uniform numbers come from one draw. */
double gpt_random_normal(uint64_t stream, uint64_t index) {
    uint64_t bits = gpt_random_bits(stream, index);
    double u = ((double)(bits >> 32) + 1) * 0x1p-32, v = (double)(bits & 0xffffffffu) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}
