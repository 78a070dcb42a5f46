/* hash.h - SipHash-1-3, a keyed hash that resists hostile keys, and random bytes. */
#ifndef MSI_BASE_HASH_H
#define MSI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t msi_hash(const void *data, size_t len, const uint64_t key[2]);

/* Fills out with unpredictable bytes. */
void msi_random(void *out, size_t len);

#endif
