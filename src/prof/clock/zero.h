/* zero.h - when a world formed, as rank 0 publishes it for the profiles of all ranks. Pure. */
#ifndef MSI_PROF_CLOCK_ZERO_H
#define MSI_PROF_CLOCK_ZERO_H

#include "base/str.h"

#include <stdint.h>

enum { MSI_CLOCK_ZERO_MAX = 64 };

struct msi_clock_zero {
    int64_t at;      /* on rank 0's monotonic clock */
    int64_t unix_ns; /* on its wall clock */
    int port;        /* of its clock server; 0: none */
};

void msi_clock_zero_write(char out[MSI_CLOCK_ZERO_MAX], const struct msi_clock_zero *zero);
/* False if the text is malformed or a number is out of range. */
bool msi_clock_zero_read(struct msi_str text, struct msi_clock_zero *zero);

#endif
