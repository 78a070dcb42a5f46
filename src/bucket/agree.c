/*
 * agree.c - the ranks compare their tensors when they create a reducer, through the store, so that it works
 * with any kind of memory. The first rank sets the group's key "list"; the others compare. A rank that fails
 * writes its failure to the key "gave_up.N" before the N-th barrier, so creation fails on all ranks or on
 * none.
 */
#include "base/handles.h"
#include "bucket/bucket.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

/* The rank, the options and the tensors, each on a line. */
static void write_list(const mst_bucket_reducer *r, struct msi_buf *out) {
    const mst_bucket_options *o = &r->options;
    msi_buf_add_format(out, "%d\n%s of buckets of %zu bytes, the first of %zu%s%s%s\n", r->rank,
                       o->sum ? "sums" : "averages", o->bucket_bytes, o->first_bucket_bytes,
                       o->deterministic ? ", deterministic" : "", o->quantize ? ", quantised" : "",
                       r->device ? ", in device memory" : "");
    for (size_t i = 0; i < r->n; i++) {
        const struct msi_bucket_tensor *t = &r->tensors[i];
        msi_buf_add_format(out, "'%s' of %zu %s\n", t->name ? t->name : "", t->user.count,
                           mst_dtype_name(t->user.dtype));
    }
}

/* Fails: line number of the two lists is the first that differs. An empty line: the list is shorter. */
static mst_status fail_differ(const mst_group *group, int rank, size_t number, struct msi_str own,
                              struct msi_str other) {
    char us[MSI_RANK_SHOW_MAX], them[MSI_RANK_SHOW_MAX], tensor[48] = "the reducer has";
    if (number > 0) snprintf(tensor, sizeof tensor, "tensor %zu is", number - 1);
    if (!own.n) own = msi_cstr("missing");
    if (!other.n) other = msi_cstr("missing");
    msi_fail(MST_ERR_MISMATCH, "register the same tensors in the same order on all ranks",
             "%s %.*s on %s, but %.*s on %s", tensor, (int)(own.n < 150 ? own.n : 150), own.p,
             msi_rank_show(group, group->world->rank, us, sizeof us), (int)(other.n < 150 ? other.n : 150),
             other.p, msi_rank_show(group, rank, them, sizeof them));
    return msi_blame(MST_ERR_MISMATCH, rank);
}

static mst_status compare(const mst_group *group, struct msi_str own, struct msi_str first) {
    struct msi_str a = {0}, b = {0};
    char text[16];
    if (msi_str_equal(own, first)) return MST_OK;
    msi_str_line(&own, &a);
    msi_str_line(&first, &b);
    int rank = atoi(msi_str_copy(b, text, sizeof text));
    if (rank < 0 || rank >= group->world->size)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where a rank should be", MSI_SHOW(b));
    for (size_t number = 0; own.n || first.n; number++) {
        a = b = msi_str(NULL, 0);
        msi_str_line(&own, &a);
        msi_str_line(&first, &b);
        if (!msi_str_equal(a, b)) return fail_differ(group, rank, number, a, b);
    }
    return MST_OK;
}

mst_status msi_bucket_compare(const mst_bucket_reducer *r, const struct msi_wait *wait) {
    mst_group *group = msi_handle_memory(r->group);
    struct msi_buf own = {0}, first = {0};
    char key[96];
    if (group->size == 1) return MST_OK;
    snprintf(key, sizeof key, "%s/list", group->id);
    write_list(r, &own);
    mst_status st = own.failed ? msi_fail_memory()
                               : msi_world_put_once(group->world, wait, key, msi_buf_str(&own), &first);
    if (st == MST_OK) st = compare(group, msi_buf_str(&own), msi_buf_str(&first));
    msi_buf_free(&own);
    msi_buf_free(&first);
    return st;
}

static void publish(mst_group *group, const char *key, mst_status status, const struct msi_wait *wait) {
    char note[MSI_NOTE_MAX];
    struct msi_buf first = {0};
    msi_failure_write(group, status, note);
    msi_world_put_once(group->world, wait, key, msi_cstr(note), &first);
    msi_buf_free(&first);
}

/* Fails if a rank has failed. */
static mst_status read_failure(mst_group *group, const char *key, const struct msi_wait *wait) {
    struct msi_buf note = {0};
    mst_status st = msi_world_read(group->world, wait, key, &note);
    if (st == MST_OK && note.len) st = msi_failure_read(group, msi_buf_str(&note), "gave up the reducer");
    msi_buf_free(&note);
    return st;
}

mst_status msi_bucket_agree(const mst_bucket_reducer *r, int number, const struct msi_wait *wait,
                            mst_status own) {
    mst_group *group = msi_handle_memory(r->group);
    char key[96];
    struct msi_saved_error error;
    if (group->size == 1) return own;
    snprintf(key, sizeof key, "%s/gave_up.%d", group->id, number);
    msi_error_save(&error, own);
    if (own != MST_OK) publish(group, key, own, wait);
    mst_status st = msi_group_barrier(group, wait, NULL);
    if (own != MST_OK) return msi_error_restore(&error);
    return st == MST_OK ? read_failure(group, key, wait) : st;
}
