/* numbers.c - random numbers, the same on all ranks, and conversions of every dtype. */
#include "float_kit.h"
#include "suite.h"

#include <inttypes.h>

uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t draw(uint64_t *state, uint64_t limit) {
    *state = mix(*state, 0);
    return *state % limit;
}

bool is_float(mst_dtype dtype) {
    return dtype >= MST_F64 && dtype <= MST_F8E5M2;
}

bool is_complex(mst_dtype dtype) {
    return kit_part(dtype) != dtype;
}

bool is_signed(mst_dtype dtype) {
    return dtype == MST_I8 || dtype == MST_I16 || dtype == MST_I32 || dtype == MST_I64;
}

bool op_applies(mst_dtype dtype, mst_op op) {
    if (dtype >= MST_BITS8 && dtype <= MST_BITS128) return false;
    if (op == MST_AVG) return dtype != MST_BOOL;
    if (op == MST_PREMUL_SUM) return is_float(dtype) || is_complex(dtype);
    if (is_complex(dtype)) return op == MST_SUM || op == MST_PRODUCT;
    return !is_float(dtype) || (op != MST_BAND && op != MST_BOR && op != MST_BXOR);
}

double to_double(mst_dtype dtype, const void *element) {
    uint8_t byte;
    uint16_t half;
    float single;
    double value;
    switch (mst_dtype_size(dtype)) {
    case 1:
        memcpy(&byte, element, 1);
        return kit_decode(dtype, byte);
    case 2:
        memcpy(&half, element, 2);
        return kit_decode(dtype, half);
    case 4:
        memcpy(&single, element, 4);
        return (double)single;
    default:
        memcpy(&value, element, 8);
        return value;
    }
}

void from_double(mst_dtype dtype, double value, void *element) {
    float single = (float)value;
    if (dtype == MST_F64) {
        memcpy(element, &value, 8);
    } else if (dtype == MST_F32) {
        memcpy(element, &single, 4);
    } else {
        uint64_t code = kit_encode(dtype, (double)single);
        uint16_t half = (uint16_t)code;
        uint8_t byte = (uint8_t)code;
        memcpy(element, mst_dtype_size(dtype) == 2 ? (void *)&half : (void *)&byte, mst_dtype_size(dtype));
    }
}

int64_t to_integer(mst_dtype dtype, const void *element) {
    size_t bits = 8 * mst_dtype_size(dtype);
    uint64_t value = 0;
    memcpy(&value, element, bits / 8);
    if (is_signed(dtype) && bits < 64 && value >> (bits - 1)) value |= ~(uint64_t)0 << bits;
    return (int64_t)value;
}

void show_element(mst_dtype dtype, const void *element, char *text, size_t size) {
    uint64_t bits = 0;
    if (is_complex(dtype)) {
        mst_dtype part = kit_part(dtype);
        const char *im = (const char *)element + mst_dtype_size(part);
        snprintf(text, size, "%.17g + %.17g i", to_double(part, element), to_double(part, im));
        return;
    }
    memcpy(&bits, element, mst_dtype_size(dtype));
    if (is_float(dtype))
        snprintf(text, size, "%.17g (0x%" PRIx64 ")", to_double(dtype, element), bits);
    else if (is_signed(dtype))
        snprintf(text, size, "%" PRId64, to_integer(dtype, element));
    else
        snprintf(text, size, "%" PRIu64, bits);
}
