/*
 * number.c - numbers of the JSON reader. See parts.h.
 *
 * Most numbers have so few digits that the digits and the power of ten are exact doubles; one multiplication
 * or division then rounds correctly. strtod converts the others, without a decimal point, since that depends
 * on the locale.
 */
#include "base/json/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    DIGITS_MOST = 19,     /* they always fit into 64 bits */
    DIGITS_KEPT = 800,    /* telling two doubles apart takes up to 767 */
    EXPONENT_MOST = 99999 /* infinite or zero with DIGITS_KEPT digits */
};

static const char *read_digits(const char *at, const char *end, uint64_t *digits) {
    uint64_t sum = *digits;
    while (at < end && msi_is_digit(*at)) sum = sum * 10 + (uint64_t)(*at++ - '0'); /* or wraps */
    *digits = sum;
    return at;
}

/* After the e. */
static const char *read_exponent(const char *at, const char *end, int64_t *exponent) {
    const int64_t most = INT64_MAX / 100;
    bool negative = at < end && *at == '-';
    int64_t value = 0;
    if (at < end && (*at == '-' || *at == '+')) at++;
    for (; at < end && msi_is_digit(*at); at++)
        if (value < most) value = value * 10 + (*at - '0');
    *exponent += negative ? -value : value;
    return at;
}

const char *msi_json_number_read(const char *at, const char *end, struct msi_json_number *number) {
    struct msi_json_number n = {.begin = at, .negative = *at == '-'};
    const char *whole = at + n.negative;
    at = whole < end && *whole == '0' ? whole + 1 : read_digits(whole, end, &n.digits);
    if (at == whole) return at;
    int64_t count = at - whole;
    if (at < end && *at == '.') {
        const char *fraction = at + 1;
        at = read_digits(fraction, end, &n.digits);
        if (at == fraction) return at;
        count += at - fraction;
        n.exponent = fraction - at;
    }
    n.many = count > DIGITS_MOST;
    if (at < end && (*at | 0x20) == 'e') {
        at = read_exponent(at + 1, end, &n.exponent);
        if (!msi_is_digit(at[-1])) return at;
    }
    n.end = at;
    *number = n;
    return NULL;
}

/* Converts with strtod, as digits and an exponent. */
static double convert(const struct msi_json_number *number) {
    char text[DIGITS_KEPT + 32];
    int n = 0;
    int64_t exponent = number->exponent;
    for (const char *at = number->begin; at < number->end && (*at | 0x20) != 'e'; at++) {
        if (!msi_is_digit(*at) || (n == 0 && *at == '0')) continue;
        if (n < DIGITS_KEPT) {
            text[n++] = *at;
        } else {
            exponent++;
            if (*at != '0') text[n - 1] = '1'; /* more than a half rounds up */
        }
    }
    if (n == 0) return 0;
    if (exponent > EXPONENT_MOST) exponent = EXPONENT_MOST;
    if (exponent < -EXPONENT_MOST) exponent = -EXPONENT_MOST;
    snprintf(text + n, sizeof text - (size_t)n, "e%d", (int)exponent);
    return strtod(text, NULL);
}

bool msi_json_number_double(const struct msi_json_number *number, double *value) {
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int64_t most = sizeof tens / sizeof *tens - 1;
    double v;
    if (!number->many && number->digits <= UINT64_C(1) << 53 && number->exponent >= -most &&
        number->exponent <= most)
        v = number->exponent < 0 ? (double)number->digits / tens[-number->exponent]
                                 : (double)number->digits * tens[number->exponent];
    else
        v = convert(number);
    if (isinf(v)) return false;
    *value = number->negative ? -v : v;
    return true;
}

bool msi_json_number_int(const struct msi_json_number *number, int64_t *value) {
    uint64_t v = number->digits;
    int64_t exponent = number->exponent;
    if (number->many) return false;
    for (; v && exponent < 0; exponent++, v /= 10)
        if (v % 10) return false;
    for (; v && exponent > 0; exponent--)
        if (__builtin_mul_overflow(v, UINT64_C(10), &v)) return false;
    if (v > (uint64_t)INT64_MAX + number->negative) return false;
    *value = (int64_t)(number->negative ? 0 - v : v);
    return true;
}
