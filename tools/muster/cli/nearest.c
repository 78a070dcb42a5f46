/*
 * nearest.c - distance between names: how many letters must be inserted, removed, replaced or swapped with
 * their neighbour. A name that was cut short counts as near. Pure functions, any thread.
 */
#include "cli/nearest.h"

#include <string.h>

enum { LONGEST = 40 }; /* names beyond this are nobody's typing error */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b, size_t lb) {
    size_t la = strlen(a);
    size_t d[LONGEST + 1][LONGEST + 1];

    if (la > LONGEST || lb > LONGEST) return LONGEST;
    for (size_t i = 0; i <= la; i++) d[i][0] = i;
    for (size_t j = 0; j <= lb; j++) d[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        for (size_t j = 1; j <= lb; j++) {
            size_t replaced = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(replaced, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[la][lb];
}

const char *nearest_name(const char *typed, const void *table, size_t n, size_t stride) {
    const char *best = NULL;
    size_t best_distance = 0;

    for (size_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)table + i * stride);
        size_t typed_len = strlen(typed), name_len = strlen(name);
        size_t longer = typed_len > name_len ? typed_len : name_len;
        size_t d = distance(typed, name, name_len);

        if (typed_len >= 2 && strncmp(name, typed, typed_len) == 0) d = 1;
        if (typed_len >= 4 && typed_len + 1 < name_len) /* cut short, and mistyped */
            d = least(d, distance(typed, name, typed_len + 1) + 1);
        if (d * 2 <= least(longer, 2 * typed_len - 2) && (best == NULL || d < best_distance)) {
            best = name;
            best_distance = d;
        }
    }
    return best;
}
