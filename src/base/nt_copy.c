/* nt_copy.c - see nt_copy.h. */
#include "base/nt_copy.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum { LINE = 64 };

static void copy_line(char *to, const char *from) {
    enum { VECTOR = sizeof(__m128i), VECTORS = LINE / VECTOR };
    __m128i line[VECTORS];
    memcpy(line, from, LINE);
    for (int i = 0; i < VECTORS; i++) _mm_stream_si128((__m128i *)(void *)(to + i * VECTOR), line[i]);
}

void msi_nt_copy(void *to, const void *from, size_t n) {
    size_t at = -(uintptr_t)to % LINE;
    if (at > n) at = n;
    memcpy(to, from, at);
    for (; at + LINE <= n; at += LINE) copy_line((char *)to + at, (const char *)from + at);
    memcpy((char *)to + at, (const char *)from + at, n - at);
    _mm_sfence(); /* orders these stores before a release store of this thread, as others are */
}
#else
void msi_nt_copy(void *to, const void *from, size_t n) {
    memcpy(to, from, n);
}
#endif
