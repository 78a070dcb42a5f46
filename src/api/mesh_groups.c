/*
 * mesh_groups.c - mst_mesh_from_groups. A rank knows the ranks of its own groups only. The ranks of all
 * coordinates are gathered along one dimension after the other, from the last to the first:
 *
 *     this rank, then its row (last dimension), then the rows of its column, then …
 *
 * Every rank makes the same collectives whether it has found a mistake or not, so that all learn of it.
 */
#include "api/api.h"
#include "base/error.h"
#include "base/options.h"
#include "mesh/root_mesh.h"

#include <stdlib.h>

static const char name[] = "mst_mesh_from_groups";

struct lines {
    mst_group **groups; /* this rank's, along each dimension */
    int ndim, rank;     /* the global rank */
    int *shape, *ranks; /* ranks: by position */
    int size;           /* number of positions */
    mst_call call;
    struct msi_saved_error error; /* the first mistake; MST_OK: none. Later calls may record other failures */
};

static void note(struct lines *l, mst_status status) {
    if (status != MST_OK && l->error.status == MST_OK) msi_error_save(&l->error, status);
}

/* Fails on all ranks if one of them has found a mistake. */
static mst_status agree(const struct lines *l) {
    int failed = l->error.status == MST_OK ? 0 : l->rank + 1;
    mst_status st = MST_OK;
    for (int d = l->ndim - 1; d >= 0 && st == MST_OK; d--) {
        mst_call call = l->call;
        call.group = l->groups[d]->handle;
        call.op = MST_MAX;
        st = mst_all_reduce_with(&failed, 1, MST_I32, &call);
    }
    msi_call_begin(name, &l->call.site, l->rank);
    if (l->error.status != MST_OK) return msi_error_restore(&l->error);
    if (st != MST_OK || !failed) return st;
    msi_fail(MST_ERR_MISMATCH, "look at that rank's own message",
             "rank %d rejected its call, or found that its groups do not form a mesh with those of the "
             "other ranks",
             failed - 1);
    return msi_blame(MST_ERR_MISMATCH, failed - 1);
}

static mst_status gather(const struct lines *l, int d, int *out, const int *in, size_t count) {
    mst_call call = l->call;
    call.group = l->groups[d]->handle;
    return msi_all_gather_as(name, out, in, count, MST_I32, &call);
}

static mst_status fail_shape(int d, int rank, int theirs, int own) {
    msi_fail(MST_ERR_MISMATCH, "give groups of the same sizes on all ranks",
             "dimension %d has %d ranks on rank %d, but %d on this rank", d, theirs, rank, own);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

/* Compares the shapes of the ranks of this rank's group along a dimension. */
static mst_status compare_along(struct lines *l, int d) {
    int n = l->ndim, *all = malloc((size_t)l->shape[d] * (size_t)n * sizeof *all);
    mst_status st = all ? gather(l, d, all, l->shape, (size_t)n) : msi_fail_memory();
    for (int i = 0; i < l->shape[d] * n && st == MST_OK; i++)
        if (all[i] != l->shape[i % n])
            note(l, fail_shape(i % n, msi_group_global_rank(l->groups[d], i / n), all[i], l->shape[i % n]));
    free(all);
    return st;
}

/* Tells the ranks along the first n dimensions that this rank has failed. Returns status. */
static mst_status tell(const struct lines *l, int n, mst_status status) {
    struct msi_saved_error error;
    struct msi_op_call call = {name, l->call.site};
    msi_error_save(&error, status);
    for (int d = n - 1; d >= 0; d--) {
        msi_error_restore(&error);
        /* As if the arguments of the gather were invalid. */
        if (l->groups[d])
            msi_group_reject(l->groups[d], MSI_KIND_ALL_GATHER_INTO_TENSOR, &call, MST_ERR_INVALID);
    }
    return msi_error_restore(&error);
}

static mst_status compare_shapes(struct lines *l) {
    for (int d = l->ndim - 1; d >= 0; d--) {
        mst_status st = compare_along(l, d);
        if (st != MST_OK)
            return tell(l, st == MST_ERR_MEMORY ? d + 1 : d, st); /* without memory, no gather */
    }
    return agree(l);
}

static mst_status gather_ranks(struct lines *l) {
    int count = 1, *block = malloc((size_t)l->size * sizeof *block);
    mst_status st = block ? MST_OK : msi_fail_memory();
    l->ranks[0] = l->rank;
    for (int d = l->ndim - 1; d >= 0 && st == MST_OK; d--) {
        memcpy(block, l->ranks, (size_t)count * sizeof *block);
        st = gather(l, d, l->ranks, block, (size_t)count);
        count *= l->shape[d];
    }
    free(block);
    return st;
}

static mst_status fail_rank(const char *what, int rank) {
    msi_fail(MST_ERR_MISMATCH, "let each combination of coordinates have one rank", "rank %d %s", rank, what);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

/* Does each rank have one position? */
static mst_status check_once(const struct lines *l, int world_size) {
    bool *seen = calloc((size_t)world_size, sizeof *seen);
    mst_status st = seen ? MST_OK : msi_fail_memory();
    for (int i = 0; i < l->size && st == MST_OK; i++) {
        int rank = l->ranks[i];
        if (rank < 0 || rank >= world_size || seen[rank])
            st = fail_rank("is in the mesh twice", rank);
        else
            seen[rank] = true;
    }
    free(seen);
    return st;
}

/* Are this rank's groups lines of the mesh? */
static mst_status check_lines(const struct lines *l) {
    int position = 0, stride = 1;
    for (int d = l->ndim - 1; d >= 0; stride *= l->shape[d--]) position += l->groups[d]->rank * stride;
    stride = 1;
    for (int d = l->ndim - 1; d >= 0; stride *= l->shape[d--])
        for (int i = 0; i < l->shape[d]; i++) {
            int rank = msi_group_global_rank(l->groups[d], i);
            if (l->ranks[position + (i - l->groups[d]->rank) * stride] != rank)
                return fail_rank("is in a group of this rank, but has another place in the mesh", rank);
        }
    return MST_OK;
}

static mst_status make(struct lines *l, const mst_mesh_groups_options *o, mst_mesh **mesh) {
    struct msi_world *world = l->groups[0]->world;
    mst_mesh_options options = {.size = sizeof options, .ranks = l->ranks, .timeout_ms = o->timeout_ms};
    mst_group **handles = malloc((size_t)l->ndim * sizeof *handles);
    mst_mesh *whole = NULL;
    mst_status st = handles ? MST_OK : msi_fail_memory();
    for (int d = 0; d < l->ndim && handles; d++) handles[d] = l->groups[d]->handle;
    if (st == MST_OK) st = msi_mesh_make(world, l->shape, l->ndim, o->dim_names, &options, &whole);
    if (st == MST_OK) st = msi_mesh_lend_groups(whole->root, handles);
    free((void *)handles);
    if (st == MST_OK)
        *mesh = whole->handle;
    else if (whole)
        msi_mesh_end(whole->root);
    return st;
}

static mst_status build(struct lines *l, const mst_mesh_groups_options *o, mst_mesh **mesh) {
    mst_status st = compare_shapes(l);
    if (st != MST_OK) return st;
    l->ranks = malloc((size_t)l->size * sizeof *l->ranks);
    if (!l->ranks) return msi_fail_memory();
    st = gather_ranks(l);
    if (st != MST_OK) return st;
    note(l, check_once(l, l->groups[0]->world->size));
    note(l, check_lines(l));
    st = agree(l);
    return st == MST_OK ? make(l, o, mesh) : st;
}

/* Notes a mistake in the groups. */
static void check_groups(struct lines *l) {
    int world_size = l->groups[0]->world->size;
    l->size = 1;
    for (int d = 0; d < l->ndim; d++) {
        const mst_group *group = l->groups[d];
        l->shape[d] = group->size;
        if (group->world != l->groups[0]->world)
            note(l,
                 msi_fail(MST_ERR_INVALID, NULL, "groups[%d] and groups[0] belong to different worlds", d));
        if (!__builtin_mul_overflow(l->size, group->size, &l->size) && l->size <= world_size) continue;
        note(l, msi_fail(MST_ERR_INVALID, "give groups whose sizes have a product of at most the world size",
                         "the first %d groups make a mesh of more than the %d ranks of the world", d + 1,
                         world_size));
        l->size = world_size; /* not used: all ranks fail */
    }
}

/* Finds the groups; false: one cannot be used, which is noted. */
static bool find_groups(struct lines *l, mst_group *const *groups) {
    bool found = true;
    for (int d = 0; d < l->ndim; d++) {
        mst_group *group = msi_call_group(name, &l->call.site, groups[d]);
        if (group && group->rank >= 0) {
            l->groups[d] = group;
            l->rank = group->world->rank;
            continue;
        }
        note(l, group ? msi_fail_not_member(group) : MST_ERR_STATE);
        found = false;
    }
    return found;
}

static mst_status run(struct lines *l, mst_group *const *groups, const mst_mesh_groups_options *o,
                      mst_mesh **mesh) {
    bool found = find_groups(l, groups);
    if (msi_check_timeout(o->timeout_ms) == MST_OK)
        l->call.timeout_ms = o->timeout_ms;
    else
        note(l, MST_ERR_INVALID);
    if (!mesh) note(l, msi_fail(MST_ERR_INVALID, NULL, "mesh is NULL"));
    if (!found) return tell(l, l->ndim, msi_error_restore(&l->error));
    check_groups(l);
    return build(l, o, mesh);
}

mst_status mst_mesh_from_groups_with(mst_group *const *groups, int ndim, mst_mesh **mesh,
                                     const mst_mesh_groups_options *given) {
    mst_mesh_groups_options o;
    mst_status st = msi_options_begin(name, &o, sizeof o, given);
    if (st == MST_OK && !groups) st = msi_fail(MST_ERR_INVALID, NULL, "groups is NULL");
    if (st == MST_OK && ndim < 1) st = msi_fail(MST_ERR_INVALID, NULL, "ndim is %d", ndim);
    if (st == MST_OK && msi_comm_in_callback()) st = msi_comm_refuse_waiting();
    if (st != MST_OK) return st;
    struct lines l = {.ndim = ndim,
                      .groups = calloc((size_t)ndim, sizeof *l.groups),
                      .shape = calloc((size_t)ndim, sizeof *l.shape),
                      .call = {.size = sizeof l.call, .site = o.site}};
    st = l.groups && l.shape ? run(&l, groups, &o, mesh) : msi_fail_memory();
    free((void *)l.groups);
    free(l.shape);
    free(l.ranks);
    return st;
}
