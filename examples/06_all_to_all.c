/*
 * 06_all_to_all.c - sorting numbers that are spread over all ranks: each rank is in charge of a range, and everybody
 * sends every rank what belongs there. How many numbers that is differs from pair to pair.
 *
 *   muster run -n 4 build/bin/examples/06_all_to_all
 */
#include <muster/muster.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 20000, LIMIT = 1000000 };

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s: %s\n", mst_status_name(status), mst_error());
    exit(1);
}

static void *need(void *memory) {
    if (!memory) exit(1);
    return memory;
}

static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    size_t *give = need(calloc((size_t)size, sizeof *give)), *take = need(calloc((size_t)size, sizeof *take));
    int *mine = need(malloc(NUMBERS * sizeof *mine));
    size_t total = 0;

    /* Sorted, what goes to rank 0 comes first, then what goes to rank 1, and so on: just as all_to_all wants it. */
    unsigned state = 1u + (unsigned)rank;
    for (int i = 0; i < NUMBERS; i++) mine[i] = (int)((state = state * 1664525u + 1013904223u) >> 8) % LIMIT;
    qsort(mine, NUMBERS, sizeof *mine, compare);
    for (int i = 0; i < NUMBERS; i++) give[(int64_t)mine[i] * size / LIMIT]++;

    /* First everybody tells everybody how many will come (one number each), then the numbers themselves. */
    check(mst_all_to_all_single(take, give, 1, MST_U64));
    for (int r = 0; r < size; r++) total += take[r];
    int *sorted = need(malloc((total + 1) * sizeof *sorted));
    check(mst_all_to_all_single(sorted, mine, 0, MST_I32, .out_splits = take, .in_splits = give));
    qsort(sorted, total, sizeof *sorted, compare);

    if (total) mst_printf_all("%zu numbers, from %d to %d\n", total, sorted[0], sorted[total - 1]);
    uint64_t all = total;
    check(mst_reduce(&all, 1, MST_U64, .dst = 0));
    mst_printf("%llu numbers in all, sorted over %d ranks\n", (unsigned long long)all, size);
    free(sorted), free(mine), free(take), free(give);
    check(mst_destroy_process_group(NULL));
    return 0;
}
