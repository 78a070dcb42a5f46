/* sha256.c - see sha256.h. Any thread. */
#include "auth/sha256.h"

#include <assert.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int bits) {
    return x >> bits | x << (32 - bits);
}

static uint32_t read_big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_big_endian(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* One block. The names are those of FIPS 180-4, section 6.2.2. */
static void compress(uint32_t state[8], const uint8_t block[MSI_SHA256_BLOCK]) {
    uint32_t w[64], v[8];
    for (int t = 0; t < 16; t++) w[t] = read_big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    memcpy(v, state, sizeof v);
    for (int t = 0; t < 64; t++) {
        uint32_t a = v[0], b = v[1], c = v[2], e = v[4], f = v[5], g = v[6];
        uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                      constants[t] + w[t];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
    msi_wipe(w, sizeof w);
    msi_wipe(v, sizeof v);
}

void msi_sha256_begin(struct msi_sha256 *hash) {
    *hash = (struct msi_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                          0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void msi_sha256_add(struct msi_sha256 *hash, const void *data, size_t len) {
    const uint8_t *p = data;
    size_t used = hash->bytes % MSI_SHA256_BLOCK;
    hash->bytes += len;
    while (len) {
        size_t n = MSI_SHA256_BLOCK - used < len ? MSI_SHA256_BLOCK - used : len;
        memcpy(hash->block + used, p, n);
        p += n;
        len -= n;
        used = (used + n) % MSI_SHA256_BLOCK;
        if (used == 0) compress(hash->state, hash->block);
    }
}

void msi_sha256_end(struct msi_sha256 *hash, uint8_t out[MSI_SHA256_BYTES]) {
    static const uint8_t padding[MSI_SHA256_BLOCK] = {0x80};
    uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    size_t used = hash->bytes % MSI_SHA256_BLOCK;
    write_big_endian(length, (uint32_t)(bits >> 32));
    write_big_endian(length + 4, (uint32_t)bits);
    msi_sha256_add(hash, padding, used < 56 ? 56 - used : 120 - used);
    msi_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++) write_big_endian(out + 4 * i, hash->state[i]);
    msi_wipe(hash, sizeof *hash);
}

void msi_hmac_begin(struct msi_hmac *hmac, const void *key, size_t len) {
    enum { INNER = 0x36, OUTER = 0x5c };
    uint8_t pad[MSI_SHA256_BLOCK] = {0};
    if (len > sizeof pad) {
        msi_sha256_begin(&hmac->inner);
        msi_sha256_add(&hmac->inner, key, len);
        msi_sha256_end(&hmac->inner, pad);
    } else if (len) {
        memcpy(pad, key, len);
    }
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= INNER;
    msi_sha256_begin(&hmac->inner);
    msi_sha256_add(&hmac->inner, pad, sizeof pad);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= INNER ^ OUTER;
    msi_sha256_begin(&hmac->outer);
    msi_sha256_add(&hmac->outer, pad, sizeof pad);
    msi_wipe(pad, sizeof pad);
}

void msi_hmac_add(struct msi_hmac *hmac, const void *data, size_t len) {
    msi_sha256_add(&hmac->inner, data, len);
}

void msi_hmac_end(struct msi_hmac *hmac, uint8_t out[MSI_SHA256_BYTES]) {
    uint8_t inner[MSI_SHA256_BYTES];
    msi_sha256_end(&hmac->inner, inner);
    msi_sha256_add(&hmac->outer, inner, sizeof inner);
    msi_sha256_end(&hmac->outer, out);
    msi_wipe(inner, sizeof inner);
}

void msi_hkdf(const struct msi_hkdf_input *input, void *out, size_t len) {
    struct msi_hmac hmac;
    uint8_t key[MSI_SHA256_BYTES], part[MSI_SHA256_BYTES], number = 0;
    assert(len <= MSI_HKDF_MOST);
    msi_hmac_begin(&hmac, input->salt, input->salt_len);
    msi_hmac_add(&hmac, input->secret, input->secret_len);
    msi_hmac_end(&hmac, key);
    for (size_t done = 0; done < len;) {
        size_t n = len - done < sizeof part ? len - done : sizeof part;
        msi_hmac_begin(&hmac, key, sizeof key);
        if (number++) msi_hmac_add(&hmac, part, sizeof part);
        msi_hmac_add(&hmac, input->info, input->info_len);
        msi_hmac_add(&hmac, &number, 1);
        msi_hmac_end(&hmac, part);
        memcpy((uint8_t *)out + done, part, n);
        done += n;
    }
    msi_wipe(key, sizeof key);
    msi_wipe(part, sizeof part);
}

bool msi_equal_in_constant_time(const void *a, const void *b, size_t len) {
    const uint8_t *p = a, *q = b;
    uint8_t differ = 0;
    for (size_t i = 0; i < len; i++) {
        differ |= p[i] ^ q[i];
        __asm__("" : "+r"(differ)); /* the compiler must not leave the loop early */
    }
    return differ == 0;
}

void msi_wipe(void *secret, size_t len) {
    explicit_bzero(secret, len);
}
