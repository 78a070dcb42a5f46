/* status.c - names, texts and scopes of statuses, from the table in status.h. */
#include <muster/status.h>
#include <muster/version.h>

struct entry {
    const char *name, *text;
    mst_scope scope;
};

#define ENTRY(number, id, reach, meaning) [number] = {"MST_" #id, meaning, MST_SCOPE_##reach},
static const struct entry table[] = {MST_STATUS_TABLE(ENTRY)};
#undef ENTRY

static const struct entry *find(mst_status status) {
    static const struct entry unknown = {"MST_UNKNOWN", "not a status", MST_SCOPE_PROCESS};
    return (unsigned)status < MST_STATUS_COUNT ? &table[status] : &unknown;
}

const char *mst_status_name(mst_status status) {
    return find(status)->name;
}

const char *mst_status_text(mst_status status) {
    return find(status)->text;
}

mst_scope mst_status_scope(mst_status status) {
    return find(status)->scope;
}

const char *mst_version(void) {
    return MST_VERSION_STRING;
}
