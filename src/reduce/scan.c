/* scan.c - prefix reductions of arrays, and the identities of operations. See reduce.h. */
#include "reduce/user.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum { STRIP = 256, ELEMENT_MOST = 16 }; /* elements of a strip, which stay in the cache */

/* Bits of 1, of the largest and of the smallest value; f8e4m3 has no infinity. */
static const struct limits {
    uint64_t one, largest, smallest;
} limits[MST_DTYPE_COUNT] = {
    [MST_F64] = {0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000},
    [MST_F32] = {0x3f800000, 0x7f800000, 0xff800000},
    [MST_F16] = {0x3c00, 0x7c00, 0xfc00},
    [MST_BF16] = {0x3f80, 0x7f80, 0xff80},
    [MST_F8E4M3] = {0x38, 0x7e, 0xfe},
    [MST_F8E5M2] = {0x3c, 0x7c, 0xfc},
    [MST_I8] = {1, INT8_MAX, 0x80},
    [MST_U8] = {1, UINT8_MAX, 0},
    [MST_I16] = {1, INT16_MAX, 0x8000},
    [MST_U16] = {1, UINT16_MAX, 0},
    [MST_I32] = {1, INT32_MAX, 0x80000000},
    [MST_U32] = {1, UINT32_MAX, 0},
    [MST_I64] = {1, INT64_MAX, (uint64_t)1 << 63},
    [MST_U64] = {1, UINT64_MAX, 0},
    [MST_BOOL] = {1, 1, 0},
    [MST_C64] = {0x3f800000, 0, 0}, /* the real part comes first */
    [MST_C128] = {0x3ff0000000000000, 0, 0},
};

static uint64_t identity_of(mst_dtype dtype, mst_op op) {
    const struct limits *l = &limits[dtype];
    switch (op) {
    case MST_PRODUCT:
        return l->one;
    case MST_MIN:
        return l->largest;
    case MST_MAX:
        return l->smallest;
    case MST_BAND:
        return dtype == MST_BOOL ? 1 : UINT64_MAX;
    default:
        return 0;
    }
}

void msi_reduce_identity(mst_dtype dtype, mst_op op, void *out, size_t count) {
    if (op >= MST_OP_USER) return;
    uint64_t bits[2] = {identity_of(dtype, op), 0};
    size_t size = mst_dtype_size(dtype), bytes = count * size;
    if (bytes) memcpy(out, bits, size);
    for (size_t done = size, n; done < bytes; done += n) { /* twice as much each time */
        n = done < bytes - done ? done : bytes - done;
        memcpy((char *)out + done, out, n);
    }
}

/* One strip, which begins at the given byte of the arrays. */
static void scan_strip(const struct msi_prefix *s, void *const *arrays, int n, size_t at, size_t count) {
    alignas(64) char acc[STRIP * ELEMENT_MOST], own[STRIP * ELEMENT_MOST];
    for (int r = 0; r < n; r++) {
        char *array = (char *)arrays[r] + at, *in = array;
        if (s->exclusive) in = memcpy(own, array, count * mst_dtype_size(s->dtype));
        if (s->exclusive && r) s->reducer->end(array, acc, count, s->scale);
        if (r)
            s->reducer->add(acc, in, count, s->scale);
        else
            s->reducer->begin(acc, in, count, s->scale);
        if (!s->exclusive) s->reducer->end(array, acc, count, s->scale);
    }
    if (s->exclusive) msi_reduce_identity(s->dtype, s->op, (char *)arrays[0] + at, count);
}

void msi_reduce_scan(const struct msi_prefix *s, void *const *arrays, int n, size_t count) {
    size_t strip = STRIP - STRIP % msi_unit_of(s->scale->user);
    for (size_t i = 0; i < count; i += strip)
        scan_strip(s, arrays, n, i * mst_dtype_size(s->dtype), count - i < strip ? count - i : strip);
}
