/* lines.c - see lines.h. */
#include "base/lines.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("avx"))) static void copy_by_avx(char *to, const char *from, size_t n) {
    enum { VECTOR = sizeof(__m256i) };
    for (size_t at = 0; at < n; at += MSI_CACHE_LINE) {
        __m256i low = _mm256_loadu_si256((const void *)(from + at));
        __m256i high = _mm256_loadu_si256((const void *)(from + at + VECTOR));
        _mm256_storeu_si256((void *)(to + at), low);
        _mm256_storeu_si256((void *)(to + at + VECTOR), high);
    }
}

void msi_copy_whole_lines(void *to, const void *from, size_t n) {
    if (__builtin_cpu_supports("avx"))
        copy_by_avx(to, from, n);
    else
        msi_copy_each_line(to, from, n);
}
#else
void msi_copy_whole_lines(void *to, const void *from, size_t n) {
    msi_copy_each_line(to, from, n);
}
#endif
