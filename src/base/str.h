/* str.h - a view of bytes that somebody else owns. */
#ifndef MSI_BASE_STR_H
#define MSI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct msi_str {
    const char *p;
    size_t n;
};

/* Shows a view in a printf-like call: "%.*s", MSI_SHOW(view), cut at 80 bytes. */
#define MSI_SHOW(s) (int)((s).n > 80 ? 80 : (s).n), (s).p

static inline struct msi_str msi_str(const void *p, size_t n) {
    return (struct msi_str){p, n};
}

static inline struct msi_str msi_cstr(const char *text) {
    return (struct msi_str){text, strlen(text)};
}

static inline bool msi_str_equal(struct msi_str a, struct msi_str b) {
    return a.n == b.n && (a.n == 0 || !memcmp(a.p, b.p, a.n));
}

#endif
