/* time_wire.h - what goes between those who ask for the time and who answers: a question's number, and before the time again. */
#ifndef MSI_PROF_CLOCK_TIME_WIRE_H
#define MSI_PROF_CLOCK_TIME_WIRE_H

#include <stdint.h>

enum { MSI_TIME_QUESTION = 8, MSI_TIME_ANSWER = 16 };

/* Little endian. */
static inline void msi_time_put(unsigned char *to, uint64_t value) {
    for (int i = 0; i < 8; i++) to[i] = (unsigned char)(value >> 8 * i);
}
static inline uint64_t msi_time_get(const unsigned char *from) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

#endif
