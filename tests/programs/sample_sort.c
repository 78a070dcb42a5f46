/*
 * sample_sort.c - sorts numbers that are distributed over the ranks; each rank has another amount.
 *
 * Every rank sorts its numbers and contributes samples. The splitters, chosen from the samples of all ranks,
 * divide the range of values into one part for each rank. An all_to_all with splits sends each number to the
 * rank of its part. The result is compared with a sort of all numbers on one rank.
 */
#include "program.h"
#include <string.h>

enum { OVERSAMPLING = 8 };

static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void sort(int *numbers, size_t n) {
    qsort(numbers, n, sizeof *numbers, compare);
}

static size_t sum(const size_t *counts, int n) {
    size_t total = 0;
    for (int r = 0; r < n; r++) total += counts[r];
    return total;
}

/* The last of several ranks has no numbers, and many numbers of rank 0 are equal. */
static size_t amount(int rank, int size) {
    return rank == size - 1 && size > 1 ? 0 : 3000 + 517 * (size_t)rank;
}
static void generate(int *numbers, int rank, int size) {
    unsigned state = 12345u + (unsigned)rank;
    for (size_t i = 0; i < amount(rank, size); i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = rank == 0 && i % 3 == 0 ? 777 : (int)(state >> 8) - 8000000;
    }
}

/* The concatenation, on every rank, of counts[r] numbers from each rank r. */
static int *gather_all(const int *mine, const size_t *counts, int rank, int size) {
    int *all = allocate(sum(counts, size), sizeof *all);
    void **parts = allocate((size_t)size, sizeof *parts);
    for (int r = 0; r < size; r++) parts[r] = all + sum(counts, r);
    check(mst_all_gather(parts, mine, counts[rank], MST_I32, .counts = counts));
    free(parts);
    return all;
}

/* Divides sorted numbers at the splitters: splits[r] of them belong to rank r. */
static void split(size_t *splits, const int *numbers, size_t n, const int *splitters, int size) {
    int r = 0;
    for (size_t i = 0; i < n; i++) {
        while (r < size - 1 && numbers[i] >= splitters[r]) r++;
        splits[r]++;
    }
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    size_t ranks = (size_t)size, n = amount(rank, size);
    int *mine = allocate(n, sizeof *mine);
    generate(mine, rank, size);
    sort(mine, n);

    /* Samples at regular distances; a rank without numbers has none. */
    size_t *sample_counts = allocate(ranks, sizeof *sample_counts);
    int samples[OVERSAMPLING] = {0}, *splitters = allocate(ranks, sizeof *splitters);
    for (int r = 0; r < size; r++) sample_counts[r] = amount(r, size) ? OVERSAMPLING : 0;
    for (size_t i = 0; i < sample_counts[rank]; i++) samples[i] = mine[i * n / OVERSAMPLING];
    int *all_samples = gather_all(samples, sample_counts, rank, size);
    size_t total_samples = sum(sample_counts, size);
    sort(all_samples, total_samples);
    for (size_t r = 1; r < ranks; r++) splitters[r - 1] = all_samples[r * total_samples / ranks];

    /* First the counts, one for each pair of ranks, then the numbers. */
    size_t *to_send = allocate(ranks, sizeof *to_send), *to_receive = allocate(ranks, sizeof *to_receive);
    split(to_send, mine, n, splitters, size);
    check(mst_all_to_all_single(to_receive, to_send, 1, MST_U64));
    size_t received = sum(to_receive, size);
    int *sorted = allocate(received, sizeof *sorted);
    check(mst_all_to_all_single(sorted, mine, 0, MST_I32, .in_splits = to_send, .out_splits = to_receive));

    /* The list form takes and fills separate buffers, here the same parts in reverse order. */
    int *again = allocate(received, sizeof *again);
    void **outs = allocate(ranks, sizeof *outs);
    const void **ins = allocate(ranks, sizeof *ins);
    for (int r = 0; r < size; r++) {
        outs[r] = again + received - sum(to_receive, r + 1);
        ins[r] = mine + sum(to_send, r);
    }
    check(mst_all_to_all(outs, ins, 0, MST_I32, .in_splits = to_send, .out_splits = to_receive));
    for (int r = 0; r < size; r++)
        expect(!memcmp(outs[r], sorted + sum(to_receive, r), to_receive[r] * sizeof *sorted),
               "the list form received other numbers from rank %d", r);
    sort(sorted, received);

    /* All parts together are all numbers, sorted. */
    size_t *counts = allocate(ranks, sizeof *counts), total = 0;
    check(mst_all_gather_into_tensor(counts, &received, 1, MST_U64));
    for (int r = 0; r < size; r++) total += amount(r, size);
    expect(sum(counts, size) == total, "%zu numbers, not %zu", sum(counts, size), total);
    int *result = gather_all(sorted, counts, rank, size), *expected = allocate(total, sizeof *expected);
    for (int r = 0, *next = expected; r < size; next += amount(r++, size)) generate(next, r, size);
    sort(expected, total);
    for (size_t i = 0; i < total; i++)
        expect(result[i] == expected[i], "number %zu is %d, not %d", i, result[i], expected[i]);

    void *used[] = {mine,  sample_counts, splitters, all_samples, to_send, to_receive, sorted,
                    again, outs,          ins,       counts,      result,  expected};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) free(used[i]);
    return finish("sample_sort");
}
