/* axes.c - named dimensions. See axes.h. */
#include "mesh/axes.h"

#include "base/error.h"
#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_number(struct msi_str text) {
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < '0' || text.p[i] > '9') return false;
    return text.n > 0;
}

mst_status msi_axis_check_name(const char *name) {
    static const char remedy[] = "name dimensions as in dp, pp, tp";
    if (!*name) return msi_fail(MST_ERR_INVALID, remedy, "a dimension of the mesh has an empty name");
    if (is_number(msi_cstr(name)))
        return msi_fail(MST_ERR_INVALID, remedy, "'%.80s' cannot be the name of a dimension: it is a number",
                        name);
    for (const char *c = name; *c; c++)
        if (*c == ',' || *c == '=' || isspace((unsigned char)*c) || iscntrl((unsigned char)*c))
            return msi_fail(
                MST_ERR_INVALID, remedy,
                "'%.80s' cannot be the name of a dimension: it has a comma, '=', a space or a control "
                "character in it",
                name);
    return MST_OK;
}

static mst_status check_names(const char *const *names, int ndim) {
    for (int i = 0; i < ndim; i++) {
        if (!names[i])
            return msi_fail(MST_ERR_INVALID, "give as many names as sizes, or none at all",
                            "the mesh has %d dimensions but name %d is NULL", ndim, i);
        mst_status st = msi_axis_check_name(names[i]);
        if (st != MST_OK) return st;
        for (int k = 0; k < i; k++)
            if (!strcmp(names[i], names[k]))
                return msi_fail(MST_ERR_INVALID, "give every dimension a name of its own",
                                "dimensions %d and %d of the mesh are both named '%.80s'", k, i, names[i]);
    }
    return MST_OK;
}

mst_status msi_axes_make(const char *const *names, int ndim, struct msi_axes *axes) {
    struct msi_axes made = {0};
    mst_status st = names ? check_names(names, ndim) : MST_OK;
    for (int d = 0; d < ndim && st == MST_OK; d++) {
        char number[16];
        snprintf(number, sizeof number, "%d", d);
        st = msi_axes_add(&made, names ? names[d] : number, &d, 1);
    }
    if (st == MST_OK)
        *axes = made;
    else
        msi_axes_free(&made);
    return st;
}

mst_status msi_axes_add(struct msi_axes *axes, const char *name, const int *dims, int n) {
    struct msi_axis *at = realloc(axes->at, ((size_t)axes->n + 1) * sizeof *at);
    if (!at) return msi_fail_memory();
    axes->at = at;
    size_t bytes = (size_t)n * sizeof *dims;
    struct msi_axis copy = {strdup(name), n, malloc(bytes)};
    if (!copy.name || !copy.dims) {
        free(copy.name);
        free(copy.dims);
        return msi_fail_memory();
    }
    memcpy(copy.dims, dims, bytes);
    at[axes->n++] = copy;
    return MST_OK;
}

void msi_axes_free(struct msi_axes *axes) {
    for (int i = 0; i < axes->n; i++) {
        free(axes->at[i].name);
        free(axes->at[i].dims);
    }
    free(axes->at);
    *axes = (struct msi_axes){0};
}

bool msi_axis_equal(const struct msi_axis *a, const struct msi_axis *b) {
    return !strcmp(a->name, b->name) && a->n == b->n &&
           !memcmp(a->dims, b->dims, (size_t)a->n * sizeof *a->dims);
}

bool msi_axes_equal(const struct msi_axes *a, const struct msi_axes *b) {
    for (int i = 0; i < a->n && i < b->n; i++)
        if (!msi_axis_equal(&a->at[i], &b->at[i])) return false;
    return a->n == b->n;
}

const struct msi_axis *msi_axes_find(const struct msi_axes *axes, struct msi_str name) {
    for (int i = 0; axes && i < axes->n; i++)
        if (msi_str_equal(msi_cstr(axes->at[i].name), name)) return &axes->at[i];
    return NULL;
}

void msi_axes_join(const struct msi_axes *axes, char separator, struct msi_buf *out) {
    for (int i = 0; i < axes->n; i++) {
        if (i) msi_buf_add_u8(out, (uint8_t)separator);
        msi_buf_add(out, axes->at[i].name, strlen(axes->at[i].name));
    }
}

void msi_axes_show(const struct msi_axes *axes, const struct msi_grid *grid, struct msi_buf *out) {
    for (int i = 0; i < axes->n; i++) {
        const struct msi_axis *a = &axes->at[i];
        msi_buf_add_format(out, "%s%s=%d", i ? "," : "", a->name, msi_line_size(grid, a->dims, a->n));
    }
}

/* Lists the names and suggests the nearest one. */
static mst_status fail_unknown(const struct msi_axes_names *names, struct msi_str name) {
    struct msi_buf all = {0};
    const char *near = NULL;
    int best = 3;
    msi_axes_join(names->own, ',', &all);
    if (names->flat && names->flat->n) {
        msi_buf_add_u8(&all, ',');
        msi_axes_join(names->flat, ',', &all);
    }
    for (int i = 0; i < names->own->n; i++) {
        int edits = msi_edits(name, names->own->at[i].name);
        if (edits < best && edits < (int)name.n) best = edits, near = names->own->at[i].name;
    }
    char remedy[160];
    snprintf(remedy, sizeof remedy,
             near ? "did you mean '%s'?" : "use the names that the mesh was created with", near);
    msi_fail(MST_ERR_INVALID, remedy, "the mesh has no dimension '%.*s', it has %.*s", MSI_SHOW(name),
             MSI_SHOW(msi_buf_str(&all)));
    msi_buf_free(&all);
    return MST_ERR_INVALID;
}

/* Removes the first axis from a list such as "dp,tp". */
static mst_status take(const struct msi_axes_names *names, struct msi_str *list,
                       const struct msi_axis **axis) {
    const char *comma = memchr(list->p, ',', list->n);
    struct msi_str name = {list->p, comma ? (size_t)(comma - list->p) : list->n};
    size_t used = name.n + (comma ? 1 : 0);
    bool ends_early = comma && used == list->n;
    *list = (struct msi_str){list->p + used, list->n - used};
    if (!name.n || ends_early)
        return msi_fail(MST_ERR_INVALID, "name dimensions with single commas between them, as in \"dp,tp\"",
                        "a list of dimensions has an empty name in it");
    const struct msi_axis *found = msi_axes_find(names->own, name);
    if (!found) found = msi_axes_find(names->flat, name);
    if (!found && is_number(name) && name.n < 9) {
        int at = atoi(name.p);
        if (at < names->own->n) found = &names->own->at[at];
    }
    *axis = found;
    return found ? MST_OK : fail_unknown(names, name);
}

/* Appends the dimensions of an axis. */
static mst_status append(const struct msi_axes_names *names, const struct msi_axis *axis, int *dims, int *n) {
    for (int i = 0; i < *n; i++)
        for (int k = 0; k < axis->n; k++)
            if (dims[i] == axis->dims[k])
                return msi_fail(
                    MST_ERR_INVALID, "name every dimension once",
                    "dimension '%.80s' of the mesh is named twice, alone or in a flattened dimension",
                    axis->name);
    if (*n && axis->dims[0] < dims[*n - 1]) {
        struct msi_buf all = {0};
        msi_axes_join(names->own, ',', &all);
        msi_fail(MST_ERR_INVALID, "name the dimensions in the order of the mesh",
                 "'%.80s' is out of order in the list: the order of the mesh is %.*s", axis->name,
                 MSI_SHOW(msi_buf_str(&all)));
        msi_buf_free(&all);
        return MST_ERR_INVALID;
    }
    memcpy(dims + *n, axis->dims, (size_t)axis->n * sizeof *dims);
    *n += axis->n;
    return MST_OK;
}

mst_status msi_axes_dims(const struct msi_axes_names *names, const char *list, int *dims, int *n) {
    *n = 0;
    if (!list && names->own->n == 1) return append(names, &names->own->at[0], dims, n);
    if (!list)
        return msi_fail(MST_ERR_INVALID, "name one or more of them, as in \"dp\" or \"dp,tp\"",
                        "the mesh has %d dimensions and the list names none", names->own->n);
    struct msi_str rest = msi_cstr(list);
    mst_status st;
    do {
        const struct msi_axis *axis;
        st = take(names, &rest, &axis);
        if (st == MST_OK) st = append(names, axis, dims, n);
    } while (st == MST_OK && rest.n);
    return st;
}

mst_status msi_axes_pick(const struct msi_axes_names *names, const char *list, struct msi_axes *picked) {
    struct msi_axes made = {0};
    struct msi_str rest = msi_cstr(list);
    mst_status st;
    do {
        const struct msi_axis *axis;
        st = take(names, &rest, &axis);
        if (st == MST_OK) st = msi_axes_add(&made, axis->name, axis->dims, axis->n);
    } while (st == MST_OK && rest.n);
    if (st == MST_OK)
        *picked = made;
    else
        msi_axes_free(&made);
    return st;
}
