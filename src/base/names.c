/* names.c - statuses, dtypes and operations: names, texts, scopes and sizes, from the public tables. */
#include "base/kind.h"

#include <muster/dtype.h>
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

#define DTYPE_ENTRY(number, name, bytes, text) [number] = {bytes, text},
#define OP_ENTRY(number, name, text)           [number] = (text),
static const struct {
    unsigned char size;
    const char *name;
} dtypes[MST_DTYPE_COUNT] = {{0, "?"}, MST_DTYPE_TABLE(DTYPE_ENTRY)};
static const char *const op_names[MST_OP_COUNT] = {MST_OP_TABLE(OP_ENTRY)};

size_t mst_dtype_size(mst_dtype dtype) {
    return (unsigned)dtype < MST_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *mst_dtype_name(mst_dtype dtype) {
    return (unsigned)dtype < MST_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

const char *mst_op_name(mst_op op) {
    if ((unsigned)op < MST_OP_COUNT) return op_names[op];
    bool user = (unsigned)op >> 16 == MST_OP_USER >> 16;
    return user || msi_op_is_user_byte((unsigned)op) ? "user-defined" : "?";
}
