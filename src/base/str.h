/* str.h - a view of bytes that another owner keeps, and small helpers for texts. */
#ifndef MSI_BASE_STR_H
#define MSI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct msi_str {
    const char *p;
    size_t n;
};

/* Prints a view in a printf-like call: "%.*s", MSI_SHOW(view), cut at 80 bytes. */
#define MSI_SHOW(s) (int)((s).n > 80 ? 80 : (s).n), (s).p

static inline struct msi_str msi_str(const void *p, size_t n) {
    return (struct msi_str){p, n};
}

static inline struct msi_str msi_cstr(const char *text) {
    return (struct msi_str){text, strlen(text)};
}

/* Copies as much as fits, with a terminating 0; returns out. */
static inline const char *msi_str_copy(struct msi_str text, char *out, size_t size) {
    size_t n = text.n < size ? text.n : size - 1;
    if (n) memcpy(out, text.p, n);
    out[n] = 0;
    return out;
}

/* Removes the next line from text, without its newline; false at the end. */
static inline bool msi_str_line(struct msi_str *text, struct msi_str *line) {
    if (!text->n) return false;
    const char *end = memchr(text->p, '\n', text->n);
    *line = msi_str(text->p, end ? (size_t)(end - text->p) : text->n);
    size_t used = line->n + (end != NULL);
    *text = msi_str(text->p + used, text->n - used);
    return true;
}

static inline bool msi_str_equal(struct msi_str a, struct msi_str b) {
    return a.n == b.n && (a.n == 0 || !memcmp(a.p, b.p, a.n));
}

/* Copies a text, NULL as "", to size bytes; cuts it if necessary. */
static inline void msi_copy_text(char *to, size_t size, const char *from) {
    msi_str_copy(msi_str(from, from ? strnlen(from, size) : 0), to, size);
}

/* "train.c" of "src/train.c"; path may be NULL. */
static inline const char *msi_base_name(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

#endif
