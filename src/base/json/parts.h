/* parts.h - strings and numbers in JSON's notation, in any locale. Shared by the files of this folder. */
#ifndef MSI_BASE_JSON_PARTS_H
#define MSI_BASE_JSON_PARTS_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * The first byte from at on that is not plain, or end. Plain is ASCII without quote, backslash and control
 * characters. Checks eight bytes at a time.
 */
static inline const char *msi_json_plain_end(const char *at, const char *end) {
    const uint64_t ones = 0x0101010101010101;
    while (end - at >= 8) {
        uint64_t x;
        memcpy(&x, at, 8);
        x = le64toh(x);
        /* A borrow may mark a wrong byte, but only above one that is marked correctly. */
        uint64_t marks =
            (x | (x - ones * 0x20) | ((x ^ ones * '"') - ones) | ((x ^ ones * '\\') - ones)) & ones * 0x80;
        if (marks) return at + __builtin_ctzll(marks) / 8;
        at += 8;
    }
    while (at < end && *at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

/*
 * The length of the non-ASCII character at at, as in RFC 3629: shortest form, no surrogates, nothing above
 * U+10FFFF. 0: invalid; -1: cut off by end.
 */
static inline int msi_utf8_length(const char *at, const char *end) {
    unsigned char lead = (unsigned char)at[0];
    int n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    for (int i = 1; i < n; i++) {
        if (at + i == end) return -1;
        unsigned char byte = (unsigned char)at[i], least = 0x80, most = 0xbf;
        if (i == 1 && lead == 0xe0) least = 0xa0;
        if (i == 1 && lead == 0xed) most = 0x9f;
        if (i == 1 && lead == 0xf0) least = 0x90;
        if (i == 1 && lead == 0xf4) most = 0x8f;
        if (byte < least || byte > most) return 0;
    }
    return n;
}

/* digits * 10^exponent; many: the text has more than 19 digits, and digits is invalid. */
struct msi_json_number {
    const char *begin, *end; /* of the text */
    uint64_t digits;
    int64_t exponent;
    bool negative, many;
};

static inline bool msi_is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Reads the longest number from at on. NULL, or the place where a digit is missing. */
const char *msi_json_number_read(const char *at, const char *end, struct msi_json_number *number);

/* The nearest double; false: out of range. */
bool msi_json_number_double(const struct msi_json_number *number, double *value);
/* Exact; false: it has a fraction, does not fit, or has more than 19 digits. */
bool msi_json_number_int(const struct msi_json_number *number, int64_t *value);

#endif
