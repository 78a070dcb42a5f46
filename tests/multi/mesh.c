/*
 * mesh.c - meshes in a real world. Run it under a launcher; exits with 0 on success.
 *
 *   mesh groups   eight ranks: every group of dp=2,pp=2,tp=2, requested in another order on each rank
 *   mesh slices   eight ranks: slices and flattened meshes share groups
 *   mesh part     eight ranks: meshes of some of the ranks, in any order
 *   mesh wrong    any number: invalid arguments
 *   mesh differ   two ranks: they create different meshes
 *   mesh given    eight ranks: meshes of existing groups
 *   mesh life     any number: creating and freeing many times; threads; the end of the world
 */
#include <assert.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, DIMS = 3, LISTS = 7, THREADS = 4 };

static int me, size;

static void check(mst_status status, const char *what, int line) {
    if (status == MST_OK) return;
    fprintf(stderr, "rank %d: line %d: %s: %s: %s\n", me, line, what, mst_status_name(status), mst_error());
    exit(1);
}
#define CHECK(call) check(call, #call, __LINE__)

/* The call must fail with this status, and with this text in its message. */
static void expect_error(mst_status got, mst_status wanted, const char *part, const char *what, int line) {
    if (got == wanted && strstr(mst_error(), part)) return;
    fprintf(stderr, "rank %d: line %d: %s: %s, '%s'; wanted %s, '%s'\n", me, line, what, mst_status_name(got),
            got == MST_OK ? "" : mst_error(), mst_status_name(wanted), part);
    exit(1);
}
#define REFUSE(call, status, part) expect_error(call, status, part, #call, __LINE__)
#define MINUS(call, part)                                                                                    \
    expect_error((call) == -1 ? MST_ERR_INVALID : MST_OK, MST_ERR_INVALID, part, #call, __LINE__)

static mst_group *group_of(mst_mesh *mesh, const char *dims) {
    mst_group *group = NULL;
    CHECK(mst_mesh_get_group(mesh, dims, &group));
    return group;
}

static mst_mesh *slice_of(mst_mesh *mesh, const char *dims) {
    mst_mesh *slice = NULL;
    CHECK(mst_mesh_slice(mesh, dims, &slice));
    return slice;
}

/* The group has these ranks, and an all_reduce in it works. */
static void expect_group(mst_group *group, int n, const int *wanted) {
    int ranks[RANKS], sum = me, expected = 0, place = -1;
    assert(mst_get_process_group_ranks(group, ranks, RANKS) == n);
    for (int i = 0; i < n; i++) {
        assert(ranks[i] == wanted[i]);
        expected += wanted[i];
        if (wanted[i] == me) place = i;
    }
    assert(mst_get_rank(group) == place);
    CHECK(mst_all_reduce(&sum, 1, MST_I32, .group = group));
    assert(sum == expected);
}

static const char *const LIST[LISTS] = {"dp", "pp", "tp", "dp,pp", "dp,tp", "pp,tp", "dp,pp,tp"};
static const int ALONG[LISTS] = {4, 2, 1, 6, 5, 3, 7}; /* the bits of a rank are its coordinates */

static void expect_line(mst_mesh *mesh, int list) {
    int wanted[RANKS], n = 0;
    for (int r = 0; r < RANKS; r++)
        if ((r & ~ALONG[list]) == (me & ~ALONG[list])) wanted[n++] = r;
    expect_group(group_of(mesh, LIST[list]), n, wanted);
    assert(mst_mesh_size(mesh, LIST[list]) == n);
    assert(mst_mesh_get_local_rank(mesh, LIST[list]) == mst_get_rank(group_of(mesh, LIST[list])));
}

static mst_mesh *make_three(void) {
    mst_mesh *mesh = NULL;
    CHECK(mst_init_device_mesh(((const int[]){2, 2, 2}), DIMS, ((const char *const[]){"dp", "pp", "tp"}),
                               &mesh));
    return mesh;
}

static void test_groups(void) {
    mst_mesh *mesh = make_three();
    mst_group *others[LISTS], *again[DIMS];
    int at[DIMS], all[RANKS], shape[DIMS];
    assert(mst_mesh_ndim(mesh) == DIMS && mst_mesh_size(mesh, NULL) == RANKS);
    assert(mst_mesh_get_coordinate(mesh, at, DIMS) == DIMS);
    assert(at[0] == me / 4 && at[1] == me / 2 % 2 && at[2] == me % 2);
    assert(mst_mesh_rank_at(mesh, at) == me && mst_mesh_rank_at(mesh, (int[]){1, 0, 1}) == 5);
    assert(mst_mesh_shape(mesh, shape, DIMS) == DIMS && shape[0] == 2 && shape[2] == 2);
    assert(mst_mesh_ranks(mesh, all, RANKS) == RANKS && all[0] == 0 && all[7] == 7);
    assert(!strcmp(mst_mesh_dim_name(mesh, 1), "pp"));
    /*
     * Creates groups of the same ranks before and after the groups of the mesh, in another order on each
     * rank.
     */
    for (int i = 0; i < LISTS; i++) {
        int list = (i * 3 + me) % LISTS, ranks[RANKS], n = 0;
        mst_group *group = NULL;
        for (int r = 0; r < RANKS; r++)
            if ((r & ~ALONG[list]) == (me & ~ALONG[list])) ranks[n++] = r;
        if (me % 2) group = group_of(mesh, LIST[list]);
        CHECK(mst_new_group(ranks, n, &others[list]));
        if (group) assert(group == group_of(mesh, LIST[list]));
    }
    for (int list = 0; list < LISTS; list++) {
        int one = 1;
        expect_line(mesh, list);
        CHECK(mst_all_reduce(&one, 1, MST_I32, .group = others[list]));
        assert(one == mst_mesh_size(mesh, LIST[list]));
    }
    CHECK(mst_mesh_get_all_groups(mesh, again, DIMS));
    for (int i = 0; i < DIMS; i++) {
        char number[2] = {(char)('0' + i), '\0'};
        assert(again[i] == group_of(mesh, LIST[i]) && again[i] == group_of(mesh, number));
        assert(mst_mesh_get_local_rank(mesh, number) == at[i]);
    }
    CHECK(mst_mesh_free(mesh));
    CHECK(mst_init_device_mesh_from("dp=2,pp=2,tp=2", &mesh, .backend = "native", .timeout_ms = 20000));
    for (int list = 0; list < LISTS; list++) expect_line(mesh, list);
    CHECK(mst_mesh_free(mesh));
}

static void test_slices(void) {
    mst_mesh *mesh, *flat, *again;
    int at[DIMS], ranks[RANKS];
    CHECK(mst_init_device_mesh_from("dp=2,cp=2,tp=2", &mesh));
    mst_mesh *dp_tp = slice_of(mesh, "dp,tp");
    assert(mst_mesh_ndim(dp_tp) == 2 && mst_mesh_size(dp_tp, NULL) == 4 && mst_mesh_size(dp_tp, "tp") == 2);
    assert(mst_mesh_get_coordinate(dp_tp, at, 2) == 2 && at[0] == me / 4 && at[1] == me % 2);
    assert(mst_mesh_ranks(dp_tp, ranks, 4) == 4);
    for (int i = 0; i < 4; i++) assert(ranks[i] == i / 2 * 4 + (me & 2) + i % 2);
    assert(mst_mesh_rank_at(dp_tp, (int[]){1, 0}) == 4 + (me & 2));
    assert(slice_of(mesh, "dp,tp") == dp_tp && slice_of(mesh, "dp,cp,tp") == mesh);
    assert(slice_of(dp_tp, "tp") == slice_of(mesh, "tp"));
    assert(group_of(dp_tp, "tp") == group_of(mesh, "tp") && group_of(dp_tp, "1") == group_of(mesh, "2"));
    assert(group_of(slice_of(mesh, "cp"), NULL) == group_of(mesh, "cp"));
    assert(mst_mesh_get_local_rank(slice_of(mesh, "cp"), NULL) == me / 2 % 2);

    CHECK(mst_mesh_flatten(dp_tp, NULL, &flat));
    assert(!strcmp(mst_mesh_dim_name(flat, 0), "dp_tp") && mst_mesh_ndim(flat) == 1);
    assert(mst_mesh_size(flat, NULL) == 4 && mst_mesh_get_coordinate(flat, at, 1) == 1 &&
           at[0] == me / 4 * 2 + me % 2);
    expect_group(group_of(flat, NULL), 4, ranks);
    assert(group_of(flat, NULL) == group_of(mesh, "dp_tp") &&
           group_of(mesh, "dp_tp") == group_of(mesh, "dp,tp"));
    CHECK(mst_mesh_flatten(dp_tp, NULL, &again));
    assert(again == flat && slice_of(mesh, "dp_tp") == flat);
    CHECK(mst_mesh_flatten(flat, NULL, &again));
    assert(again == flat);
    CHECK(mst_mesh_flatten(slice_of(mesh, "dp,cp"), "fsdp", &again));
    mst_mesh *both = slice_of(mesh, "fsdp,tp");
    assert(mst_mesh_ndim(both) == 2 && mst_mesh_size(both, "fsdp") == 4 &&
           mst_mesh_size(both, NULL) == RANKS);
    expect_group(group_of(both, "fsdp"), 4, (int[]){me % 2, 2 + me % 2, 4 + me % 2, 6 + me % 2});
    CHECK(mst_mesh_flatten(both, "world", &again));
    assert(group_of(again, NULL) == group_of(mesh, "dp,cp,tp"));
    REFUSE(mst_mesh_flatten(dp_tp, "cp", &again), MST_ERR_INVALID, "'cp' is already a dimension of the mesh");
    REFUSE(mst_mesh_flatten(dp_tp, "fsdp", &again), MST_ERR_INVALID,
           "already names other flattened dimensions");
    REFUSE(mst_mesh_flatten(dp_tp, "a b", &again), MST_ERR_INVALID, "space");
    REFUSE(mst_mesh_slice(dp_tp, "fsdp", &again), MST_ERR_INVALID, "no dimension 'fsdp'");
    REFUSE(mst_mesh_slice(dp_tp, "cp", &again), MST_ERR_INVALID, "it has dp,tp");
    CHECK(mst_mesh_free(dp_tp)); /* no effect: a slice lives as long as its mesh */
    assert(mst_mesh_ndim(dp_tp) == 2);
    CHECK(mst_mesh_free(mesh));
    MINUS(mst_mesh_ndim(dp_tp), "the mesh was freed");
    MINUS(mst_mesh_ndim(flat), "the mesh was freed");
}

static void test_part(void) {
    static const int order[] = {6, 1, 4, 3};
    mst_mesh *mesh, *slice;
    mst_group *group;
    int at[2], ranks[4], place = -1;
    for (int i = 0; i < 4; i++)
        if (order[i] == me) place = i;
    CHECK(mst_init_device_mesh_from("dp=2,tp=2", &mesh, .ranks = order));
    assert(mst_mesh_ranks(mesh, ranks, 4) == 4 && !memcmp(ranks, order, sizeof order));
    assert(mst_mesh_rank_at(mesh, (int[]){1, 0}) == 4);
    CHECK(mst_mesh_slice(mesh, "tp", &slice));
    if (place < 0) {
        MINUS(mst_mesh_get_coordinate(mesh, at, 2), "is not in the mesh");
        MINUS(mst_mesh_get_local_rank(mesh, "tp"), "is not in the mesh");
        MINUS(mst_mesh_ranks(slice, ranks, 4), "is not in the mesh");
        REFUSE(mst_mesh_get_group(mesh, "tp", &group), MST_ERR_NOT_MEMBER, "whose 4 ranks begin with 6");
        REFUSE(mst_mesh_get_all_groups(mesh, &group, 1), MST_ERR_NOT_MEMBER, "is not in the mesh");
    } else {
        int mate = order[place ^ 1], other = order[place ^ 2];
        assert(mst_mesh_get_coordinate(mesh, at, 2) == 2 && at[0] == place / 2 && at[1] == place % 2);
        /* Groups are sorted: rank 6 comes after rank 1. */
        assert(mst_mesh_get_local_rank(mesh, "tp") == (me > mate) &&
               mst_mesh_get_local_rank(mesh, "dp") == (me > other));
        expect_group(group_of(mesh, "tp"), 2, me < mate ? (int[]){me, mate} : (int[]){mate, me});
        expect_group(group_of(mesh, "dp"), 2, me < other ? (int[]){me, other} : (int[]){other, me});
        expect_group(group_of(mesh, "dp,tp"), 4, (int[]){1, 3, 4, 6});
        assert(mst_mesh_ranks(slice, ranks, 4) == 2 && ranks[0] == order[place & 2] &&
               ranks[1] == order[place | 1]);
    }
    CHECK(mst_mesh_free(mesh));
    /* Two halves, each created by its own ranks only, a different number of times. */
    int half[4], first = me / 4 * 4;
    for (int i = 0; i < 4; i++) half[i] = first + i;
    for (int round = 0; round <= me / 4 * 3; round++) {
        CHECK(mst_init_device_mesh((int[]){4}, 1, NULL, &mesh, .ranks = half));
        expect_group(group_of(mesh, NULL), 4, half);
        assert(group_of(mesh, NULL) == group_of(mesh, "0") && !strcmp(mst_mesh_dim_name(mesh, 0), "0"));
        CHECK(mst_mesh_free(mesh));
    }
}

static void test_wrong(void) {
    mst_mesh *mesh = NULL, *slice;
    mst_group *group, *few[1];
    char part[96];
    const int line[] = {size, 1};
    snprintf(part, sizeof part, "the mesh dp=%d,tp=2 has %d ranks but the world has %d", size, 2 * size,
             size);
    REFUSE(mst_init_device_mesh((((int[]){size, 2})), 2, ((const char *const[]){"dp", "tp"}), &mesh),
           MST_ERR_INVALID, part);
    snprintf(part, sizeof part, "let the product of the sizes be %d, or start %d ranks", size, 2 * size);
    assert(strstr(mst_error(), part));
    if (size > 1) {
        REFUSE(mst_init_device_mesh_from("dp=1,tp=1", &mesh), MST_ERR_INVALID,
               "or start 1 rank, or name the ranks of the mesh with .ranks");
        REFUSE(mst_init_device_mesh_from("dp=2", &mesh, .ranks = ((int[]){1, 1})), MST_ERR_INVALID,
               "rank 1 is named twice");
    }
    REFUSE(mst_init_device_mesh(line, 2, NULL, &mesh, .ranks = ((int[]){-1, 0, 1, 2, 3, 4, 5, 6})),
           MST_ERR_INVALID, "rank -1 is not in this world");
    REFUSE(mst_init_device_mesh(NULL, 2, NULL, &mesh), MST_ERR_INVALID, "it is NULL");
    REFUSE(mst_init_device_mesh(line, 0, NULL, &mesh), MST_ERR_INVALID, "has 0 dimensions");
    REFUSE(mst_init_device_mesh(((int[]){size, 0}), 2, NULL, &mesh), MST_ERR_INVALID,
           "dimension 1 of the mesh has size 0");
    REFUSE(mst_init_device_mesh(((int[]){-1, size}), 2, NULL, &mesh), MST_ERR_INVALID,
           "dimension 0 of the mesh has size -1");
    REFUSE(mst_init_device_mesh(line, 2, ((const char *const[]){"dp", "dp"}), &mesh), MST_ERR_INVALID,
           "both named 'dp'");
    REFUSE(mst_init_device_mesh(line, 2, ((const char *const[]){"dp", ""}), &mesh), MST_ERR_INVALID,
           "empty name");
    REFUSE(mst_init_device_mesh(line, 2, ((const char *const[]){"dp", NULL}), &mesh), MST_ERR_INVALID,
           "give as many names as sizes");
    REFUSE(mst_init_device_mesh(line, 2, NULL, NULL), MST_ERR_INVALID, "mesh is NULL");
    REFUSE(mst_init_device_mesh(line, 2, NULL, &mesh, .timeout_ms = -1), MST_ERR_INVALID, "timeout");
    REFUSE(mst_init_device_mesh_from("dp=two", &mesh), MST_ERR_INVALID, "write a mesh as");
    REFUSE(mst_init_device_mesh_from(NULL, &mesh), MST_ERR_INVALID, "text is NULL");
    REFUSE(mst_init_device_mesh(line, 2, NULL, &mesh, .backend = "none such"), MST_ERR_INVALID, "none such");
    assert(!mesh);

    CHECK(mst_initialize_mesh_device(line, 2, ((const char *const[]){"dp", "tp"}), &mesh));
    REFUSE(mst_mesh_get_group(NULL, "dp", &group), MST_ERR_INVALID, "mesh is NULL");
    REFUSE(mst_mesh_get_group(mesh, NULL, &group), MST_ERR_INVALID,
           "has 2 dimensions and the list names none");
    REFUSE(mst_mesh_get_group(mesh, "dp", NULL), MST_ERR_INVALID, "group is NULL");
    REFUSE(mst_mesh_get_group(mesh, "tq", &group), MST_ERR_INVALID, "did you mean 'tp'?");
    REFUSE(mst_mesh_get_group(mesh, "2", &group), MST_ERR_INVALID, "no dimension '2', it has dp,tp");
    REFUSE(mst_mesh_get_group(mesh, "tp,dp", &group), MST_ERR_INVALID, "the order of the mesh is dp,tp");
    REFUSE(mst_mesh_get_all_groups(mesh, few, 1), MST_ERR_INVALID,
           "the array has 1 groups, but the mesh has 2");
    REFUSE(mst_mesh_get_all_groups(mesh, NULL, 2), MST_ERR_INVALID, "the array has 0 groups");
    REFUSE(mst_mesh_slice(mesh, "tp,dp", &slice), MST_ERR_INVALID, "the order of the mesh is dp,tp");
    REFUSE(mst_mesh_slice(mesh, "dp,dp", &slice), MST_ERR_INVALID, "named twice");
    REFUSE(mst_mesh_slice(mesh, "", &slice), MST_ERR_INVALID, "empty name");
    REFUSE(mst_mesh_slice(mesh, NULL, &slice), MST_ERR_INVALID, "dims is NULL");
    REFUSE(mst_mesh_slice(mesh, "dp", NULL), MST_ERR_INVALID, "slice is NULL");
    REFUSE(mst_mesh_flatten(mesh, NULL, NULL), MST_ERR_INVALID, "flat is NULL");
    MINUS(mst_mesh_rank_at(mesh, (int[]){size, 0}), "is not in dimension 'dp' of the mesh, whose size is");
    MINUS(mst_mesh_rank_at(mesh, (int[]){0, -1}), "coordinate -1 is not in dimension 'tp'");
    MINUS(mst_mesh_rank_at(mesh, NULL), "coordinate is NULL");
    MINUS(mst_mesh_size(mesh, "xp"), "no dimension 'xp'");
    MINUS(mst_mesh_get_local_rank(mesh, NULL), "the list names none");
    assert(!mst_mesh_dim_name(mesh, 2) &&
           strstr(mst_error(), "the mesh has 2 dimensions; dimension 2 does not exist"));
    CHECK(mst_mesh_free(NULL));
    CHECK(mst_mesh_free(mesh));
    REFUSE(mst_mesh_free(mesh), MST_ERR_STATE, "the mesh was freed");
    REFUSE(mst_mesh_get_group(mesh, "dp", &group), MST_ERR_STATE, "use a mesh after it was created");
}

static void test_differ(void) {
    mst_mesh *mesh;
    if (me == 0) CHECK(mst_init_device_mesh_from("dp=2,tp=1", &mesh));
    CHECK(mst_barrier());
    if (me == 1) {
        REFUSE(mst_init_device_mesh_from("dp=1,tp=2", &mesh), MST_ERR_MISMATCH,
               ") created the mesh dp=1,tp=2, but rank 0 (");
        assert(mst_last_error()->culprit == 0 && strstr(mst_error(), ") created the mesh dp=2,tp=1"));
    }
    CHECK(mst_barrier());
    /* In the second mesh they differ only in the order of the ranks. */
    mst_status st = mst_init_device_mesh_from("x=2", &mesh, .ranks = me == 0 ? (int[]){0, 1} : (int[]){1, 0});
    int failed = st != MST_OK;
    if (failed) REFUSE(st, MST_ERR_MISMATCH, "of ranks 1,0 (order ");
    CHECK(mst_all_reduce(&failed, 1, MST_I32));
    assert(failed == 1); /* on the rank that comes second */
    CHECK(mst_init_device_mesh_from("x=2", &mesh));
    expect_group(group_of(mesh, "x"), 2, (int[]){0, 1});
}

static void *ask(void *context) {
    mst_mesh *mesh = context, *slice, *flat;
    for (int i = 0; i < 50; i++) {
        mst_group *group;
        CHECK(mst_mesh_get_group(mesh, i % 2 ? "a" : "b", &group));
        CHECK(mst_mesh_slice(mesh, i % 2 ? "a" : "b", &slice));
        CHECK(mst_mesh_flatten(mesh, NULL, &flat));
        assert(mst_mesh_get_local_rank(flat, NULL) == me && mst_mesh_size(mesh, "a_b") == size);
    }
    return NULL;
}

static void test_life(void) {
    pthread_t threads[THREADS];
    mst_mesh *mesh, *kept, *slice;
    mst_group *group;
    const int shape[] = {1, size};
    for (int i = 0; i < 200; i++) {
        int sum = 1;
        CHECK(mst_init_device_mesh(shape, 2, ((const char *const[]){"a", "b"}), &mesh));
        if (i % 10 == 0)
            CHECK(mst_all_reduce(&sum, 1, MST_I32, .group = group_of(mesh, i % 20 ? "b" : "a,b")));
        assert(i % 10 || sum == size);
        CHECK(mst_mesh_free(mesh));
    }
    CHECK(mst_init_device_mesh(shape, 2, ((const char *const[]){"a", "b"}), &mesh));
    for (int i = 0; i < THREADS; i++) assert(!pthread_create(&threads[i], NULL, ask, mesh));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    group = group_of(mesh, "b");
    CHECK(mst_barrier(.group = group));
    CHECK(mst_mesh_free(mesh));
    REFUSE(mst_barrier(.group = group), MST_ERR_STATE, "destroyed");

    mst_group *all[2] = {NULL, NULL};
    CHECK(mst_init_device_mesh(shape, 2, NULL, &mesh));
    CHECK(mst_destroy_process_group(group_of(mesh, "1")));
    REFUSE(mst_mesh_get_all_groups(mesh, all, 2), MST_ERR_STATE, "destroyed, alone");
    assert(!all[0] && !all[1]); /* not written on failure */
    CHECK(mst_mesh_free(mesh));

    CHECK(mst_init_device_mesh(shape, 2, NULL, &kept));
    CHECK(mst_mesh_slice(kept, "1", &slice));
    group = group_of(slice, NULL);
    CHECK(mst_barrier(.group = group));
    CHECK(mst_destroy_process_group(NULL));
    REFUSE(mst_mesh_get_group(kept, "1", &group), MST_ERR_STATE, "destroyed, alone or with its world");
    REFUSE(mst_mesh_get_group(kept, "0", &group), MST_ERR_STATE, "destroyed");
    assert(mst_mesh_size(slice, NULL) == size && mst_mesh_get_local_rank(slice, NULL) == me);
    CHECK(mst_mesh_free(kept));
    REFUSE(mst_init_device_mesh(shape, 2, NULL, &kept), MST_ERR_STATE, "call mst_init first");
}

/* This rank's group of a line: the ranks first, first + step, … */
static mst_group *line(int first, int step, int n) {
    int ranks[RANKS];
    mst_group *group;
    for (int i = 0; i < n; i++) ranks[i] = first + i * step;
    CHECK(mst_new_group(ranks, n, &group));
    return group;
}

static void expect_mesh(mst_mesh *mesh, const int *coordinate, const int *ranks) {
    int at[DIMS], all[RANKS], n = mst_mesh_ndim(mesh);
    assert(mst_mesh_get_coordinate(mesh, at, DIMS) == n);
    for (int d = 0; d < n; d++) assert(at[d] == coordinate[d]);
    assert(mst_mesh_rank_at(mesh, at) == me);
    n = mst_mesh_ranks(mesh, all, RANKS);
    for (int i = 0; i < n; i++) assert(all[i] == ranks[i]);
}

/* The mesh returns the given groups, and makes those of several dimensions. */
static void given_rows_and_columns(void) {
    static const int ascending[] = {0, 1, 2, 3, 4, 5, 6, 7};
    mst_group *groups[] = {line(me % 4, 4, 2), line(me / 4 * 4, 1, 4)}, *all[2];
    mst_mesh *mesh;
    CHECK(mst_mesh_from_groups(groups, 2, &mesh, .dim_names = (const char *[]){"dp", "tp"}));
    expect_mesh(mesh, (int[]){me / 4, me % 4}, ascending);
    assert(group_of(mesh, "dp") == groups[0] && group_of(mesh, "1") == groups[1]);
    CHECK(mst_mesh_get_all_groups(mesh, all, 2));
    assert(all[0] == groups[0] && all[1] == groups[1]);
    assert(mst_mesh_get_local_rank(mesh, "tp") == me % 4 && mst_mesh_size(mesh, NULL) == 8);
    assert(group_of(slice_of(mesh, "tp"), NULL) == groups[1]);
    expect_group(group_of(mesh, "dp,tp"), 8, ascending);
    CHECK(mst_mesh_free(mesh));
    CHECK(mst_barrier(.group = groups[0])); /* the groups are the program's */
    CHECK(mst_destroy_process_group(groups[0]));
    CHECK(mst_destroy_process_group(groups[1]));
}

/* Three dimensions, of which one is in descending order; the world; a part of the world. */
static void given_other_shapes(void) {
    mst_group *groups[] = {line(me % 4, 4, 2), line(me / 4 * 4 + me % 2, 2, 2), NULL}, *world = NULL;
    mst_mesh *mesh;
    CHECK(mst_split_group(me / 2, -me, &groups[2]));
    CHECK(mst_mesh_from_groups(groups, 3, &mesh));
    expect_mesh(mesh, (int[]){me / 4, me / 2 % 2, 1 - me % 2}, (int[]){1, 0, 3, 2, 5, 4, 7, 6});
    assert(mst_mesh_get_local_rank(mesh, "2") == mst_get_rank(groups[2]));
    assert(group_of(mesh, "2") == groups[2] && mst_get_rank(groups[2]) == 1 - me % 2);
    CHECK(mst_mesh_free(mesh));
    CHECK(mst_mesh_from_groups(&world, 1, &mesh, .dim_names = (const char *[]){"dp"}));
    expect_mesh(mesh, &me, (int[]){0, 1, 2, 3, 4, 5, 6, 7});
    mst_group *same = group_of(mesh, "dp");
    assert(mst_get_world_size(same) == 8 && mst_get_rank(same) == me);
    CHECK(mst_mesh_free(mesh));
    CHECK(mst_barrier());
    if (me >= 4) {
        mst_group *part[] = {line(4 + me % 2, 2, 2), line(me / 2 * 2, 1, 2)};
        CHECK(mst_mesh_from_groups(part, 2, &mesh));
        expect_mesh(mesh, (int[]){(me - 4) / 2, me % 2}, (int[]){4, 5, 6, 7});
        CHECK(mst_destroy_process_group(part[0]));
        REFUSE(mst_mesh_get_group(mesh, "0", &same), MST_ERR_STATE, "was destroyed");
        CHECK(mst_mesh_free(mesh));
    }
}

/* All ranks get an error that names a rank. */
static void given_wrongly(void) {
    mst_group *rows = line(me / 4 * 4, 1, 4), *columns = line(me % 4, 4, 2), *pair = line(me / 2 * 2, 1, 2);
    mst_group *alone = line(0, 1, 1), *turned, *columns_of_four = line(me / 4 * 4 + me % 2, 2, 2);
    mst_mesh *mesh = NULL;
    REFUSE(mst_mesh_from_groups(NULL, 1, &mesh), MST_ERR_INVALID, "groups is NULL");
    REFUSE(mst_mesh_from_groups(&rows, 0, &mesh), MST_ERR_INVALID, "ndim is 0");
    REFUSE(mst_mesh_from_groups(&rows, 1, NULL), MST_ERR_INVALID, "mesh is NULL");
    if (me) REFUSE(mst_mesh_from_groups(&alone, 1, &mesh), MST_ERR_NOT_MEMBER, "is not in");
    REFUSE(mst_mesh_from_groups((mst_group *[]){rows, NULL}, 2, &mesh), MST_ERR_INVALID,
           "more than the 8 ranks");
    REFUSE(mst_mesh_from_groups((mst_group *[]){pair, pair}, 2, &mesh), MST_ERR_MISMATCH,
           "in the mesh twice");
    /* Odd ranks give a group of their own as the first dimension. */
    mst_group *first[] = {me % 2 ? line(me, 1, 1) : columns_of_four, pair};
    REFUSE(mst_mesh_from_groups(first, 2, &mesh), MST_ERR_MISMATCH, "dimension 0 has ");
    /* The second row of each four is in the other order, and the columns are not. */
    CHECK(mst_split_group(me / 2, me % 4 / 2 ? -me : me, &turned));
    mst_group *second[] = {columns_of_four, turned};
    REFUSE(mst_mesh_from_groups(second, 2, &mesh), MST_ERR_MISMATCH, "rank ");
    assert(mst_last_error()->culprit >= 0);
    mst_group *third[] = {columns, rows};
    CHECK(mst_mesh_from_groups(third, 2, &mesh)); /* the groups are still usable */
    CHECK(mst_mesh_free(mesh));
    if (me == 5)
        REFUSE(mst_mesh_from_groups(third, 2, NULL), MST_ERR_INVALID, "mesh is NULL");
    else
        REFUSE(mst_mesh_from_groups(third, 2, &mesh), MST_ERR_MISMATCH, "rank 5 ");
    CHECK(mst_mesh_from_groups(third, 2, &mesh));
    CHECK(mst_mesh_free(mesh));
    /* Rank 5 does not know its column: it tells its row, which tells the other columns. */
    if (me == 5) third[0] = line(5, 1, 1);
    if (me == 5) CHECK(mst_destroy_process_group(third[0]));
    mst_status wanted = me == 5 ? MST_ERR_STATE : me == 1 ? MST_ERR_STALLED : MST_ERR_MISMATCH;
    REFUSE(mst_mesh_from_groups(third, 2, &mesh, .timeout_ms = me == 1 ? 1000 : 20000), wanted,
           me == 1 ? "" : "destroyed");
}

static void given(void) {
    assert(size == RANKS);
    given_rows_and_columns();
    given_other_shapes();
    CHECK(mst_barrier());
    given_wrongly();
    CHECK(mst_barrier());
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
        int ranks;
    } tests[] = {{"groups", test_groups, RANKS}, {"slices", test_slices, RANKS}, {"part", test_part, RANKS},
                 {"wrong", test_wrong, 0},       {"differ", test_differ, 2},     {"life", test_life, 0},
                 {"given", given, RANKS}};
    CHECK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc != 2 || strcmp(argv[1], tests[i].name)) continue;
        assert(!tests[i].ranks || tests[i].ranks == size);
        tests[i].run();
        if (mst_is_initialized()) CHECK(mst_destroy_process_group(NULL));
        printf("ok\n");
        return 0;
    }
    fprintf(stderr, "mesh: expected groups, slices, part, wrong, differ, given or life\n");
    return 2;
}
