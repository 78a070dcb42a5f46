/* pmi.c - lines of PMI-1. See pmi.h. */
#include "wire/pmi.h"

struct msi_str msi_pmi_field(struct msi_str line, const char *name) {
    size_t len = strlen(name), at = 0;
    while (at < line.n) {
        size_t end = at;
        while (end < line.n && line.p[end] != ' ') end++;
        if (end - at > len && line.p[at + len] == '=' && !memcmp(line.p + at, name, len))
            return msi_str(line.p + at + len + 1, end - at - len - 1);
        at = end + 1;
    }
    return msi_str(NULL, 0);
}

bool msi_pmi_is(struct msi_str line, const char *cmd) {
    struct msi_str found = msi_pmi_field(line, "cmd");
    return found.p && msi_str_equal(found, msi_cstr(cmd));
}

bool msi_pmi_succeeded(struct msi_str line) {
    struct msi_str rc = msi_pmi_field(line, "rc");
    return !rc.p || msi_str_equal(rc, msi_cstr("0"));
}
