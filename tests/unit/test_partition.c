/* test_partition.c - layers over the parts of a pipeline: evenly as FlexLLMGen has it, and by cost as well
 * as possible. */
#include "harness.h"

#include "pipeline/schedule/partition.h"

#include <math.h>

static void even(void **state) {
    (void)state;
    for (int layers = 1; layers <= 64; layers++)
        for (int parts = 1; parts <= layers; parts++) {
            int starts[65];
            assert_ok(msi_partition_even(layers, parts, starts));
            assert_int_equal(starts[0], 0);
            assert_int_equal(starts[parts], layers);
            for (int k = 0; k < parts; k++)
                assert_int_equal(starts[k + 1] - starts[k], layers / parts + (k < layers % parts));
        }
}

static void equal_costs_give_the_even_one(void **state) {
    (void)state;
    struct msi_layer_costs costs = {0};
    for (int layers = 1; layers <= 40; layers++)
        for (int parts = 1; parts <= layers; parts++) {
            int wanted[41], starts[41];
            assert_ok(msi_partition_even(layers, parts, wanted));
            assert_ok(msi_partition_weighted(&costs, layers, parts, starts));
            assert_memory_equal(starts, wanted, ((size_t)parts + 1) * sizeof(int));
        }
}

static double part_cost(const struct msi_layer_costs *costs, int parts, const int *starts, int k) {
    double cost = (k == 0 ? costs->first : 0) + (k == parts - 1 ? costs->last : 0);
    for (int i = starts[k]; i < starts[k + 1]; i++) cost += costs->layers ? costs->layers[i] : 1;
    return cost;
}

static double largest_part(const struct msi_layer_costs *costs, int parts, const int *starts) {
    double largest = 0;
    for (int k = 0; k < parts; k++) largest = fmax(largest, part_cost(costs, parts, starts, k));
    return largest;
}

static double squares(const struct msi_layer_costs *costs, int parts, const int *starts) {
    double sum = 0;
    for (int k = 0; k < parts; k++) sum += pow(part_cost(costs, parts, starts, k), 2);
    return sum;
}

struct found {
    double largest, squares;
    long tried;
};

/* Every way to cut. */
static void try_all(const struct msi_layer_costs *costs, int layers, int parts, int part, int *starts,
                    struct found *best) {
    if (part == parts) {
        starts[parts] = layers;
        double largest = largest_part(costs, parts, starts), sum = squares(costs, parts, starts);
        best->tried++;
        if (largest < best->largest || (largest == best->largest && sum < best->squares)) {
            best->largest = largest;
            best->squares = sum;
        }
        return;
    }
    for (int k = starts[part - 1] + 1; k <= layers - (parts - part); k++) {
        starts[part] = k;
        try_all(costs, layers, parts, part + 1, starts, best);
    }
}

/* Whole numbers, so that sums are exact and equal largest parts are equal. */
static void none_is_better(void **state) {
    (void)state;
    uint32_t seed = 7;
    long tried = 0;
    for (int round = 0; round < 400; round++) {
        double layers[12];
        int n = 1 + round % 12, parts = 1 + (round / 12) % n, starts[13], other[13] = {0};
        for (int i = 0; i < n; i++) layers[i] = (double)((seed = seed * 1664525 + 1013904223) >> 28);
        struct msi_layer_costs costs = {layers, round % 3 ? 0 : seed >> 29, round % 2 ? 0 : seed >> 30};
        struct found best = {INFINITY, INFINITY, 0};
        try_all(&costs, n, parts, 1, other, &best);
        assert_ok(msi_partition_weighted(&costs, n, parts, starts));
        for (int k = 0; k < parts; k++) assert_true(starts[k] < starts[k + 1]);
        assert_true(starts[0] == 0 && starts[parts] == n);
        assert_true(largest_part(&costs, parts, starts) == best.largest);
        assert_true(squares(&costs, parts, starts) == best.squares);
        tried += best.tried;
    }
    print_message("%ld partitions tried\n", tried);
}

/* An embedding worth a layer and a head worth three: the last stage gets as many layers fewer. */
static void embedding_and_head_count(void **state) {
    (void)state;
    static const int wanted[] = {0, 6, 13, 20, 24};
    struct msi_layer_costs costs = {.first = 1, .last = 3};
    int starts[5];
    assert_ok(msi_partition_weighted(&costs, 24, 4, starts));
    assert_true(largest_part(&costs, 4, starts) == 7);
    assert_memory_equal(starts, wanted, sizeof wanted);
}

static void large_ones_are_quick(void **state) {
    (void)state;
    enum { LAYERS = 4096, PARTS = 128 };
    static double layers[LAYERS];
    static int starts[PARTS + 1];
    for (int i = 0; i < LAYERS; i++) layers[i] = 1e200 * (1 + i % 7);
    struct msi_layer_costs costs = {.layers = layers};
    assert_ok(msi_partition_weighted(&costs, LAYERS, PARTS, starts));
    assert_true(largest_part(&costs, PARTS, starts) <= 1e200 * (LAYERS * 4.0 / PARTS + 7));
}

static void wrong(void **state) {
    (void)state;
    int starts[4] = {9, 9, 9, 9};
    double bad[] = {1, -1, 1}, nan[] = {1, 1, NAN};
    assert_status(msi_partition_even(2, 3, starts), MST_ERR_INVALID);
    assert_contains(mst_error(), "2 layers cannot fill 3 parts");
    assert_status(msi_partition_even(2, 0, starts), MST_ERR_INVALID);
    assert_status(msi_partition_weighted(&(struct msi_layer_costs){0}, 100000, 2, starts), MST_ERR_LIMIT);
    assert_status(msi_partition_weighted(&(struct msi_layer_costs){.layers = bad}, 3, 2, starts),
                  MST_ERR_INVALID);
    assert_contains(mst_error(), "layer 1 has cost -1");
    assert_status(msi_partition_weighted(&(struct msi_layer_costs){.layers = nan}, 3, 2, starts),
                  MST_ERR_INVALID);
    assert_status(msi_partition_weighted(&(struct msi_layer_costs){.last = INFINITY}, 3, 2, starts),
                  MST_ERR_INVALID);
    assert_int_equal(starts[0], 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even),
        cmocka_unit_test(equal_costs_give_the_even_one),
        cmocka_unit_test(none_is_better),
        cmocka_unit_test(embedding_and_head_count),
        cmocka_unit_test(large_ones_are_quick),
        cmocka_unit_test(wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
