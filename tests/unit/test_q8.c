/* test_q8.c - quantised blocks (reduce/q8.h): bounds, special values, lengths, the bits of all variants. */
#include "harness.h"

#include "reduce/q8.h"
#include "reduce/reduce.h"

#include <float.h>
#include <math.h>

enum { MOST = 40 * MSI_Q8_VALUES, BYTES = MOST / MSI_Q8_VALUES * MSI_Q8_BLOCK };

static uint64_t state = 1;

/* From 0 to 1. */
static double draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / (1 << 24);
}

static const char *const contents[] = {"uniform", "normal", "outliers", "ranges", "tiny", "huge"};

static float value_of(size_t content, size_t i) {
    double x = 2 * draw() - 1, sum = x;
    switch (content) {
    case 1:
        for (int k = 0; k < 11; k++) sum += 2 * draw() - 1;
        return (float)sum;
    case 2:
        return (float)(i % MSI_Q8_VALUES == i / MSI_Q8_VALUES ? 1e6 * x : x);
    case 3:
        return (float)ldexp(x, (int)(i / MSI_Q8_VALUES * 6) - 120);
    case 4:
        return (float)ldexp(x, -115 - (int)(i / MSI_Q8_VALUES));
    case 5:
        return (float)(i % 3 ? x * FLT_MAX : x > 0 ? FLT_MAX : -FLT_MAX);
    default:
        return (float)x;
    }
}

static void check_bound(const char *what, const float *in, const float *out, size_t count) {
    for (size_t first = 0; first < count; first += MSI_Q8_VALUES) {
        size_t end = first + MSI_Q8_VALUES < count ? first + MSI_Q8_VALUES : count;
        double largest = 0;
        for (size_t i = first; i < end; i++) largest = fmax(largest, fabs((double)in[i]));
        double bound = fmax(largest / 254 * 1.0001, ldexp(1, -127));
        for (size_t i = first; i < end; i++)
            if (!(fabs((double)in[i] - (double)out[i]) <= bound))
                fail_msg("%s, value %zu: %g became %g, bound %g", what, i, (double)in[i], (double)out[i],
                         bound);
    }
}

static void errors_are_bounded(void **unused) {
    (void)unused;
    static float in[MOST], out[MOST];
    static char blocks[BYTES];
    for (const char *const *v = msi_reduce_variants(); *v; v++)
        for (size_t content = 0; content < COUNT_OF(contents); content++)
            for (int round = 0; round < 20; round++) {
                for (size_t i = 0; i < MOST; i++) in[i] = value_of(content, i);
                msi_q8_variant(*v)->pack(blocks, in, MOST);
                msi_q8_variant(*v)->unpack(out, blocks, MOST, 1);
                check_bound(contents[content], in, out, MOST);
            }
}

static void variants_give_the_same_bits(void **unused) {
    (void)unused;
    static float in[MOST], out[MOST + 1], wanted[MOST];
    static char room[BYTES + 8], blocks[BYTES];
    const struct msi_q8 *scalar = msi_q8_variant("scalar");
    for (const char *const *v = msi_reduce_variants(); *v; v++)
        for (size_t count = 0; count <= MOST; count += count < 70 ? 1 : 173)
            for (size_t offset = 0; offset < 2; offset++) {
                const struct msi_q8 *q8 = msi_q8_variant(*v);
                size_t bytes = msi_q8_bytes(count);
                for (size_t i = 0; i < count; i++) in[i] = value_of(count % COUNT_OF(contents), i);
                scalar->pack(blocks, in, count);
                memset(room, 0x5a, sizeof room);
                q8->pack(room + offset, in, count);
                assert_memory_equal(room + offset, blocks, bytes);
                assert_int_equal(room[offset + bytes], 0x5a);
                for (int divisor = 1; divisor < 4; divisor++) {
                    scalar->unpack(wanted, blocks, count, divisor);
                    out[count] = 5;
                    q8->unpack(out, room + offset, count, divisor);
                    assert_memory_equal(out, wanted, count * sizeof *out);
                    scalar->add(wanted, blocks, count);
                    q8->add(out, room + offset, count);
                    assert_memory_equal(out, wanted, count * sizeof *out);
                    assert_true(out[count] == 5);
                }
            }
}

/* A value that is no number spoils its block and no other. Blocks of zeros, also of -0, stay zero. */
static void special_values(void **unused) {
    (void)unused;
    const float odd[] = {INFINITY, -INFINITY, NAN, -NAN};
    float in[3 * MSI_Q8_VALUES] = {1, [MSI_Q8_VALUES] = 3, [2 * MSI_Q8_VALUES] = -0.0f}, out[COUNT_OF(in)];
    char blocks[3 * MSI_Q8_BLOCK];
    for (const char *const *v = msi_reduce_variants(); *v; v++)
        for (size_t k = 0; k < COUNT_OF(odd); k++)
            for (size_t at = 0; at < MSI_Q8_VALUES; at++) {
                float kept = in[MSI_Q8_VALUES + at];
                in[MSI_Q8_VALUES + at] = odd[k];
                msi_q8_variant(*v)->pack(blocks, in, COUNT_OF(in));
                msi_q8_variant(*v)->unpack(out, blocks, COUNT_OF(in), 1);
                in[MSI_Q8_VALUES + at] = kept;
                for (size_t i = 0; i < MSI_Q8_VALUES; i++) {
                    assert_true(isfinite(out[i]));
                    assert_true(isnan(out[MSI_Q8_VALUES + i]));
                    assert_true(out[2 * MSI_Q8_VALUES + i] == 0);
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(variants_give_the_same_bits),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
