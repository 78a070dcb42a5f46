/*
 * buf.h - a growing byte buffer. Appending does not return errors: a lack of memory sets failed, which the
 * owner checks once at the end. A failed buffer stays valid and ignores further appends.
 */
#ifndef MSI_BASE_BUF_H
#define MSI_BASE_BUF_H

#include "base/str.h"

#include <stdint.h>

struct msi_buf {
    uint8_t *data;
    size_t len, cap;
    bool failed;
};

/* The slow path of msi_buf_reserve. */
bool msi_buf_grow(struct msi_buf *buf, size_t n);

/* Allocates n more bytes at data + len; false, and failed is set, without memory. */
static inline bool msi_buf_reserve(struct msi_buf *buf, size_t n) {
    return (n <= buf->cap - buf->len && !buf->failed) || msi_buf_grow(buf, n);
}

static inline void msi_buf_add(struct msi_buf *buf, const void *data, size_t n) {
    if (n == 0 || !msi_buf_reserve(buf, n)) return;
    memcpy(buf->data + buf->len, data, n);
    buf->len += n;
}

static inline void msi_buf_add_u8(struct msi_buf *buf, uint8_t value) {
    msi_buf_add(buf, &value, 1);
}

static inline void msi_buf_add_text(struct msi_buf *buf, const char *text) {
    msi_buf_add(buf, text, strlen(text));
}

void msi_buf_add_format(struct msi_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Drops the first n bytes. */
void msi_buf_drop(struct msi_buf *buf, size_t n);
/* Frees the memory and empties it. */
void msi_buf_free(struct msi_buf *buf);

/* The contents as a string; the NUL does not count in len. "" without memory. Valid until the next change. */
static inline const char *msi_buf_text(struct msi_buf *buf) {
    if (!msi_buf_reserve(buf, 1)) return "";
    buf->data[buf->len] = 0;
    return (const char *)buf->data;
}

static inline struct msi_str msi_buf_str(const struct msi_buf *buf) {
    return msi_str(buf->data, buf->len);
}

#endif
