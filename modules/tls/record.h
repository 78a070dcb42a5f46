/*
 * record.h - protects and opens the records of TLS 1.3 (RFC 8446 section 5) with AES-128-GCM, once OpenSSL
 * has done the handshake. SSL_write and SSL_read copy all bytes, and do not gather parts; these encrypt from
 * the caller's parts and decrypt into its buffer. tests/unit/test_tls_openssl.c has OpenSSL at the other end.
 */
#ifndef MST_TLS_RECORD_H
#define MST_TLS_RECORD_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    RECORD_PLAIN = 1 << 14, /* most bytes of one */
    RECORD_HEADER = 5,
    RECORD_TAG = 16,
    RECORD_MORE = RECORD_HEADER + 1 + RECORD_TAG, /* what a record has besides its bytes */
    RECORD_MOST = RECORD_HEADER + RECORD_PLAIN + 256,
    RECORD_SECRET = 32,
};

enum record_type { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23 };

/* One direction of a connection. */
struct record_keys {
    EVP_CIPHER_CTX *cipher; /* NULL: no keys yet */
    unsigned char secret[RECORD_SECRET], iv[12];
    uint64_t number; /* of the next record */
};

/* Sets the keys that follow from a traffic secret; false: OpenSSL has failed. */
bool record_set_keys(struct record_keys *keys, const unsigned char secret[RECORD_SECRET], bool encrypt);
/* After a KeyUpdate: the keys that follow the present ones. */
bool record_next_keys(struct record_keys *keys, bool encrypt);
void record_free_keys(struct record_keys *keys);

/* The next bytes of some parts. */
struct record_place {
    const struct iovec *parts;
    size_t n, i, done; /* the part, and how much of it was taken */
};

void record_skip(struct record_place *at, size_t bytes);

/* The length of the next record, of up to RECORD_PLAIN bytes. */
size_t record_size(const struct record_place *at);
/* Writes a record with up to RECORD_PLAIN bytes to out, and moves at behind them; its length, or 0. */
size_t record_seal(struct record_keys *keys, enum record_type type, struct record_place *at,
                   unsigned char *out);

/* Length of the record whose header is at p; 0: it is none that may come. */
size_t record_length(const unsigned char header[RECORD_HEADER]);
/* Decrypts a record to out, which has room for len - RECORD_MORE bytes and may be its own place behind the
 * header; their number, or -1: it was altered, or is none that may come. */
ssize_t record_open(struct record_keys *keys, const unsigned char *record, size_t len, unsigned char *out,
                    enum record_type *type);

#endif
