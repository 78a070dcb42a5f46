/* hash.c - SipHash-1-3 (Aumasson and Bernstein's construction: 1 round per word, 3 to finish). */
#include "base/hash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

uint64_t msi_hash(const void *data, size_t len, const uint64_t key[2]) {
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
    const unsigned char *p = data;
    uint64_t word;
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        memcpy(&word, p, 8);
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
    }
    word = (uint64_t)len << 56;
    for (size_t i = 0; i < left; i++) word |= (uint64_t)p[i] << 8 * i;
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void msi_random(void *out, size_t len) {
    unsigned char *p = out;
    for (size_t done = 0; done < len;) {
        ssize_t n = getrandom(p + done, len - done, 0);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        p[done++] = (unsigned char)(now.tv_nsec ^ (now.tv_nsec >> 8));
    }
}
