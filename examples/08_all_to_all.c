/*
 * 08_all_to_all.c - sorts numbers that are distributed over all ranks. Each rank owns a range of values, and
 * every rank sends each number to the owner of its range. The counts differ for each pair of ranks.
 *
 *   muster run -n 4 build/bin/examples/08_all_to_all
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

static void *check_memory(void *memory) {
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
    size_t *to_send = check_memory(calloc((size_t)size, sizeof *to_send));
    size_t *to_receive = check_memory(calloc((size_t)size, sizeof *to_receive));
    int *mine = check_memory(malloc(NUMBERS * sizeof *mine));
    size_t total = 0;

    /* Sorting puts the numbers for rank 0 first, then those for rank 1, and so on, as all_to_all needs. */
    unsigned state = 1u + (unsigned)rank;
    for (int i = 0; i < NUMBERS; i++) mine[i] = (int)((state = state * 1664525u + 1013904223u) >> 8) % LIMIT;
    qsort(mine, NUMBERS, sizeof *mine, compare);
    for (int i = 0; i < NUMBERS; i++) to_send[(int64_t)mine[i] * size / LIMIT]++;

    /* First all ranks exchange their counts, one for each pair of ranks, then the numbers. */
    check(mst_all_to_all_single(to_receive, to_send, 1, MST_U64));
    for (int r = 0; r < size; r++) total += to_receive[r];
    int *sorted = check_memory(malloc((total + 1) * sizeof *sorted));
    check(mst_all_to_all_single(sorted, mine, 0, MST_I32, .out_splits = to_receive, .in_splits = to_send));
    qsort(sorted, total, sizeof *sorted, compare);

    if (total) mst_printf_all("%zu numbers, from %d to %d\n", total, sorted[0], sorted[total - 1]);
    uint64_t all = total;
    check(mst_reduce(&all, 1, MST_U64, .root = 0));
    mst_printf("%llu numbers, sorted over %d ranks\n", (unsigned long long)all, size);
    free(sorted);
    free(mine);
    free(to_receive);
    free(to_send);
    check(mst_destroy_process_group(NULL));
    return 0;
}
