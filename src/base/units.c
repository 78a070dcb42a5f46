/* units.c - numbers with units. See units.h. */
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *msi_bytes_text(double bytes, char text[MSI_UNITS_TEXT]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    /* 1023.995 is the least value that would be rounded to 1024.00. */
    for (; bytes >= 1023.995 && unit < 6; unit++) bytes /= 1024;
    int n = snprintf(text, MSI_UNITS_TEXT, "%.2f", bytes);
    while (text[n - 1] == '0') n--;
    if (text[n - 1] == '.') n--;
    snprintf(text + n, (size_t)(MSI_UNITS_TEXT - n), " %s", units[unit]);
    return text;
}

const char *msi_seconds_text(double seconds, char text[MSI_UNITS_TEXT]) {
    static const char *const units[] = {"us", "ms", "s"};
    double value = seconds * 1e6;
    int unit = 0;
    for (; value >= 999.5 && unit < 2; unit++) value /= 1000;
    snprintf(text, MSI_UNITS_TEXT, value >= 999.5 ? "%.0f %s" : "%.3g %s", value, units[unit]);
    return text;
}

bool msi_parse_number(const char *text, bool suffixes, int64_t *value) {
    static const char letters[] = "KMGT";
    char *end;
    int shift = 0;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || text[0] < '0' || text[0] > '9') return false;
    if (suffixes && *end && !end[1]) {
        const char *at = strchr(letters, *end & ~0x20);
        if (!at || !*at) return false;
        shift = 10 * (int)(at - letters + 1);
        end++;
    }
    if (*end || number > INT64_MAX >> shift) return false;
    *value = (int64_t)number << shift;
    return true;
}
