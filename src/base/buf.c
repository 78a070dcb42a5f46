/* buf.c - a growing byte buffer. See buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool msi_buf_grow(struct msi_buf *buf, size_t n) {
    if (buf->failed) return false;
    size_t cap = buf->cap ? buf->cap : 64;
    while (cap - buf->len < n && cap <= SIZE_MAX / 2) cap *= 2;
    uint8_t *data = cap - buf->len < n ? NULL : realloc(buf->data, cap);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void msi_buf_add_format(struct msi_buf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !msi_buf_reserve(buf, (size_t)n + 1)) return;
    va_start(args, format);
    vsnprintf((char *)buf->data + buf->len, (size_t)n + 1, format, args);
    va_end(args);
    buf->len += (size_t)n;
}

void msi_buf_drop(struct msi_buf *buf, size_t n) {
    buf->len -= n;
    if (buf->len) memmove(buf->data, buf->data + n, buf->len);
}

void msi_buf_free(struct msi_buf *buf) {
    free(buf->data);
    *buf = (struct msi_buf){0};
}
