/* zero.c - see zero.h. */
#include "prof/clock/zero.h"
#include "prof/clock/fit.h"

#include <inttypes.h>
#include <stdio.h>

void msi_clock_zero_write(char out[MSI_CLOCK_ZERO_MAX], const struct msi_clock_zero *zero) {
    snprintf(out, MSI_CLOCK_ZERO_MAX, "%" PRId64 " %" PRId64 " %d", zero->at, zero->unix_ns, zero->port);
}

bool msi_clock_zero_read(struct msi_str text, struct msi_clock_zero *zero) {
    char copy[MSI_CLOCK_ZERO_MAX];
    int n = sscanf(msi_str_copy(text, copy, sizeof copy), "%19" SCNd64 " %19" SCNd64 " %9d", &zero->at,
                   &zero->unix_ns, &zero->port);
    return n == 3 && zero->at >= 0 && zero->at <= MSI_TIME_MOST && zero->unix_ns >= 0 &&
           zero->unix_ns <= INT64_MAX / 2 && zero->port >= 0 && zero->port <= UINT16_MAX;
}
