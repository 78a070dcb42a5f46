/*
 * mesh.c - draws a mesh. See info.h. The picture has a row for each combination of the leading coordinates
 * and a column for each of the last one; a wide picture is split into several. The groups of every set of
 * dimensions follow.
 */
#include "info/info.h"

#include "base/error.h"
#include "commands.h"
#include "mesh/axes.h"
#include "mesh/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 65536, WIDTH = 100, GROUPS_MOST = 64, TOGETHER_MOST = 5, LIST_LEAST = 40 };

struct mesh {
    struct msi_grid grid;
    struct msi_axes axes;
};

static int digits(int number) {
    return snprintf(NULL, 0, "%d", number);
}

/* The width of the longest label such as "dp=12". */
static int label_width(const struct mesh *m, int dim) {
    return (int)strlen(m->axes.at[dim].name) + 1 + digits(m->grid.sizes[dim] - 1);
}

static void print_label(const struct mesh *m, int dim, int coordinate, int width) {
    char text[128];
    snprintf(text, sizeof text, "%.100s=%d", m->axes.at[dim].name, coordinate);
    printf("%*s", width, text);
}

/* Prints the leading coordinates of a row, without those that are equal in the row above. */
static void print_row_labels(const struct mesh *m, int position, bool first) {
    bool changed = first;
    for (int d = 0; d < m->grid.ndim - 1; d++) {
        int c = msi_grid_coordinate(&m->grid, position, d), width = label_width(m, d) + 1;
        changed =
            changed || c != msi_grid_coordinate(&m->grid, position - m->grid.sizes[m->grid.ndim - 1], d);
        if (changed)
            print_label(m, d, c, width);
        else
            printf("%*s", width, "");
    }
}

static void draw(const struct mesh *m) {
    int last = m->grid.ndim - 1, columns = m->grid.sizes[last], left = 0;
    for (int d = 0; d < last; d++) left += label_width(m, d) + 1;
    int number = digits(m->grid.size - 1), label = label_width(m, last);
    int cell = (label > number ? label : number) + 2, fit = (WIDTH - left) / cell;
    if (fit < 1) fit = 1;
    for (int from = 0; from < columns; from += fit) {
        int to = from + fit < columns ? from + fit : columns;
        printf("\n%*s", left, "");
        for (int c = from; c < to; c++) print_label(m, last, c, cell);
        printf("\n");
        for (int row = 0; row < m->grid.size; row += columns) {
            print_row_labels(m, row, row == 0);
            for (int c = from; c < to; c++) printf("%*d", cell, row + c);
            printf("\n");
        }
    }
}

/* The length of the run of consecutive ranks from index i on; a run has at least three. */
static int run_length(const struct mesh *m, const int *dims, int n, int position, int i) {
    int size = msi_line_size(&m->grid, dims, n), from = msi_line_at(&m->grid, dims, n, position, i), run = 1;
    while (i + run < size && msi_line_at(&m->grid, dims, n, position, i + run) == from + run) run++;
    return run < 3 ? 1 : run;
}

/* Appends "0-3,16-19,20", cut to fit, with the number of ranks that were left out. */
static void list_group(const struct mesh *m, const int *dims, int n, int position, size_t width,
                       struct msi_buf *out) {
    int size = msi_line_size(&m->grid, dims, n), i = 0, kept = 0;
    size_t end = 0, tail = (size_t)snprintf(NULL, 0, ",… (%d more)", size);
    while (i < size && out->len <= width && !out->failed) {
        int from = msi_line_at(&m->grid, dims, n, position, i), run = run_length(m, dims, n, position, i);
        msi_buf_add_format(out, i ? ",%d" : "%d", from);
        if (run > 1) msi_buf_add_format(out, "-%d", from + run - 1);
        i += run;
        if (out->len + tail > width) continue;
        end = out->len;
        kept = i;
    }
    if (out->len <= width) return;
    out->len = end;
    msi_buf_add_format(out, ",… (%d more)", size - kept);
}

/* Writes a group along dims, in ascending order: "0-3,16-19", "0,4" or "0,8,…,56". */
static void show_group(const struct mesh *m, const int *dims, int n, int position, size_t width,
                       struct msi_buf *out) {
    int size = msi_line_size(&m->grid, dims, n), last = msi_line_at(&m->grid, dims, n, position, size - 1);
    int step = size > 1 ? msi_line_at(&m->grid, dims, n, position, 1) - position : 1;
    out->len = 0;
    if (size > 5 && step > 1 && last == position + (size - 1) * step)
        msi_buf_add_format(out, "%d,%d,…,%d", position, position + step, last);
    else
        list_group(m, dims, n, position, width, out);
}

/* The position at which the next group along dims begins, or -1. */
static int next_group(const struct mesh *m, const int *dims, int n, int position) {
    while (++position < m->grid.size)
        if (msi_line_index(&m->grid, dims, n, position) == 0) return position;
    return -1;
}

static void join_names(const struct mesh *m, const int *dims, int n, char *out, size_t size) {
    size_t at = 0;
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%.60s", i ? "," : "", m->axes.at[dims[i]].name);
}

static void print_groups(const struct mesh *m, const int *dims, int n, int name_width) {
    char name[256], counted[64];
    struct msi_buf text = {0};
    int size = msi_line_size(&m->grid, dims, n), groups = m->grid.size / size, shown = 0, width = 0;
    join_names(m, dims, n, name, sizeof name);
    snprintf(counted, sizeof counted, "%d group%s of %d", groups, groups == 1 ? "" : "s", size);
    int left = printf("  %-*s  %-*s", name_width, name, 12 + digits(m->grid.size), counted);
    int list_width = WIDTH - left - 2 > LIST_LEAST ? WIDTH - left - 2 : LIST_LEAST;
    for (int p = next_group(m, dims, n, -1); p >= 0; p = next_group(m, dims, n, p)) {
        if (shown++ == GROUPS_MOST) {
            printf("\n%*s  … and %d more", left, "", groups - GROUPS_MOST);
            break;
        }
        show_group(m, dims, n, p, (size_t)list_width, &text);
        int length = (int)text.len;
        if (width && left + width + 2 + length > WIDTH) {
            printf("\n%*s", left, "");
            width = 0;
        }
        width += printf("  %.*s", length, (const char *)text.data);
    }
    printf("\n");
    msi_buf_free(&text);
}

/* Advances to the next combination of n out of "of" dimensions, in lexical order. */
static bool next_combination(int *dims, int n, int of) {
    int i = n - 1;
    while (i >= 0 && dims[i] == of - n + i) i--;
    if (i < 0) return false;
    dims[i]++;
    for (int k = i + 1; k < n; k++) dims[k] = dims[k - 1] + 1;
    return true;
}

/* The width of the longest name of up to that many dimensions together. */
static int widest_name(const struct mesh *m, int together, int *dims) {
    char name[256];
    int widest = 0;
    for (int n = 1; n <= together; n++) {
        for (int i = 0; i < n; i++) dims[i] = i;
        do {
            join_names(m, dims, n, name, sizeof name);
            if ((int)strlen(name) > widest) widest = (int)strlen(name);
        } while (next_combination(dims, n, m->grid.ndim));
    }
    return widest;
}

static void print_all_groups(const struct mesh *m, int *dims) {
    int ndim = m->grid.ndim, together = ndim > TOGETHER_MOST || ndim == 1 ? 1 : ndim - 1;
    int widest = widest_name(m, together, dims);
    for (int n = 1; n <= together; n++) {
        printf(n == 1 ? "\ngroups\n" : n == 2 ? "\ngroups of dimensions together\n" : "");
        for (int i = 0; i < n; i++) dims[i] = i;
        do print_groups(m, dims, n, widest);
        while (next_combination(dims, n, ndim));
    }
}

static void print_text(const struct mesh *m, int *dims) {
    struct msi_buf shown = {0};
    msi_axes_show(&m->axes, &m->grid, &shown);
    printf("mesh %s: %d rank%s\n", msi_buf_text(&shown), m->grid.size, m->grid.size == 1 ? "" : "s");
    msi_buf_free(&shown);
    draw(m);
    print_all_groups(m, dims);
}

static void add_groups(struct msi_json_out *out, const struct mesh *m, int dim) {
    msi_json_member_array(out, m->axes.at[dim].name);
    for (int p = next_group(m, &dim, 1, -1); p >= 0; p = next_group(m, &dim, 1, p)) {
        msi_json_put_array(out);
        for (int i = 0; i < m->grid.sizes[dim]; i++)
            msi_json_put_int(out, msi_line_at(&m->grid, &dim, 1, p, i));
        msi_json_put_array_end(out);
    }
    msi_json_put_array_end(out);
}

static int print_json(const struct mesh *m) {
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    msi_json_put_object(&out);
    msi_json_member_array(&out, "shape");
    for (int d = 0; d < m->grid.ndim; d++) msi_json_put_int(&out, m->grid.sizes[d]);
    msi_json_put_array_end(&out);
    msi_json_member_array(&out, "names");
    for (int d = 0; d < m->grid.ndim; d++) msi_json_put_string(&out, m->axes.at[d].name);
    msi_json_put_array_end(&out);
    msi_json_member_array(&out, "coordinates");
    for (int p = 0; p < m->grid.size; p++) {
        msi_json_put_array(&out);
        for (int d = 0; d < m->grid.ndim; d++) msi_json_put_int(&out, msi_grid_coordinate(&m->grid, p, d));
        msi_json_put_array_end(&out);
    }
    msi_json_put_array_end(&out);
    msi_json_member_object(&out, "groups");
    for (int d = 0; d < m->grid.ndim; d++) add_groups(&out, m, d);
    msi_json_put_object_end(&out);
    msi_json_put_object_end(&out);
    return info_print_json(&text);
}

/* Names dimensions "dim0", ...: in a picture, plain numbers would look like ranks. */
static mst_status name_axes(struct msi_axes *axes) {
    for (int d = 0; d < axes->n; d++) {
        char name[24], *copy;
        snprintf(name, sizeof name, "dim%d", d);
        if (!(copy = strdup(name))) return msi_fail_memory();
        free(axes->at[d].name);
        axes->at[d].name = copy;
    }
    return MST_OK;
}

static mst_status read_mesh(const char *text, bool drawn, struct mesh *m) {
    struct msi_mesh_spec spec;
    mst_status st = msi_mesh_parse(text, &spec);
    if (st != MST_OK) return st;
    st = msi_grid_make(spec.sizes, spec.ndim, &m->grid);
    if (st == MST_OK && m->grid.size > RANKS_MOST)
        st = msi_fail(MST_ERR_INVALID, "draw a smaller mesh",
                      "the mesh has %d ranks, but at most %d can be drawn", m->grid.size, RANKS_MOST);
    if (st == MST_OK) st = msi_axes_make((const char *const *)spec.names, spec.ndim, &m->axes);
    if (st == MST_OK && !spec.names && drawn) st = name_axes(&m->axes);
    msi_mesh_spec_free(&spec);
    return st;
}

int info_mesh(const struct opt_command *command, const char *text, bool json) {
    struct mesh m = {0};
    int exit_status = EXIT_DONE;
    msi_call_begin(command->name, NULL, -1);
    mst_status st = read_mesh(text, !json, &m);
    int *dims = st == MST_OK ? malloc((size_t)m.grid.ndim * sizeof *dims) : NULL;
    if (st == MST_OK && !dims) st = msi_fail_memory();
    if (st != MST_OK)
        exit_status = opt_mistake(command, "--mesh '%s': %s; %s", text, mst_last_error()->message,
                                  mst_last_error()->remedy);
    else if (json)
        exit_status = print_json(&m);
    else
        print_text(&m, dims);
    free(dims);
    msi_axes_free(&m.axes);
    msi_grid_free(&m.grid);
    return exit_status;
}
