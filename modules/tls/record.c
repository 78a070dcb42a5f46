/* record.c - see record.h. */
#include "record.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>

enum { KEY = 16, IV = 12 };

/* HKDF-Expand-Label with an empty context (RFC 8446 section 7.1), of at most one block. */
static bool expand(const unsigned char *secret, const char *label, unsigned char *out, unsigned char len) {
    unsigned char info[64] = {0, len, (unsigned char)(6 + strlen(label))}, block[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    size_t end = 3;
    memcpy(info + end, "tls13 ", 6);
    end += 6;
    memcpy(info + end, label, strlen(label));
    end += strlen(label);
    info[end++] = 0; /* length of the context */
    info[end++] = 1; /* number of the block */
    if (!HMAC(EVP_sha256(), secret, RECORD_SECRET, info, end, block, &n)) return false;
    memcpy(out, block, len);
    OPENSSL_cleanse(block, sizeof block);
    return true;
}

bool record_set_keys(struct record_keys *keys, const unsigned char secret[RECORD_SECRET], bool encrypt) {
    unsigned char key[KEY];
    if (!keys->cipher) keys->cipher = EVP_CIPHER_CTX_new();
    memmove(keys->secret, secret, RECORD_SECRET);
    keys->number = 0;
    bool done = keys->cipher && expand(secret, "key", key, KEY) && expand(secret, "iv", keys->iv, IV) &&
                EVP_CipherInit_ex(keys->cipher, EVP_aes_128_gcm(), NULL, key, NULL, encrypt) == 1;
    OPENSSL_cleanse(key, sizeof key);
    return done;
}

bool record_next_keys(struct record_keys *keys, bool encrypt) {
    unsigned char next[RECORD_SECRET];
    bool done =
        expand(keys->secret, "traffic upd", next, sizeof next) && record_set_keys(keys, next, encrypt);
    OPENSSL_cleanse(next, sizeof next);
    return done;
}

void record_free_keys(struct record_keys *keys) {
    EVP_CIPHER_CTX_free(keys->cipher);
    OPENSSL_cleanse(keys, sizeof *keys);
    keys->cipher = NULL;
}

void record_skip(struct record_place *at, size_t bytes) {
    while (at->i < at->n && bytes >= at->parts[at->i].iov_len - at->done) {
        bytes -= at->parts[at->i++].iov_len - at->done;
        at->done = 0;
    }
    at->done += bytes;
}

/* Begins a record: its nonce, and the header as additional data. */
static bool begin(struct record_keys *keys, const unsigned char *header) {
    unsigned char nonce[IV];
    int n;
    memcpy(nonce, keys->iv, IV);
    for (int i = 0; i < 8; i++) nonce[IV - 1 - i] ^= (unsigned char)(keys->number >> 8 * i);
    keys->number++;
    return EVP_CipherInit_ex(keys->cipher, NULL, NULL, NULL, nonce, -1) == 1 &&
           EVP_CipherUpdate(keys->cipher, NULL, &n, header, RECORD_HEADER) == 1;
}

size_t record_size(const struct record_place *from) {
    struct record_place at = *from;
    size_t total = 0;
    for (; at.i < at.n && total < RECORD_PLAIN; at.i++, at.done = 0)
        total += at.parts[at.i].iov_len - at.done;
    return RECORD_MORE + (total < RECORD_PLAIN ? total : RECORD_PLAIN);
}

size_t record_seal(struct record_keys *keys, enum record_type type, struct record_place *at,
                   unsigned char *out) {
    size_t len = record_size(at) - RECORD_MORE, inner = len + 1 + RECORD_TAG;
    unsigned char *to = out + RECORD_HEADER, last = (unsigned char)type;
    int n;
    memcpy(out, (unsigned char[]){RECORD_DATA, 3, 3, (unsigned char)(inner >> 8), (unsigned char)inner},
           RECORD_HEADER);
    if (!begin(keys, out)) return 0;
    for (size_t left = len; left;) {
        const struct iovec *part = &at->parts[at->i];
        size_t k = part->iov_len - at->done < left ? part->iov_len - at->done : left;
        if (EVP_EncryptUpdate(keys->cipher, to, &n, (const unsigned char *)part->iov_base + at->done,
                              (int)k) != 1)
            return 0;
        to += k;
        left -= k;
        record_skip(at, k);
    }
    if (EVP_EncryptUpdate(keys->cipher, to, &n, &last, 1) != 1 ||
        EVP_EncryptFinal_ex(keys->cipher, to + 1, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(keys->cipher, EVP_CTRL_AEAD_GET_TAG, RECORD_TAG, to + 1) != 1)
        return 0;
    return RECORD_HEADER + inner;
}

size_t record_length(const unsigned char header[RECORD_HEADER]) {
    size_t len = RECORD_HEADER + ((size_t)header[3] << 8 | header[4]);
    bool right = header[0] == RECORD_DATA && header[1] == 3 && len >= RECORD_MORE && len <= RECORD_MOST;
    return right ? len : 0;
}

ssize_t record_open(struct record_keys *keys, const unsigned char *record, size_t len, unsigned char *out,
                    enum record_type *type) {
    const unsigned char *from = record + RECORD_HEADER;
    unsigned char tag[RECORD_TAG], last, nothing[1];
    size_t bytes = len - RECORD_MORE;
    int n;
    memcpy(tag, record + len - RECORD_TAG, RECORD_TAG);
    if (bytes > RECORD_PLAIN || !begin(keys, record) ||
        EVP_CIPHER_CTX_ctrl(keys->cipher, EVP_CTRL_AEAD_SET_TAG, RECORD_TAG, tag) != 1 ||
        (bytes && EVP_DecryptUpdate(keys->cipher, out, &n, from, (int)bytes) != 1) ||
        EVP_DecryptUpdate(keys->cipher, &last, &n, from + bytes, 1) != 1 ||
        EVP_DecryptFinal_ex(keys->cipher, nothing, &n) != 1)
        return -1;
    *type = last; /* 0: the bytes end with padding, which muster does not use */
    return last == RECORD_ALERT || last == RECORD_HANDSHAKE || last == RECORD_DATA ? (ssize_t)bytes : -1;
}
