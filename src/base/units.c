/* units.c - sizes and durations as text. See units.h. */
#include "base/units.h"

#include <stdio.h>

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
