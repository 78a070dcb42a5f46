/* nearest.c - edit distance. See nearest.h. */
#include "base/nearest.h"

int msi_edits(struct msi_str a, const char *b) {
    enum { WIDEST = 64 };
    size_t m = strlen(b);
    if (a.n >= WIDEST || m >= WIDEST) return WIDEST;
    int row[WIDEST];
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a.n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a.p[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}
