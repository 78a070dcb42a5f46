/*
 * test_mesh.c - meshes as arithmetic, against an independent computation that knows nothing of strides:
 * coordinates are counted up like an odometer, and a group is found by comparing the coordinates of all
 * ranks.
 */
#include "harness.h"

#include "mesh/axes.h"
#include "mesh/spec.h"

enum { DIMS = 4, RANKS = 64 };

static const char *const NAMES[DIMS] = {"dp", "pp", "cp", "tp"};

/* Coordinates of all ranks, by counting. */
static void count_up(const int *sizes, int ndim, int n, int at[RANKS][DIMS]) {
    int now[DIMS] = {0};
    for (int r = 0; r < n; r++) {
        memcpy(at[r], now, sizeof now);
        for (int d = ndim - 1; d >= 0 && ++now[d] == sizes[d]; d--) now[d] = 0;
    }
}

static bool together(const int *a, const int *b, int ndim, unsigned along) {
    for (int d = 0; d < ndim; d++)
        if (!(along >> d & 1) && a[d] != b[d]) return false;
    return true;
}

static long compare_lines(const struct msi_grid *grid, int at[RANKS][DIMS], unsigned along) {
    int dims[DIMS], n = 0;
    for (int d = 0; d < grid->ndim; d++)
        if (along >> d & 1) dims[n++] = d;
    for (int r = 0; r < grid->size; r++) {
        int members = 0;
        for (int other = 0; other < grid->size; other++) {
            if (!together(at[r], at[other], grid->ndim, along)) continue;
            assert_int_equal(msi_line_at(grid, dims, n, r, members), other);
            if (other == r) assert_int_equal(msi_line_index(grid, dims, n, r), members);
            members++;
        }
        assert_int_equal(msi_line_size(grid, dims, n), members);
    }
    return grid->size;
}

static long compare(const int *sizes, int ndim) {
    struct msi_grid grid;
    int at[RANKS][DIMS];
    long lines = 0;
    assert_ok(msi_grid_make(sizes, ndim, &grid));
    count_up(sizes, ndim, grid.size, at);
    for (int r = 0; r < grid.size; r++)
        for (int d = 0; d < ndim; d++) assert_int_equal(msi_grid_coordinate(&grid, r, d), at[r][d]);
    for (unsigned along = 1; along < 1u << ndim; along++) lines += compare_lines(&grid, at, along);
    msi_grid_free(&grid);
    return lines;
}

/* All shapes that begin with these sizes. */
static void every_shape(int *sizes, int ndim, int product, long *shapes, long *lines) {
    if (ndim > 0) {
        *lines += compare(sizes, ndim);
        ++*shapes;
    }
    for (int size = 1; ndim < DIMS && size * product <= RANKS; size++) {
        sizes[ndim] = size;
        every_shape(sizes, ndim + 1, product * size, shapes, lines);
    }
}

static void test_every_shape(void **state) {
    int sizes[DIMS];
    long shapes = 0, lines = 0;
    (void)state;
    every_shape(sizes, 0, 1, &shapes, &lines);
    print_message("%ld shapes, %ld groups of a rank\n", shapes, lines);
    assert_int_equal(shapes, 64 + 280 + 796 + 1824);
}

static void test_facts(void **state) {
    struct msi_grid grid;
    (void)state;
    assert_ok(msi_grid_make((int[]){2, 4}, 2, &grid));
    assert_int_equal(grid.size, 8);
    assert_int_equal(msi_grid_coordinate(&grid, 5, 0), 1);
    assert_int_equal(msi_grid_coordinate(&grid, 5, 1), 1);
    for (int i = 0; i < 4; i++) assert_int_equal(msi_line_at(&grid, (int[]){1}, 1, 5, i), 4 + i);
    for (int i = 0; i < 2; i++) assert_int_equal(msi_line_at(&grid, (int[]){0}, 1, 5, i), 1 + 4 * i);
    msi_grid_free(&grid);
}

static void refuse_sizes(const int *sizes, int ndim, const char *part) {
    struct msi_grid grid = {.ndim = 77};
    assert_status(msi_grid_make(sizes, ndim, &grid), MST_ERR_INVALID);
    assert_contains(mst_error(), part);
    assert_int_equal(grid.ndim, 77);
}

static void test_wrong_sizes(void **state) {
    (void)state;
    refuse_sizes(NULL, 2, "it is NULL");
    refuse_sizes((int[]){2}, 0, "has 0 dimensions");
    refuse_sizes((int[]){2}, -3, "has -3 dimensions");
    refuse_sizes((int[]){2, 0}, 2, "dimension 1 of the mesh has size 0");
    refuse_sizes((int[]){-4, 2}, 2, "dimension 0 of the mesh has size -4");
    refuse_sizes((int[]){65536, 65536}, 2, "first 2 sizes");
    refuse_sizes((int[]){2147483647, 2}, 2, "above 2147483647");
}

static void test_many_dimensions(void **state) {
    enum { MANY = 200 };
    struct msi_grid grid;
    struct msi_axes axes;
    int sizes[MANY], dims[MANY], n;
    (void)state;
    for (int d = 0; d < MANY; d++) sizes[d] = d % 50 == 7 ? 3 : 1;
    assert_ok(msi_grid_make(sizes, MANY, &grid));
    assert_int_equal(grid.size, 81);
    assert_ok(msi_axes_make(NULL, MANY, &axes));
    struct msi_axes_names names = {&axes, NULL};
    assert_ok(msi_axes_dims(&names, "7,157,199", dims, &n));
    assert_int_equal(msi_line_size(&grid, dims, n), 9);
    /* Rank 80 is at 2, 2, 2, 2 along those that are longer than 1, whose strides are 27, 9, 3 and 1. */
    for (int i = 0; i < 9; i++) assert_int_equal(msi_line_at(&grid, dims, n, 80, i), i / 3 * 27 + 24 + i % 3);
    msi_axes_free(&axes);
    msi_grid_free(&grid);
}

static void refuse_names(const char *const *names, int n, const char *part) {
    struct msi_axes axes;
    assert_status(msi_axes_make(names, n, &axes), MST_ERR_INVALID);
    assert_contains(mst_error(), part);
}

static void test_wrong_names(void **state) {
    (void)state;
    refuse_names((const char *[]){"dp", "tp", "dp"}, 3, "dimensions 0 and 2 of the mesh are both named 'dp'");
    refuse_names((const char *[]){"dp", ""}, 2, "empty name");
    refuse_names((const char *[]){"dp", NULL}, 2, "has 2 dimensions but name 1 is NULL");
    refuse_names((const char *[]){"17"}, 1, "is a number");
    refuse_names((const char *[]){"a,b"}, 1, "comma");
    refuse_names((const char *[]){"a=b"}, 1, "'='");
    refuse_names((const char *[]){"a b"}, 1, "space");
}

static struct msi_axes four;
static struct msi_axes flat;
static const struct msi_axes_names with_flat = {&four, &flat}, without = {&four, NULL};

static int set_up(void **state) {
    (void)state;
    assert_ok(msi_axes_make(NAMES, DIMS, &four));
    assert_ok(msi_axes_add(&flat, "dp_cp", (int[]){0, 2}, 2));
    assert_ok(msi_axes_add(&flat, "seq", (int[]){1, 2}, 2));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    msi_axes_free(&four);
    msi_axes_free(&flat);
    return 0;
}

static void expect_dims(const struct msi_axes_names *names, const char *list, int n, const int *wanted) {
    int dims[DIMS], count;
    assert_ok(msi_axes_dims(names, list, dims, &count));
    assert_int_equal(count, n);
    assert_memory_equal(dims, wanted, (size_t)n * sizeof *wanted);
}

static void test_choosing(void **state) {
    struct msi_axes picked;
    struct msi_buf shown = {0};
    (void)state;
    expect_dims(&without, "tp", 1, (int[]){3});
    expect_dims(&without, "dp,cp", 2, (int[]){0, 2});
    expect_dims(&without, "0,cp,3", 3, (int[]){0, 2, 3});
    expect_dims(&with_flat, "dp_cp,tp", 3, (int[]){0, 2, 3});
    expect_dims(&with_flat, "dp,seq,tp", 4, (int[]){0, 1, 2, 3});
    assert_ok(msi_axes_pick(&with_flat, "dp,seq", &picked));
    msi_axes_join(&picked, '_', &shown);
    msi_buf_add_u8(&shown, '\0');
    assert_string_equal((const char *)shown.data, "dp_seq");
    msi_buf_free(&shown);
    msi_axes_free(&picked);
}

static void refuse_list(const struct msi_axes_names *names, const char *list, const char *part) {
    int dims[DIMS + DIMS], n;
    assert_status(msi_axes_dims(names, list, dims, &n), MST_ERR_INVALID);
    assert_contains(mst_error(), part);
}

static void test_wrong_choices(void **state) {
    (void)state;
    refuse_list(&without, NULL, "has 4 dimensions and the list names none");
    refuse_list(&without, "", "empty name");
    refuse_list(&without, "dp,", "empty name");
    refuse_list(&without, ",dp", "empty name");
    refuse_list(&without, "dp,,tp", "empty name");
    refuse_list(&without, "tp,dp", "the order of the mesh is dp,pp,cp,tp");
    refuse_list(&without, "dp,dp", "'dp' of the mesh is named twice");
    refuse_list(&without, "dq", "did you mean 'dp'?");
    refuse_list(&without, "ep", "it has dp,pp,cp,tp");
    refuse_list(&without, "4", "no dimension '4'");
    refuse_list(&without, "99999999999999999999", "no dimension '99999999999999999999'");
    refuse_list(&without, "dp_cp", "no dimension 'dp_cp'");
    refuse_list(&with_flat, "nothing", "it has dp,pp,cp,tp,dp_cp,seq");
    refuse_list(&with_flat, "dp_cp,pp", "out of order");
    refuse_list(&with_flat, "dp,dp_cp", "named twice");
    refuse_list(&with_flat, "dp_cp,seq", "named twice");
}

static void test_text(void **state) {
    struct msi_mesh_spec spec;
    (void)state;
    assert_ok(msi_mesh_parse("dp=2,x-1.y=16", &spec));
    assert_int_equal(spec.ndim, 2);
    assert_int_equal(spec.sizes[1], 16);
    assert_string_equal(spec.names[0], "dp");
    assert_string_equal(spec.names[1], "x-1.y");
    msi_mesh_spec_free(&spec);
    assert_ok(msi_mesh_parse("2,-3,2147483647", &spec));
    assert_int_equal(spec.ndim, 3);
    assert_int_equal(spec.sizes[1], -3); /* for the grid to refuse */
    assert_int_equal(spec.sizes[2], 2147483647);
    assert_null(spec.names);
    msi_mesh_spec_free(&spec);
    msi_mesh_spec_free(&spec);
}

static void test_wrong_text(void **state) {
    static const char *const texts[] = {
        "",      "dp",    "dp=",   "=2",         "dp=2,3", "3,dp=2", "dp=2,,tp=2",
        ",",     "dp=x",  "dp=2 ", "dp=-",       "-",      "dp=+2",  "2x2",
        "dp==2", "dp=2,", "dp=\n", "2147483648", "dp=1e3", " 2",     "99999999999999999999999999"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct msi_mesh_spec spec;
        if (msi_mesh_parse(texts[i], &spec) == MST_OK) fail_msg("'%s' is no mesh", texts[i]);
        assert_contains(mst_error(), "write a mesh as dp=2,tp=4");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape),   cmocka_unit_test(test_facts),
        cmocka_unit_test(test_wrong_sizes),   cmocka_unit_test(test_many_dimensions),
        cmocka_unit_test(test_wrong_names),   cmocka_unit_test(test_choosing),
        cmocka_unit_test(test_wrong_choices), cmocka_unit_test(test_text),
        cmocka_unit_test(test_wrong_text),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
