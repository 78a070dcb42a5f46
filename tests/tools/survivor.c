/*
 * survivor.c - one rank of a world that goes on after deaths, for test_run_survive.py.
 *
 *   survivor MODE FILE   sums over the world until FILE exists
 *
 * MODE says what follows the death of a rank: "shrink" and "crash" shrink the world, "grow" waits for another
 * process, "slow" does that after three seconds, "fail" exits with 3. With "crash" a replacement exits with 7
 * at once. After the first sum over each world the rank writes "rank R of N, pid P".
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000 };

static int fail(int code) {
    fprintf(stderr, "%s\n", mst_error());
    return code;
}

/* *stop: the file exists on a rank. */
static mst_status sum(const char *file, bool *stop) {
    int values[2] = {1, access(file, F_OK) == 0};
    mst_status st = mst_all_reduce(values, 2, MST_I32);
    *stop = st == MST_OK && values[1] > 0;
    return st == MST_OK && values[0] != mst_get_world_size(NULL) ? MST_ERR_INTERNAL : st;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : "";
    bool stop = false, formed = true, slow = !strcmp(mode, "slow"), grows = slow || !strcmp(mode, "grow");
    if (!strcmp(mode, "crash") && getenv("MUSTER_JOIN")) return 7;
    if (mst_init(.timeout_ms = TIMEOUT_MS) != MST_OK) return fail(1);
    while (!stop) {
        mst_status st = sum(file, &stop);
        if (st == MST_OK && formed)
            printf("rank %d of %d, pid %d\n", mst_get_rank(NULL), mst_get_world_size(NULL), (int)getpid());
        fflush(stdout);
        formed = st == MST_ERR_PEER_LOST;
        if (formed && !strcmp(mode, "fail")) return fail(3);
        if (formed && slow) sleep(3);
        if (formed) st = grows ? mst_grow_world(1) : mst_shrink_world();
        if (st != MST_OK) return fail(1);
    }
    mst_destroy_process_group(NULL);
    return 0;
}
