/*
 * cursor.h - reads and writes little-endian fields. A reader checks every field against the remaining length
 * and stays bad after the first field that does not fit, so the caller checks once at the end.
 */
#ifndef MSI_WIRE_CURSOR_H
#define MSI_WIRE_CURSOR_H

#include "base/buf.h"

#include <endian.h>

struct msi_reader {
    const uint8_t *p;
    size_t left;
    bool bad;
};

static inline struct msi_reader msi_reader(const void *p, size_t n) {
    return (struct msi_reader){p, n, false};
}

/* The next n bytes, or NULL. */
static inline const uint8_t *msi_read_bytes(struct msi_reader *r, size_t n) {
    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    r->left -= n;
    return p;
}

static inline uint64_t msi_read_uint(struct msi_reader *r, size_t bytes) {
    const uint8_t *p = msi_read_bytes(r, bytes);
    uint64_t value = 0;
    if (p) memcpy(&value, p, bytes);
    return le64toh(value);
}

static inline uint8_t msi_read_u8(struct msi_reader *r) {
    return (uint8_t)msi_read_uint(r, 1);
}

static inline uint32_t msi_read_u32(struct msi_reader *r) {
    return (uint32_t)msi_read_uint(r, 4);
}

static inline uint64_t msi_read_u64(struct msi_reader *r) {
    return msi_read_uint(r, 8);
}

/* A u64 length and as many bytes, as a view. */
static inline struct msi_str msi_read_str(struct msi_reader *r) {
    uint64_t n = msi_read_u64(r);
    if (n > r->left) r->bad = true;
    const uint8_t *p = r->bad ? NULL : msi_read_bytes(r, (size_t)n);
    return msi_str(p, p ? (size_t)n : 0);
}

static inline void msi_put_uint(struct msi_buf *out, uint64_t value, size_t bytes) {
    value = htole64(value);
    msi_buf_add(out, &value, bytes);
}

static inline void msi_put_u32(struct msi_buf *out, uint32_t value) {
    msi_put_uint(out, value, 4);
}

static inline void msi_put_u64(struct msi_buf *out, uint64_t value) {
    msi_put_uint(out, value, 8);
}

static inline void msi_put_str(struct msi_buf *out, struct msi_str s) {
    msi_put_u64(out, s.n);
    msi_buf_add(out, s.p, s.n);
}

#endif
