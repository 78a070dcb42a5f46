/* kind.c - see kind.h. */
#include "base/kind.h"

#include <string.h>

#define NAME(id, family, share, name) name,
const char *const msi_kind_names[MSI_KIND_COUNT] = {MSI_KINDS(NAME)};

#define ROW(id, family, share, name) {MSI_KIND_##family, MSI_SHARE_##share},
static const struct {
    enum msi_kind family;
    enum msi_share share;
} rows[MSI_KIND_COUNT] = {MSI_KINDS(ROW)};

const char *msi_kind_name(unsigned kind) {
    return kind < MSI_KIND_COUNT ? msi_kind_names[kind] : "?";
}

enum msi_kind msi_kind_family(unsigned kind) {
    return kind < MSI_KIND_COUNT ? rows[kind].family : MSI_KIND_NONE;
}

enum msi_share msi_kind_share(enum msi_kind kind) {
    return rows[kind].share;
}

enum msi_kind msi_kind_find(const char *name) {
    enum msi_kind found = MSI_KIND_NONE;
    size_t longest = 0;
    for (int i = MSI_KIND_NONE + 1; i < MSI_KIND_COUNT; i++) {
        const char *own = msi_kind_names[i] + sizeof "mst_" - 1;
        size_t n = strlen(own);
        if (n <= longest || strncmp(name, own, n) != 0) continue;
        longest = n;
        found = (enum msi_kind)i;
    }
    return found;
}

double msi_bus_factor(enum msi_share share, int n) {
    double part = (double)(n - 1) / n;
    const double factors[] = {[MSI_SHARE_WHOLE] = 1, [MSI_SHARE_PART] = part, [MSI_SHARE_TWICE] = 2 * part};
    return factors[share];
}
