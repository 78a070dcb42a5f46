/*
 * overlap.c - what a non-blocking all_reduce costs a thread that computes meanwhile.
 *
 *   muster run -n 2 build/bin/bench/overlap [BYTES]
 *
 * The computation uses no memory and takes twice as long as the blocking call. The program measures it alone
 * and with an all_reduce, alternating, and prints the difference as a share of the blocking time. All times
 * are medians.
 */
#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 41, BYTES = 16 << 20, STEPS = 1000000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void require(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "overlap: %s\n", mst_error());
    exit(1);
}

static double compute(long steps) {
    double x = 1;
    for (long i = 0; i < steps; i++) x = x * 1.0000001 + 1e-9;
    return x;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double times[ROUNDS]) {
    qsort(times, ROUNDS, sizeof times[0], compare);
    return times[ROUNDS / 2];
}

int main(int argc, char **argv) {
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : BYTES, n = bytes / sizeof(float);
    float *in = calloc(n, sizeof *in), *out = calloc(n, sizeof *out);
    double blocking[ROUNDS], alone[ROUNDS], both[ROUNDS], begun;
    if (n == 0 || !in || !out) return 1;
    require(mst_init());
    for (int i = 0; i < ROUNDS; i++) {
        require(mst_barrier());
        begun = now();
        require(mst_all_reduce(out, n, MST_F32, .in = in));
        blocking[i] = now() - begun;
    }
    double call = median(blocking);
    begun = now();
    double sum = compute(STEPS); /* is used, so that the compiler keeps the computation */
    long steps = (long)(STEPS * 2 * call / (now() - begun));
    require(mst_all_reduce(&steps, 1, MST_I64, .op = MST_MAX));
    for (int i = 0; i < ROUNDS; i++) {
        mst_work *work;
        require(mst_barrier());
        begun = now();
        sum += compute(steps);
        alone[i] = now() - begun;
        require(mst_barrier());
        begun = now();
        require(mst_all_reduce(out, n, MST_F32, .in = in, .work = &work));
        sum += compute(steps);
        require(mst_wait(work));
        both[i] = now() - begun;
    }
    if (sum <= 0) return 1;
    double least = median(alone), whole = median(both);
    if (mst_get_rank(NULL) == 0)
        printf(
            "%zu bytes: blocking %.0f us, computation %.0f us, with all_reduce %.0f us: costs %.1f %% of the "
            "blocking time\n",
            bytes, call, least, whole, 100 * (whole - least) / call);
    require(mst_destroy_process_group(NULL));
    free(in);
    free(out);
    return 0;
}
