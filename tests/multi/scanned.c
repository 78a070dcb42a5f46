/*
 * scanned.c - a rank of a job whose ports are scanned, for test_scanner.py.
 *
 *   scanned
 *
 * Repeats small sums and checks each. Rank 0 writes, about four times a second, "window P50 P99": the median
 * and the 99th percentile of the calls since the last line, in microseconds. Ends when standard input of rank
 * 0 ends.
 */
#include "os/wait.h"

#include <muster/muster.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WINDOW_MS = 250, CALLS_MOST = 200000 };

static int64_t times[CALLS_MOST];

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s\n", mst_error());
    exit(1);
}

static int compare(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Whether standard input has ended; it never has data. */
static bool is_over(void) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    return poll(&input, 1, 0) > 0;
}

/* Writes the line for n calls. */
static void report(int64_t *of, int n) {
    qsort(of, (size_t)n, sizeof *of, compare);
    printf("window %lld %lld\n", (long long)of[n / 2] / 1000, (long long)of[n * 99L / 100] / 1000);
    fflush(stdout);
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL), n = 0;
    int64_t begin = msi_now();
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    for (int over = 0; !over;) {
        int32_t sum[2] = {rank, 0};
        if (rank == 0 && n && (n == CALLS_MOST || msi_now() - begin > (int64_t)WINDOW_MS * 1000000)) {
            report(times, n);
            n = 0;
            begin = msi_now();
            sum[1] = is_over();
        }
        int64_t start = msi_now();
        check(mst_all_reduce(sum, 2, MST_I32));
        if (rank == 0) times[n++] = msi_now() - start;
        over = sum[1];
        if (sum[0] == size * (size - 1) / 2) continue;
        printf("wrong sum\n");
        return 1;
    }
    check(mst_destroy_process_group(NULL));
    return 0;
}
