/* override.c - parses MUSTER_ALGO. See select.h. */
#include "base/error.h"
#include "coll/cost/select.h"

#include <stdio.h>

static struct msi_str trim(const char *p, size_t n) {
    while (n && *p == ' ') p++, n--;
    while (n && p[n - 1] == ' ') n--;
    return msi_str(p, n);
}

static int find_kind(struct msi_str name) {
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++)
        if (msi_planner_any((enum msi_kind)kind) &&
            msi_str_equal(name, msi_cstr(msi_coll_name((enum msi_kind)kind))))
            return kind;
    return -1;
}

/* Lists the known operations (kind < 0), or the algorithms of one, separated by commas. */
static const char *list_known(int kind, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    int n = kind < 0 ? MSI_KIND_COUNT : (int)msi_planner_count;
    for (int i = 0; i < n && used < size; i++) {
        if (kind < 0 ? !msi_planner_any((enum msi_kind)i) : (int)msi_planners[i].kind != kind) continue;
        const char *name = kind < 0 ? msi_coll_name((enum msi_kind)i) : msi_planners[i].name;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    return text;
}

static mst_status parse_entry(struct msi_str entry, struct msi_algo *algo) {
    char known[256];
    const char *colon = memchr(entry.p, ':', entry.n);
    if (!colon)
        return msi_fail(MST_ERR_CONFIG,
                        "write operation:algorithm in MUSTER_ALGO, for example all_reduce:ring",
                        "'%.*s' has no colon", MSI_SHOW(entry));
    size_t before = (size_t)(colon - entry.p);
    struct msi_str operation = trim(entry.p, before), name = trim(colon + 1, entry.n - before - 1);
    int kind = find_kind(operation);
    if (kind < 0)
        return msi_fail(MST_ERR_CONFIG, "use one of the listed operations in MUSTER_ALGO",
                        "unknown operation '%.*s'; known: %s", MSI_SHOW(operation),
                        list_known(-1, known, sizeof known));
    const struct msi_planner *planner = msi_planner_find((enum msi_kind)kind, name);
    if (!planner)
        return msi_fail(MST_ERR_CONFIG, "use one of the listed algorithms in MUSTER_ALGO",
                        "%s has no algorithm '%.*s'; known: %s", msi_coll_name((enum msi_kind)kind),
                        MSI_SHOW(name), list_known(kind, known, sizeof known));
    algo->of[kind] = planner;
    return MST_OK;
}

mst_status msi_algo_parse(const char *text, struct msi_algo *algo) {
    struct msi_algo read = {{NULL}};
    for (const char *at = text; at && *at;) {
        size_t n = strcspn(at, ",");
        struct msi_str entry = trim(at, n);
        mst_status st = entry.n ? parse_entry(entry, &read) : MST_OK;
        if (st != MST_OK) return st;
        at += n + (at[n] == ',');
    }
    *algo = read;
    return MST_OK;
}
