/* reduce.c - selects the kernels for this processor on the first call. Every thread selects the same. */
#include "reduce/reduce.h"
#include "reduce/variants.h"

#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#ifdef __x86_64__
static bool has_avx2(void) {
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

#ifdef MSI_AVX512
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

#ifdef MSI_AVX512FP16
static bool has_avx512fp16(void) {
    unsigned a, b, c, d;
    return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
}
#endif
#elif defined __aarch64__
static bool has_bf16(void) {
    const unsigned long half = 1ul << 10, fused = 1ul << 23, bf16 = 1ul << 14; /* ASIMDHP, ASIMDFHM, BF16 */
    return !(~getauxval(AT_HWCAP) & (half | fused)) && (getauxval(AT_HWCAP2) & bf16);
}
#endif

static bool always(void) {
    return true;
}

/* Best first. A processor that supports one also supports all that follow. */
static const struct variant {
    const struct msi_reduce_table *table;
    bool (*is_supported)(void);
} variants[] = {
#ifdef MSI_AVX512FP16
    {&msi_reduce_avx512fp16, has_avx512fp16},
#endif
#ifdef MSI_AVX512
    {&msi_reduce_avx512, has_avx512},
#endif
#ifdef __x86_64__
    {&msi_reduce_avx2, has_avx2},
#endif
#ifdef __aarch64__
    {&msi_reduce_bf16, has_bf16},
    {&msi_reduce_neon, always},
#endif
    {&msi_reduce_scalar, always},
};

static const char *const names[] = {
#ifdef MSI_AVX512FP16
    "avx512fp16",
#endif
#ifdef MSI_AVX512
    "avx512",
#endif
#ifdef __x86_64__
    "avx2",
#endif
#ifdef __aarch64__
    "neon-bf16",  "neon",
#endif
    "scalar",     NULL,
};

/* The index of the best variant. */
static int best(void) {
    static atomic_int known = -1; /* relaxed: every thread computes the same value */
    int index = atomic_load_explicit(&known, memory_order_relaxed);
    if (index >= 0) return index;
    for (index = 0; !variants[index].is_supported();) index++;
    atomic_store_explicit(&known, index, memory_order_relaxed);
    return index;
}

static const struct msi_reducer *look_up(int index, mst_dtype dtype, mst_op op) {
    if ((unsigned)dtype >= MST_DTYPE_COUNT || (unsigned)op >= MST_OP_COUNT) return NULL;
    return variants[index].table->at[dtype][op];
}

const struct msi_reducer *msi_reducer_get(mst_dtype dtype, mst_op op) {
    return look_up(best(), dtype, op);
}

const struct msi_reducer *msi_reducer_for(mst_dtype dtype, mst_op op, size_t count) {
    enum { FEW = 4, SCALAR = sizeof names / sizeof *names - 2 };
    return look_up(count <= FEW ? SCALAR : best(), dtype, op);
}

const struct msi_q8 *msi_q8_get(void) {
    return &variants[best()].table->q8;
}

const char *const *msi_reduce_variants(void) {
    return names + best();
}

/* The index of a variant that this processor supports; -1: it is none. */
static int find(const char *variant) {
    for (int i = best(); names[i]; i++)
        if (!strcmp(names[i], variant)) return i;
    return -1;
}

const struct msi_reducer *msi_reducer_variant(const char *variant, mst_dtype dtype, mst_op op) {
    int index = find(variant);
    return index < 0 ? NULL : look_up(index, dtype, op);
}

const struct msi_q8 *msi_q8_variant(const char *variant) {
    int index = find(variant);
    return index < 0 ? NULL : &variants[index].table->q8;
}
