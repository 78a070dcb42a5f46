/*
 * sums.c - a rank that compares every result with the right one. The driver tests/multi/test_other_user.py
 * attacks it.
 *
 *   sums ROUNDS [hold]
 *
 * SUMS_METHOD is the init method, instead of the launcher's variables.
 *
 * Each round is a sum of a few numbers, a sum of 1 MiB and a message to the next rank. Writes "ready" after
 * the first round. With hold rank 0 then waits for a line on standard input. At the end it writes "right", or
 * "wrong" with the first wrong value.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FEW = 5, MANY = 1 << 18 };

static float numbers[MANY];

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s\n", mst_error());
    exit(1);
}

static void compare(float got, float wanted, const char *what) {
    if (got == wanted) return;
    printf("wrong: %s is %g, not %g\n", what, (double)got, (double)wanted);
    exit(1);
}

/* Rank r adds r + round + i % 7 at i. */
static void sum(int round, size_t n) {
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL);
    for (size_t i = 0; i < n; i++) numbers[i] = (float)(rank + round + (int)(i % 7));
    check(mst_all_reduce(numbers, n, MST_F32));
    for (size_t i = 0; i < n; i++)
        compare(numbers[i], (float)(size * (size - 1) / 2 + size * (round + (int)(i % 7))), "a sum");
}

static void pass(int round) {
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL), from = (rank + size - 1) % size;
    float out = (float)(100 * rank + round), in = -1;
    mst_work *work;
    check(mst_recv(&in, 1, MST_F32, from, .work = &work));
    check(mst_send(&out, 1, MST_F32, (rank + 1) % size));
    check(mst_wait(work));
    compare(in, (float)(100 * from + round), "a message");
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    check(mst_init(.init_method = getenv("SUMS_METHOD")));
    for (int round = 0; round < rounds; round++) {
        sum(round, FEW);
        sum(round, MANY);
        if (mst_get_world_size(NULL) > 1) pass(round);
        if (round > 0) continue;
        printf("ready\n");
        fflush(stdout);
        if (argc > 2 && mst_get_rank(NULL) == 0 && getchar() == EOF) return 1;
    }
    check(mst_destroy_process_group(NULL));
    printf("right\n");
    return 0;
}
