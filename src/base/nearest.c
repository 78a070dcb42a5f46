/* nearest.c - edit distance and the most similar name. See nearest.h. */
#include "base/nearest.h"

#include <limits.h>

static int least(int a, int b) {
    return a < b ? a : b;
}

int msi_edits(struct msi_str a, const char *b) {
    enum { LONGEST = 63 };
    size_t m = strlen(b);
    if (a.n > LONGEST || m > LONGEST) return INT_MAX / 4;
    int d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= a.n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= a.n; i++)
        for (size_t j = 1; j <= m; j++) {
            int replaced = d[i - 1][j - 1] + (a.p[i - 1] != b[j - 1]);
            d[i][j] = least(replaced, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a.p[i - 1] == b[j - 2] && a.p[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[a.n][m];
}

const char *msi_nearest(const char *typed, const void *table, size_t n, size_t stride) {
    const char *best = NULL;
    int best_distance = INT_MAX, typed_len = (int)strlen(typed);
    for (size_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)table + i * stride);
        int name_len = (int)strlen(name), longer = typed_len > name_len ? typed_len : name_len;
        int d = msi_edits(msi_cstr(name), typed);
        if (typed_len >= 2 && !strncmp(name, typed, (size_t)typed_len)) d = 1;
        if (typed_len >= 4 && typed_len + 1 < name_len) /* cut short and mistyped */
            d = least(d, msi_edits(msi_str(name, (size_t)typed_len + 1), typed) + 1);
        if (d * 2 <= least(longer, 2 * typed_len - 2) && d < best_distance) {
            best = name;
            best_distance = d;
        }
    }
    return best;
}
