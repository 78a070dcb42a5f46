/* root_mesh.c - making and ending a mesh with all that belongs to it. See root_mesh.h. */
#include "mesh/root_mesh.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

mst_status msi_mesh_adopt(struct msi_mesh_family *family, struct msi_axes *axes, mst_mesh **member) {
    static atomic_uint turns; /* only has to change; nothing is ordered by it */
    mst_mesh *made = msi_handle_alloc(sizeof *made);
    mst_mesh **members = realloc(family->members, ((size_t)family->n_members + 1) * sizeof *members);
    if (members) family->members = members;
    if (made)
        made->handle = msi_handle_make(made, atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed));
    if (!made || !members || !msi_handle_add(made->handle)) {
        free(made);
        msi_axes_free(axes);
        return msi_fail_memory();
    }
    made->family = family;
    made->axes = *axes;
    members[family->n_members++] = made;
    *member = made;
    return MST_OK;
}

static void free_family(struct msi_mesh_family *family) {
    for (int i = 0; i < family->n_members; i++) {
        msi_handle_remove(family->members[i]->handle);
        msi_axes_free(&family->members[i]->axes);
        free(family->members[i]);
    }
    for (int i = 0; i < family->n_groups; i++) free(family->groups[i].dims);
    msi_axes_free(&family->flat);
    msi_grid_free(&family->grid);
    pthread_mutex_destroy(&family->lock);
    free(family->members);
    free(family->groups);
    free(family->found);
    free(family->dims);
    free(family->ranks);
    free(family->backend);
    free(family);
}

mst_status msi_mesh_end(struct msi_mesh_family *family) {
    const mst_group *world = msi_group_of(family->world);
    if (world) {
        mst_status st = msi_group_check_use(world);
        if (st != MST_OK) return st;
        for (int i = 0; i < family->n_groups; i++) msi_group_end(&family->groups[i].handle);
        msi_group_end(&family->whole);
    }
    free_family(family);
    return MST_OK;
}

/* Whether the mesh has as many places as there are ranks for it. */
static mst_status check_size(const struct msi_mesh_family *family, const struct msi_axes *axes, bool given,
                             int world_size) {
    int n = family->grid.size;
    if (n == world_size || (n < world_size && given)) return MST_OK;
    struct msi_buf shown = {0};
    char remedy[128];
    msi_axes_show(axes, &family->grid, &shown);
    snprintf(remedy, sizeof remedy, "let the product of the sizes be %d, or start %d rank%s%s", world_size, n,
             n == 1 ? "" : "s", n > world_size ? "" : ", or say with .ranks which take part");
    msi_fail(MST_ERR_INVALID, remedy, "the mesh %.*s has place for %d ranks but the world has %d",
             MSI_SHOW(msi_buf_str(&shown)), n, world_size);
    msi_buf_free(&shown);
    return MST_ERR_INVALID;
}

/* Puts ranks into its places: those given, or all of the world. */
static mst_status seat_ranks(struct msi_mesh_family *family, const int *given, int world_size) {
    int n = family->grid.size;
    family->ranks = malloc((size_t)n * sizeof *family->ranks);
    int *sorted = malloc((size_t)n * sizeof *sorted);
    mst_status st = family->ranks && sorted ? MST_OK : msi_fail_memory();
    for (int i = 0; st == MST_OK && i < n; i++) sorted[i] = family->ranks[i] = given ? given[i] : i;
    if (st == MST_OK) st = msi_group_check_ranks(sorted, n, world_size);
    for (int i = 0; st == MST_OK && i < n; i++)
        if (family->ranks[i] == family->rank) family->position = i;
    free(sorted);
    return st;
}

/* What the groups of the mesh are to be like, and the scratch that finding them takes. */
static mst_status prepare_groups(struct msi_mesh_family *family, const mst_mesh_options *options) {
    size_t n = (size_t)family->grid.ndim;
    family->dims = malloc(n * sizeof *family->dims);
    family->found = malloc(n * sizeof *family->found);
    if (options->backend) family->backend = strdup(options->backend);
    if (!family->dims || !family->found || (options->backend && !family->backend)) return msi_fail_memory();
    family->of = (mst_group_options){.timeout_ms = options->timeout_ms, .backend = family->backend};
    return MST_OK;
}

static struct msi_mesh_family *begin(const struct msi_world *world) {
    struct msi_mesh_family *family = calloc(1, sizeof *family);
    if (!family) return NULL;
    pthread_mutex_init(&family->lock, NULL);
    family->rank = world->rank;
    family->position = -1;
    family->world = world->all->handle;
    return family;
}

mst_status msi_mesh_make(struct msi_world *world, const int *shape, int ndim, const char *const *names,
                         const mst_mesh_options *options, mst_mesh **whole) {
    struct msi_mesh_family *family = begin(world);
    if (!family) return msi_fail_memory();
    struct msi_axes axes = {0};
    mst_status st = msi_grid_make(shape, ndim, &family->grid);
    if (st == MST_OK) st = msi_axes_make(names, ndim, &axes);
    if (st == MST_OK) st = check_size(family, &axes, options->ranks != NULL, world->size);
    if (st == MST_OK) st = seat_ranks(family, options->ranks, world->size);
    if (st == MST_OK) st = prepare_groups(family, options);
    if (st == MST_OK && family->position >= 0) st = msi_mesh_meet(family, world, &axes);
    if (st == MST_OK)
        st = msi_mesh_adopt(family, &axes, whole);
    else
        msi_axes_free(&axes);
    if (st == MST_OK) {
        family->all = *whole;
    } else {
        msi_group_end(&family->whole);
        free_family(family);
    }
    return st;
}
