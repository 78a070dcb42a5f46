/* test_compose_forms.c - what operations ask for, what is refused and how, and the names of kinds and
 * backends. */
#include "compose_case.h"

#define BIT(kind) (1u << MST_KIND_##kind)

static mst_backend_capability rows[4];

static const mst_backend_capability *give_rows(void) {
    return rows;
}

static const mst_backend table = {.name = "simulated", .rows = give_rows};

/* Pieces of memory that nobody looks at; *left: how many there are. */
static void *scratch(void *context, mst_memory memory, size_t bytes) {
    static _Alignas(64) char pieces[16][4096];
    static unsigned next;
    int *left = context;
    (void)memory;
    assert_in_range(bytes, 1, sizeof *pieces);
    return left && (*left)-- == 0 ? NULL : pieces[next++ % COUNT_OF(pieces)];
}

static struct msi_composer new_composer(int rank, int ranks, int *left) {
    return (struct msi_composer){
        .table = &table, .rank = rank, .ranks = ranks, .scratch = scratch, .context = left};
}

static void kinds_have_names(void **state) {
    (void)state;
    uint32_t kinds = 7;
    assert_ok(msi_kinds_parse("", &kinds));
    assert_int_equal(kinds, 0);
    for (int k = 0; k < MST_KIND_COUNT; k++) {
        assert_ok(msi_kinds_parse(msi_kind_text((mst_kind)k), &kinds));
        assert_int_equal(kinds, 1u << k);
    }
    assert_ok(msi_kinds_parse("reduce,all_reduce", &kinds));
    assert_int_equal(kinds, BIT(REDUCE) | BIT(ALL_REDUCE));
    assert_ok(msi_kinds_parse(",send,,recv,", &kinds));
    assert_int_equal(kinds, BIT(SEND) | BIT(RECV));
    assert_ok(msi_kinds_parse("gather,barrier,gather", &kinds));
    assert_int_equal(kinds, BIT(GATHER) | BIT(BARRIER));
    static const char *const wrong[] = {"all",         "reduce_",       "Reduce", " reduce",
                                        "gather,redu", "gather reduce", "?"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_status(msi_kinds_parse(wrong[i], &kinds), MST_ERR_INVALID);
        assert_int_equal(kinds, BIT(GATHER) | BIT(BARRIER)); /* written only on success */
    }
    assert_status(
        msi_kinds_parse("gather,a_name_that_is_longer_than_any_line_should_be_and_then_some", &kinds),
        MST_ERR_INVALID);
    assert_contains(mst_error(), "a_name_that_is_longer");
}

static char buffer[4096];
static const size_t some[] = {1, 2, 3};

/* Of rank 1 of 3, with 8 elements of 4 bytes each. */
static unsigned forms_at(mst_kind kind, size_t in, size_t out, int root) {
    mst_backend_op op = {.kind = kind, .dtype = MST_F32, .element = 4, .count = 8, .root = root, .peer = 0};
    op.in = buffer + in;
    op.out = buffer + out;
    return msi_op_forms(&op, 1, 3);
}

static void overlaps_are_seen(void **state) {
    (void)state;
    const unsigned in_place = MST_FORM_IN_PLACE;
    assert_int_equal(forms_at(MST_KIND_ALL_REDUCE, 0, 0, -1), in_place);
    assert_int_equal(forms_at(MST_KIND_ALL_REDUCE, 0, 32, -1), 0);
    assert_int_equal(forms_at(MST_KIND_ALL_REDUCE, 32, 0, -1), 0);
    assert_int_equal(forms_at(MST_KIND_ALL_REDUCE, 31, 0, -1), in_place);
    assert_int_equal(forms_at(MST_KIND_ALL_GATHER, 32, 0, -1), in_place);
    assert_int_equal(forms_at(MST_KIND_ALL_GATHER, 96, 0, -1), 0);
    assert_int_equal(forms_at(MST_KIND_REDUCE_SCATTER, 0, 32, -1), in_place);
    assert_int_equal(forms_at(MST_KIND_REDUCE_SCATTER, 0, 96, -1), 0);
    assert_int_equal(forms_at(MST_KIND_ALL_TO_ALL, 0, 0, -1), in_place);
    assert_int_equal(forms_at(MST_KIND_ALL_TO_ALL, 0, 96, -1), 0);
    assert_int_equal(forms_at(MST_KIND_REDUCE, 0, 0, 1), in_place);
    assert_int_equal(forms_at(MST_KIND_REDUCE, 0, 0, 2), 0); /* it writes nothing */
    assert_int_equal(forms_at(MST_KIND_GATHER, 32, 0, 1), in_place);
    assert_int_equal(forms_at(MST_KIND_GATHER, 32, 0, 0), 0);
    assert_int_equal(forms_at(MST_KIND_SCATTER, 0, 32, 1), in_place);
    assert_int_equal(forms_at(MST_KIND_SCATTER, 0, 32, 0), 0); /* it reads nothing */
    assert_int_equal(forms_at(MST_KIND_BROADCAST, 0, 0, 1), 0);
    assert_int_equal(forms_at(MST_KIND_SEND, 0, 0, -1), 0);
}

static void forms_are_seen(void **state) {
    (void)state;
    void *lists[] = {buffer, buffer + 100, buffer + 200};
    const void *const *ins = (const void *const *)lists;
    mst_backend_op op = {.kind = MST_KIND_ALL_GATHER, .element = 4, .count = 2, .in = buffer + 300};
    op.out_list = lists;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_LISTS);
    op.in = buffer + 100;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_LISTS | MST_FORM_IN_PLACE);
    op.out_counts = some;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_LISTS | MST_FORM_IN_PLACE | MST_FORM_UNEVEN);
    op = (mst_backend_op){.kind = MST_KIND_ALL_TO_ALL, .element = 4, .count = 2};
    op.in_list = ins;
    op.out_list = lists;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_LISTS | MST_FORM_IN_PLACE);
    op = (mst_backend_op){.kind = MST_KIND_REDUCE_SCATTER, .element = 4, .count = 2, .out = buffer};
    op.in_counts = some;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_UNEVEN);
    op = (mst_backend_op){.kind = MST_KIND_RECV, .element = 4, .count = 2, .peer = 2, .out = buffer};
    assert_int_equal(msi_op_forms(&op, 1, 3), 0);
    op.tag = 5;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_TAG);
    op.peer = -1;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_TAG | MST_FORM_ANY_SOURCE);
    op.tag = MST_ANY_TAG;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_ANY_TAG | MST_FORM_ANY_SOURCE);
    op.tag = MST_INTERNAL_TAG;
    assert_int_equal(msi_op_forms(&op, 1, 3), MST_FORM_ANY_SOURCE);
}

/* What an engine has is one step; messages are never made of anything else. */
static void what_is_there_is_not_composed(void **state) {
    (void)state;
    struct msi_composer c = new_composer(0, 3, NULL);
    mst_backend_op op = {
        .kind = MST_KIND_SEND, .dtype = MST_U8, .element = 1, .peer = 1, .count = 5, .in = buffer};
    rows[0] = (mst_backend_capability){.kinds = (1u << MST_KIND_COUNT) - 1, .ops = ~0u};
    assert_ok(msi_compose(&c, &op, false));
    assert_int_equal(c.n, 1);
    assert_false(c.composed);
    assert_memory_equal(&c.steps[0].op, &op, sizeof op);
    rows[0].kinds &= ~BIT(SEND);
    assert_status(msi_compose(&c, &op, false), MST_ERR_UNSUPPORTED);
    assert_contains(mst_error(), "backend 'simulated' cannot do send of u8");
    rows[0].kinds |= BIT(SEND);
    c.forced = BIT(SEND);
    assert_status(msi_compose(&c, &op, false), MST_ERR_UNSUPPORTED);
    free(c.steps);
}

static void memory_is_only_copied_where_allowed(void **state) {
    (void)state;
    struct msi_composer c = new_composer(0, 2, NULL);
    mst_backend_op op = {.kind = MST_KIND_ALL_REDUCE, .dtype = MST_F32, .element = 4, .count = 5};
    op.in = buffer;
    op.out = buffer + 100;
    rows[0] =
        (mst_backend_capability){.kinds = BIT(ALL_REDUCE), .ops = ~0u, .memories = 1u << MST_MEMORY_CUDA};
    assert_status(msi_compose(&c, &op, false), MST_ERR_INVALID);
    assert_contains(mst_error(), "MUSTER_STAGE=1");
    c.stage = true;
    assert_ok(msi_compose(&c, &op, false));
    assert_int_equal(c.n, 3);
    assert_int_equal(c.steps[1].op.memory, MST_MEMORY_CUDA);
    rows[0].memories |= 1u << MST_MEMORY_HOST;
    assert_ok(msi_compose(&c, &op, false));
    assert_false(c.composed);
    free(c.steps);
}

static const mst_backend_capability *give_later_rows(void) {
    return rows + 1;
}

/* A row for other kinds tells as well that the backend can use the memory. */
static void memory_of_any_row_is_used(void **state) {
    (void)state;
    const mst_backend later = {.name = "simulated", .rows = give_later_rows};
    struct msi_composer c = new_composer(0, 2, NULL);
    mst_backend_op op = {.kind = MST_KIND_ALL_REDUCE, .dtype = MST_F32, .element = 4, .count = 5};
    c.table = &later;
    op.in = buffer;
    op.out = buffer + 100;
    memset(rows, 0, sizeof rows);
    rows[1] =
        (mst_backend_capability){.kinds = BIT(ALL_REDUCE), .ops = ~0u, .memories = 1u << MST_MEMORY_CUDA};
    rows[2] =
        (mst_backend_capability){.kinds = BIT(ALL_GATHER), .ops = ~0u, .memories = 1u << MST_MEMORY_HOST};
    assert_ok(msi_compose(&c, &op, false));
    assert_int_equal(c.steps[0].op.kind, MST_KIND_ALL_GATHER);
    memset(rows, 0, sizeof rows);
    free(c.steps);
}

/* Composes it with one piece of memory more each time, until there is enough; how often there was not. */
static size_t starve(const mst_backend_op *op) {
    size_t refused = 0;
    for (mst_status st = MST_ERR_MEMORY; st == MST_ERR_MEMORY; refused += st == MST_ERR_MEMORY) {
        int left = (int)refused;
        struct msi_composer c = new_composer(1, 3, &left);
        st = msi_compose(&c, op, false);
        assert_true(st == MST_OK || st == MST_ERR_MEMORY || st == MST_ERR_UNSUPPORTED);
        free(c.steps);
    }
    return refused;
}

/* Whichever piece of memory is not there, the composition says so. */
static void without_memory_it_says_so(void **state) {
    (void)state;
    static const uint32_t tables[] = {
        BIT(SEND) | BIT(RECV), BIT(ALL_GATHER), BIT(ALL_TO_ALL) | BIT(ALL_GATHER),
        BIT(REDUCE_SCATTER) | BIT(ALL_GATHER), BIT(ALL_REDUCE) | BIT(BROADCAST)};
    static const size_t counts[] = {2, 2, 2};
    void *lists[] = {buffer, buffer + 100, buffer + 200};
    size_t refused = 0;
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (int kind = 0; kind < MST_KIND_SEND; kind++) {
            rows[0] = (mst_backend_capability){.kinds = tables[t], .ops = ~0u};
            mst_backend_op op = {
                .kind = (mst_kind)kind, .dtype = MST_U8, .element = 1, .count = 2, .root = 1, .out = buffer};
            op.in = buffer;
            refused += starve(&op);
            if (kind == MST_KIND_REDUCE_SCATTER) op.in_counts = counts;
            if (kind == MST_KIND_ALL_GATHER) op.out_counts = counts;
            refused += starve(&op);
            if (kind == MST_KIND_REDUCE_SCATTER) op.in_list = (const void *const *)lists;
            if (kind == MST_KIND_ALL_GATHER) op.out_list = lists;
            refused += starve(&op);
        }
    assert_in_range(refused, 100, 1000);
}

/* Not written: only the addresses of the pieces count. */
static void *large_scratch(void *context, mst_memory memory, size_t bytes) {
    static char pieces[8][64 << 10];
    static unsigned next;
    (void)context;
    (void)memory;
    assert_in_range(bytes, 1, sizeof *pieces);
    return pieces[next++ % COUNT_OF(pieces)];
}

/* The kind of the first operation for that many bytes. */
static mst_kind first_move(mst_kind kind, size_t bytes) {
    static char in[16 << 10], out[sizeof in];
    struct msi_composer c = new_composer(1, 3, NULL);
    mst_backend_op op = {.kind = kind, .dtype = MST_U8, .element = 1, .count = bytes, .root = -1, .out = out};
    op.in = in;
    c.scratch = large_scratch;
    assert_in_range(bytes, 1, sizeof in);
    assert_ok(msi_compose(&c, &op, false));
    size_t i = 0;
    while (c.steps[i].kind != MSI_PART_OP) i++;
    mst_kind first = c.steps[i].op.kind;
    free(c.steps);
    return first;
}

/* compose.h: up to 8 KiB all ranks gather everything, above that each reduces its part. */
static void short_tensors_are_gathered(void **state) {
    (void)state;
    static const mst_kind kinds[] = {MST_KIND_ALL_REDUCE, MST_KIND_SCAN, MST_KIND_EXSCAN};
    rows[0] = (mst_backend_capability){.kinds = BIT(ALL_TO_ALL) | BIT(ALL_GATHER), .ops = ~0u};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        assert_int_equal(first_move(kinds[i], 8 << 10), MST_KIND_ALL_GATHER);
        assert_int_equal(first_move(kinds[i], (8 << 10) + 1), MST_KIND_ALL_TO_ALL);
    }
}

static void backends_have_names(void **state) {
    (void)state;
    struct msi_backends b = {.text = "as before"};
    static const struct {
        const char *text;
        mst_status status;
    } wrong[] = {
        {"nosuch", MST_ERR_UNSUPPORTED},
        {"native,", MST_ERR_INVALID},
        {",native", MST_ERR_INVALID},
        {"cpu:", MST_ERR_INVALID},
        {"cpu:auto", MST_ERR_INVALID},
        {"tpu:native", MST_ERR_INVALID},
        {"cuda:native", MST_ERR_INVALID},
        {"cpu:native,cuda:native", MST_ERR_INVALID},
        {"../native", MST_ERR_INVALID},
        {"Native", MST_ERR_UNSUPPORTED},
        {"native:cpu", MST_ERR_INVALID},
        {"a_name_that_is_as_long_as_no_name_of_a_backend", MST_ERR_INVALID},
        {"cpu:native,cpu:native,cpu:native,cpu:native,cpu:native,cpu:native,cpu:native,cpu:native",
         MST_ERR_INVALID},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_status(msi_backends_parse(wrong[i].text, "", &b), wrong[i].status);
        assert_string_equal(b.text, "as before");
    }
    static const char *const right[] = {"native", "cpu:native", "auto", "", NULL};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_ok(msi_backends_parse(right[i], "", &b));
        assert_ptr_equal(b.of[MST_MEMORY_HOST], &msi_native_backend);
        assert_null(b.of[MST_MEMORY_CUDA]);
    }
}

/* More modules than the list of names holds: a wrong name is compared with those that it holds. */
static void a_directory_of_many_modules(void **state) {
    (void)state;
    enum { FILES = 40 };
    char directory[] = "/tmp/muster_modules_XXXXXX", path[100];
    const mst_backend *found;
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/mst_backend_module%d.so", directory, i);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    assert_status(msi_backend_find("nativ", directory, &found), MST_ERR_UNSUPPORTED);
    assert_contains(mst_error(), "did you mean 'native'?");
    assert_status(msi_backend_find("another", directory, &found), MST_ERR_UNSUPPORTED);
    assert_contains(mst_error(), "see `muster info` for the list");
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/mst_backend_module%d.so", directory, i);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(overlaps_are_seen),
        cmocka_unit_test(forms_are_seen),
        cmocka_unit_test(what_is_there_is_not_composed),
        cmocka_unit_test(memory_is_only_copied_where_allowed),
        cmocka_unit_test(memory_of_any_row_is_used),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(short_tensors_are_gathered),
        cmocka_unit_test(backends_have_names),
        cmocka_unit_test(a_directory_of_many_modules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
