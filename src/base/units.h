/* units.h - numbers with units, read from text and written for people. Pure. */
#ifndef MSI_BASE_UNITS_H
#define MSI_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

enum { MSI_UNITS_TEXT = 32 };

/* "512 B", "1.5 KiB", "98.25 MiB": powers of 1024, at most two decimals, no trailing zeros. Returns text. */
const char *msi_bytes_text(double bytes, char text[MSI_UNITS_TEXT]);

/* "12.3 us", "1.5 ms", "820 s": three significant digits, whole seconds from 1000 s on. Returns text. */
const char *msi_seconds_text(double seconds, char text[MSI_UNITS_TEXT]);

/* Reads a whole number that is not negative. With suffixes, K, M, G or T multiplies it by a power of 1024. */
bool msi_parse_number(const char *text, bool suffixes, int64_t *value);

#endif
