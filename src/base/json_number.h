/* json_number.h - numbers in JSON's notation, for json.c. Independent of the locale. */
#ifndef MSI_BASE_JSON_NUMBER_H
#define MSI_BASE_JSON_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

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
