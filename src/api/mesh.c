/* mesh.c - the public calls that make and end meshes. See mesh.h. */
#include "api/mesh.h"

#include "base/error.h"
#include "base/handles.h"
#include "base/hash.h"
#include "base/options.h"
#include "mesh/spec.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS_SHOWN = 16 };

mst_mesh *msi_api_mesh(const char *name, const mst_mesh *handle) {
    mst_mesh *mesh = handle && msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
    msi_call_begin(name, NULL, mesh ? mesh->family->rank : -1);
    if (!handle)
        msi_fail(MST_ERR_INVALID, "make one with mst_init_device_mesh", "mesh is NULL");
    else if (!mesh)
        msi_fail(MST_ERR_STATE, "use a mesh after it was made and before it is freed",
                 "the mesh was freed, or is none");
    return mesh;
}

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
    free(family->dims);
    free(family->ranks);
    free(family->backend);
    free(family);
}

/* Whether the mesh has as many places as there are ranks for it. */
static mst_status check_size(const struct msi_mesh_family *family, const struct msi_axes *axes, bool given,
                             int world_size) {
    int n = family->grid.size;
    if (n == world_size || (n < world_size && given)) return MST_OK;
    struct msi_buf shown = {0};
    char remedy[128];
    msi_axes_show(axes, &family->grid, &shown);
    snprintf(remedy, sizeof remedy, "let the product of the sizes be %d, or %s %d ranks%s", world_size,
             n > world_size ? "start" : "say with .ranks which", n, n > world_size ? "" : " take part");
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

/* What the ranks must agree on, as text. */
static void describe(const struct msi_mesh_family *family, const struct msi_axes *axes, struct msi_buf *out) {
    static const uint64_t seed[2] = {5, 6};
    const int *ranks = family->ranks;
    int n = family->grid.size, ascending = 1;
    msi_buf_add_format(out, "the mesh ");
    msi_axes_show(axes, &family->grid, out);
    while (ascending < n && ranks[ascending] > ranks[ascending - 1]) ascending++;
    if (ascending == n) return;
    for (int i = 0; i < n && i < RANKS_SHOWN; i++)
        msi_buf_add_format(out, "%s%d", i ? "," : " of ranks ", ranks[i]);
    msi_buf_add_format(out, "%s (order %016llx)", n > RANKS_SHOWN ? ",…" : "",
                       (unsigned long long)msi_hash(ranks, (size_t)n * sizeof *ranks, seed));
}

/* The group of all its ranks, by whose id the others are known; and says to them what it is. */
static mst_status meet(struct msi_mesh_family *family, struct msi_world *world, const struct msi_axes *axes) {
    struct msi_buf name = {0}, what = {0};
    int n = family->grid.size, *sorted = malloc((size_t)n * sizeof *sorted);
    msi_axes_join(axes, '_', &name);
    describe(family, axes, &what);
    msi_buf_add_u8(&name, '\0');
    msi_buf_add_u8(&what, '\0');
    mst_status st = sorted && !name.failed && !what.failed ? MST_OK : msi_fail_memory();
    mst_group *whole = NULL;
    if (st == MST_OK) {
        memcpy(sorted, family->ranks, (size_t)n * sizeof *sorted);
        mst_group_options options = family->of;
        options.name = (const char *)name.data;
        st = msi_group_check_ranks(sorted, n, world->size);
        if (st == MST_OK)
            st = msi_group_make(world, sorted, n, &(struct msi_group_label){"mesh", false}, &options, &whole);
    }
    if (st == MST_OK) {
        struct msi_wait wait = {msi_deadline(whole->timeout_ms), NULL};
        st = msi_group_declare(whole, (const char *)what.data, &wait);
        if (st != MST_OK) {
            msi_group_forget(whole);
            msi_group_free(whole);
        }
    }
    if (st == MST_OK) {
        family->whole = whole->handle;
        snprintf(family->id, sizeof family->id, "%s", whole->id);
    }
    free(sorted);
    msi_buf_free(&name);
    msi_buf_free(&what);
    return st;
}

static mst_status make(const int *shape, int ndim, const char *const *names, const mst_group *world,
                       const mst_mesh_options *options, mst_mesh **mesh) {
    struct msi_mesh_family *family = calloc(1, sizeof *family);
    if (!family) return msi_fail_memory();
    pthread_mutex_init(&family->lock, NULL);
    family->rank = world->world->rank;
    family->position = -1;
    family->world = world->world->all->handle;
    struct msi_axes axes = {0};
    mst_mesh *whole = NULL;
    mst_status st = msi_grid_make(shape, ndim, &family->grid);
    if (st == MST_OK) st = msi_axes_make(names, ndim, &axes);
    if (st == MST_OK) st = check_size(family, &axes, options->ranks != NULL, world->world->size);
    if (st == MST_OK) st = seat_ranks(family, options->ranks, world->world->size);
    if (st == MST_OK && !(family->dims = malloc((size_t)ndim * sizeof *family->dims))) st = msi_fail_memory();
    if (st == MST_OK && options->backend && !(family->backend = strdup(options->backend)))
        st = msi_fail_memory();
    family->of = (mst_group_options){.timeout_ms = options->timeout_ms, .backend = family->backend};
    if (st == MST_OK && family->position >= 0) st = meet(family, world->world, &axes);
    if (st == MST_OK)
        st = msi_mesh_adopt(family, &axes, &whole);
    else
        msi_axes_free(&axes);
    if (st == MST_OK) {
        *mesh = whole->handle;
    } else {
        msi_group_end(&family->whole);
        free_family(family);
    }
    return st;
}

/* Takes the options and finds the world. */
static mst_status begin(const char *name, const mst_mesh_options *given, mst_mesh *const *mesh,
                        mst_mesh_options *options, mst_group **world) {
    mst_status st = msi_options_begin(name, options, sizeof *options, given);
    if (st == MST_OK) st = msi_check_timeout(options->timeout_ms);
    if (st != MST_OK) return st;
    *world = msi_api_group(name, &options->site, options->world);
    if (!*world) return MST_ERR_STATE;
    return mesh ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "mesh is NULL");
}

mst_status mst_init_device_mesh_with(const int *shape, int ndim, const char *const *names, mst_mesh **mesh,
                                     const mst_mesh_options *given) {
    mst_mesh_options options;
    mst_group *world;
    mst_status st = begin("mst_init_device_mesh", given, mesh, &options, &world);
    if (st != MST_OK) return st;
    uint64_t entered = msi_call_enter(world->size, 0, 0);
    return msi_call_leave(entered, make(shape, ndim, names, world, &options, mesh));
}

mst_status mst_init_device_mesh_from_with(const char *text, mst_mesh **mesh, const mst_mesh_options *given) {
    mst_mesh_options options;
    mst_group *world;
    struct msi_mesh_spec spec;
    mst_status st = begin("mst_init_device_mesh_from", given, mesh, &options, &world);
    if (st == MST_OK && !text)
        st = msi_fail(MST_ERR_INVALID, "give it as in \"dp=2,tp=2\"", "the mesh's text is NULL");
    if (st == MST_OK) st = msi_mesh_parse(text, &spec);
    if (st != MST_OK) return st;
    uint64_t entered = msi_call_enter(world->size, 0, 0);
    st = make(spec.sizes, spec.ndim, (const char *const *)spec.names, world, &options, mesh);
    msi_mesh_spec_free(&spec);
    return msi_call_leave(entered, st);
}

mst_status mst_mesh_free(mst_mesh *handle) {
    if (!handle) return MST_OK;
    mst_mesh *mesh = msi_api_mesh("mst_mesh_free", handle);
    if (!mesh) return MST_ERR_STATE;
    struct msi_mesh_family *family = mesh->family;
    if (mesh != family->members[0]) return MST_OK;
    if (msi_comm_in_callback())
        return msi_fail(MST_ERR_STATE, "free it after the callback has returned",
                        "a callback of a work cannot end the groups of a mesh");
    if (msi_handle_alive(family->world)) {
        if (!msi_api_group("mst_mesh_free", NULL, family->world)) return MST_ERR_STATE;
        for (int i = 0; i < family->n_groups; i++) msi_group_end(&family->groups[i].handle);
        msi_group_end(&family->whole);
    }
    free_family(family);
    return MST_OK;
}
