/* premul.c - NCCL's numbers of dtypes, and its PreMulSum operations. */
#include "engine.h"

#include <string.h>

unsigned mnc_dtype(mst_dtype dtype) {
    static const unsigned char numbers[MST_DTYPE_COUNT] = {
        [MST_F64] = MNC_FLOAT64,   [MST_F32] = MNC_FLOAT32,       [MST_F16] = MNC_FLOAT16,
        [MST_BF16] = MNC_BFLOAT16, [MST_F8E4M3] = MNC_FLOAT8E4M3, [MST_F8E5M2] = MNC_FLOAT8E5M2,
        [MST_I8] = MNC_INT8,       [MST_U8] = MNC_UINT8,          [MST_I32] = MNC_INT32,
        [MST_U32] = MNC_UINT32,    [MST_I64] = MNC_INT64,         [MST_U64] = MNC_UINT64,
    };
    return numbers[dtype];
}

/* Rounds to nearest even; NaN stays NaN. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The same; overflow becomes infinity, and subnormal numbers are kept. */
static uint16_t to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffff;
    if (value != value) return 0x7e00;
    if (size >= 0x477ff000) return sign | 0x7c00;
    if (size < 0x38800000) { /* below 2^-14: a multiple of 2^-24; the addition rounds it */
        float magnitude, shifted;
        memcpy(&magnitude, &size, sizeof magnitude);
        shifted = magnitude + 0.5f;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

static uint64_t scalar_bits(mst_dtype dtype, double factor) {
    float single = (float)factor;
    uint64_t bits = 0;
    uint16_t half = dtype == MST_F16 ? to_f16(single) : to_bf16(single);
    if (dtype == MST_F64)
        memcpy(&bits, &factor, sizeof factor);
    else if (dtype == MST_F32)
        memcpy(&bits, &single, sizeof single);
    else
        memcpy(&bits, &half, sizeof half);
    return bits;
}

static unsigned cached(const mst_backend_engine *engine) {
    return engine->n_premuls < MNC_PREMULS ? engine->n_premuls : MNC_PREMULS;
}

/* NCCL copies the scalar, and frees an operation after its last use, so the oldest entry is replaced. */
mnc_result mnc_premul(mst_backend_engine *engine, mst_dtype dtype, double factor, unsigned *op) {
    unsigned number = mnc_dtype(dtype);
    uint64_t bits = scalar_bits(dtype, factor == 0 ? 1 : factor);
    for (unsigned i = 0; i < cached(engine); i++) {
        const struct mnc_premul *known = &engine->premuls[i];
        if (known->dtype != number || known->bits != bits) continue;
        *op = known->op;
        return MNC_SUCCESS;
    }
    mnc_result result = mnc_nccl.RedOpCreatePreMulSum(op, &bits, number, MNC_SCALAR_HOST, engine->blocking);
    if (result != MNC_SUCCESS) return result;
    struct mnc_premul *at = &engine->premuls[engine->n_premuls % MNC_PREMULS];
    if (engine->n_premuls++ >= MNC_PREMULS) mnc_nccl.RedOpDestroy(at->op, engine->blocking);
    *at = (struct mnc_premul){*op, number, bits};
    return MNC_SUCCESS;
}

void mnc_premul_end(mst_backend_engine *engine) {
    for (unsigned i = 0; i < cached(engine); i++)
        mnc_nccl.RedOpDestroy(engine->premuls[i].op, engine->blocking);
}
