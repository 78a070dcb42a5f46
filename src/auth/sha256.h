/*
 * sha256.h - SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104) and HKDF (RFC 5869).
 *
 * Small and portable; its inputs are secrets and hellos, not data. The time of a function depends on the
 * lengths of its inputs, not on their contents. No I/O, no allocation.
 */
#ifndef MSI_AUTH_SHA256_H
#define MSI_AUTH_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSI_SHA256_BYTES = 32, MSI_SHA256_BLOCK = 64, MSI_HKDF_MOST = 255 * MSI_SHA256_BYTES };

struct msi_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* added so far */
    uint8_t block[MSI_SHA256_BLOCK];
};

void msi_sha256_begin(struct msi_sha256 *hash);
void msi_sha256_add(struct msi_sha256 *hash, const void *data, size_t len);
void msi_sha256_end(struct msi_sha256 *hash, uint8_t out[MSI_SHA256_BYTES]);

struct msi_hmac {
    struct msi_sha256 inner, outer;
};

/* Wipes the state at its end. */
void msi_hmac_begin(struct msi_hmac *hmac, const void *key, size_t len);
void msi_hmac_add(struct msi_hmac *hmac, const void *data, size_t len);
void msi_hmac_end(struct msi_hmac *hmac, uint8_t out[MSI_SHA256_BYTES]);

/* Derives len bytes, at most MSI_HKDF_MOST, from a secret. The salt may be empty. */
struct msi_hkdf_input {
    const void *salt, *secret, *info;
    size_t salt_len, secret_len, info_len;
};
void msi_hkdf(const struct msi_hkdf_input *input, void *out, size_t len);

/* Whether the bytes are equal; its time does not tell where they differ. */
bool msi_equal_in_constant_time(const void *a, const void *b, size_t len);

/* Overwrites a secret with zeros; the compiler keeps it. */
void msi_wipe(void *secret, size_t len);

#endif
