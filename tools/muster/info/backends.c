/* backends.c - lists the backends and the operations that each supports itself. See info.h. */
#include "commands.h"
#include "engine/module/registry.h"
#include "info/info.h"
#include "reduce/reduce.h"

#include <muster/muster.h>
#include <stdio.h>

enum { BACKENDS_MOST = 32, NAME_MOST = 32 };

void info_add_backends(struct msi_json_out *out) {
    const char *name;
    bool usable;
    char text[400];
    msi_json_member_object(out, "backends");
    for (int i = 0; mst_backend_list(i, &name, &usable, text, sizeof text); i++) {
        msi_json_member_object(out, name);
        msi_json_member_bool(out, "usable", usable);
        msi_json_member_string(out, "because", text);
        msi_json_put_object_end(out);
    }
    msi_json_put_object_end(out);
}

void info_print_backends(void) {
    const char *name;
    bool usable;
    char text[400];
    printf("\nBackends\n");
    for (int i = 0; mst_backend_list(i, &name, &usable, text, sizeof text); i++) {
        printf("  %-12s %-12s ", name, usable ? "usable" : "not usable");
        info_print_wrapped(28, 28, text);
    }
}

static void add_name(struct msi_buf *cell, const char *name) {
    msi_buf_add_format(cell, "%s%s", cell->len ? " " : "", name);
}

/* Does a row have the kind with that dtype and op (-1: any) and these forms, in any memory? */
static bool has(const mst_backend_capability *rows, mst_kind kind, int dtype, int op, unsigned forms) {
    for (int m = 0; m < MST_MEMORY_COUNT; m++)
        for (int d = 1; d < MST_DTYPE_COUNT; d++)
            for (int o = 0; o < MST_OP_COUNT; o++)
                if ((dtype < 0 || d == dtype) && (op < 0 || o == op) &&
                    msi_rows_have(rows, kind, (mst_dtype)d, (mst_op)o, (mst_memory)m, forms))
                    return true;
    return false;
}

/* The forms in which a kind can be called. */
static unsigned forms_of(mst_kind kind) {
    bool blocks = kind == MST_KIND_ALL_GATHER || kind == MST_KIND_REDUCE_SCATTER ||
                  kind == MST_KIND_ALL_TO_ALL || kind == MST_KIND_GATHER || kind == MST_KIND_SCATTER;
    if (kind == MST_KIND_SEND) return MST_FORM_TAG;
    if (kind == MST_KIND_RECV) return MST_FORM_TAG | MST_FORM_ANY_SOURCE | MST_FORM_ANY_TAG;
    if (kind == MST_KIND_BARRIER || kind == MST_KIND_BROADCAST) return 0;
    return MST_FORM_IN_PLACE | (blocks ? MST_FORM_UNEVEN | MST_FORM_LISTS : 0u) |
           (msi_kind_reduces(kind) ? (unsigned)MST_FORM_DETERMINISTIC : 0);
}

/* Appends ops that lack some of the kind's dtypes: "SUM of f16 bf16". */
static void add_missing_pairs(const mst_backend_capability *rows, mst_kind kind, struct msi_buf *cell) {
    for (int o = 0; o < MST_OP_COUNT; o++) {
        bool any = false;
        for (int d = 1; d < MST_DTYPE_COUNT && has(rows, kind, -1, o, 0); d++) {
            if (!msi_reducer_get((mst_dtype)d, (mst_op)o) || !has(rows, kind, d, -1, 0) ||
                has(rows, kind, d, o, 0))
                continue;
            if (!any) add_name(cell, mst_op_name((mst_op)o));
            if (!any) add_name(cell, "of");
            add_name(cell, mst_dtype_name((mst_dtype)d));
            any = true;
        }
        if (any) msi_buf_add_text(cell, ";");
    }
}

static bool can_be_reduced(mst_dtype dtype) {
    for (int o = 0; o < MST_OP_COUNT; o++)
        if (msi_reducer_get(dtype, (mst_op)o)) return true;
    return false;
}

/* Appends what a kind lacks. */
static void add_missing(const mst_backend_capability *rows, mst_kind kind, struct msi_buf *cell) {
    static const char *const forms[MST_FORM_COUNT] = {"uneven",     "lists",         "in-place", "tags",
                                                      "any-source", "deterministic", "any-tag"};
    for (int d = 1; d < MST_DTYPE_COUNT && msi_kind_reduces(kind); d++)
        if (can_be_reduced((mst_dtype)d) && !has(rows, kind, d, -1, 0))
            add_name(cell, mst_dtype_name((mst_dtype)d));
    for (int o = 0; o < MST_OP_COUNT && msi_kind_reduces(kind); o++)
        if (!has(rows, kind, -1, o, 0)) add_name(cell, mst_op_name((mst_op)o));
    for (int f = 0; f < MST_FORM_COUNT; f++)
        if (forms_of(kind) >> f & 1 && !has(rows, kind, -1, -1, 1u << f)) add_name(cell, forms[f]);
    if (cell->len) msi_buf_add_text(cell, ";");
    if (msi_kind_reduces(kind)) add_missing_pairs(rows, kind, cell);
    if (cell->len) cell->len--; /* the last semicolon */
}

static void print_cell(const mst_backend_capability *rows, mst_kind kind) {
    struct msi_buf cell = {0};
    if (!has(rows, kind, -1, -1, 0)) {
        printf(" %s |", kind == MST_KIND_SEND || kind == MST_KIND_RECV ? "no" : "composed");
        return;
    }
    add_missing(rows, kind, &cell);
    printf(" yes%s%s |", cell.len ? ", but not: " : "", msi_buf_text(&cell));
    msi_buf_free(&cell);
}

int info_operations(void) {
    char names[BACKENDS_MOST][NAME_MOST];
    const mst_backend_capability *rows[BACKENDS_MOST];
    const char *name;
    int n = 0;
    for (int i = 0; n < BACKENDS_MOST && mst_backend_list(i, &name, NULL, NULL, 0); i++) {
        snprintf(names[n], NAME_MOST, "%s", name);
        rows[n] = mst_backend_rows(names[n]);
        if (rows[n]) n++;
    }
    printf("| operation |");
    for (int i = 0; i < n; i++) printf(" %s |", names[i]);
    printf("\n|---|");
    for (int i = 0; i < n; i++) printf("---|");
    printf("\n");
    for (int k = 0; k < MST_KIND_COUNT; k++) {
        printf("| %s |", msi_kind_text((mst_kind)k));
        for (int i = 0; i < n; i++) print_cell(rows[i], (mst_kind)k);
        printf("\n");
    }
    return EXIT_DONE;
}
