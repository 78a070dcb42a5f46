/* spec.c - parses "dp=2,pp=2,tp=4" without checking names and sizes. See spec.h. */
#include "mesh/spec.h"

#include "base/error.h"
#include "base/str.h"

#include <limits.h>
#include <stdlib.h>

static const char REMEDY[] = "write a mesh as dp=2,tp=4, or as 2,4";

/* Parses one part, "dp=2" or "2": its size and the length of its name, which is 0 without a name. */
static mst_status read_part(struct msi_str part, int *size, size_t *name) {
    const char *equals = memchr(part.p, '=', part.n);
    size_t at = equals ? (size_t)(equals - part.p) + 1 : 0;
    *name = at ? at - 1 : 0;
    if (at == 1)
        return msi_fail(MST_ERR_INVALID, REMEDY, "'%.*s' in the mesh has no name before '='", MSI_SHOW(part));
    long long number = 0;
    bool minus = at < part.n && part.p[at] == '-' && part.n > at + 1;
    size_t i = minus ? at + 1 : at;
    for (; i < part.n && part.p[i] >= '0' && part.p[i] <= '9' && number <= INT_MAX; i++)
        number = number * 10 + (part.p[i] - '0');
    if (number > INT_MAX)
        return msi_fail(MST_ERR_INVALID, REMEDY, "'%.*s' in the mesh has a size above %d", MSI_SHOW(part),
                        INT_MAX);
    if (part.n == at || i < part.n)
        return msi_fail(MST_ERR_INVALID, REMEDY, "'%.*s' in the mesh has no size that is a number",
                        MSI_SHOW(part));
    *size = (int)(minus ? -number : number);
    return MST_OK;
}

static size_t count_parts(const char *text) {
    size_t n = 1;
    for (; *text; text++) n += *text == ',';
    return n;
}

static mst_status add_part(struct msi_mesh_spec *spec, struct msi_str part) {
    size_t name;
    mst_status st = read_part(part, &spec->sizes[spec->ndim], &name);
    if (st != MST_OK) return st;
    bool named = spec->ndim > 0 && spec->names[0];
    if (spec->ndim > 0 && named != (name > 0))
        return msi_fail(MST_ERR_INVALID, REMEDY, "'%.*s' has %s name, but the part before it has %s",
                        MSI_SHOW(part), name ? "a" : "no", name ? "none" : "one");
    if (name && !(spec->names[spec->ndim] = strndup(part.p, name))) return msi_fail_memory();
    spec->ndim++;
    return MST_OK;
}

mst_status msi_mesh_parse(const char *text, struct msi_mesh_spec *spec) {
    size_t n = count_parts(text);
    struct msi_mesh_spec made = {0, calloc(n, sizeof *made.sizes), calloc(n, sizeof *made.names)};
    mst_status st = made.sizes && made.names ? MST_OK : msi_fail_memory();
    for (const char *at = text; st == MST_OK;) {
        size_t length = strcspn(at, ",");
        st = add_part(&made, msi_str(at, length));
        if (!at[length]) break;
        at += length + 1;
    }
    if (st == MST_OK && !made.names[0]) {
        free(made.names);
        made.names = NULL;
    }
    if (st == MST_OK)
        *spec = made;
    else
        msi_mesh_spec_free(&made);
    return st;
}

void msi_mesh_spec_free(struct msi_mesh_spec *spec) {
    for (int i = 0; spec->names && i < spec->ndim; i++) free(spec->names[i]);
    free(spec->names);
    free(spec->sizes);
    *spec = (struct msi_mesh_spec){0};
}
