/*
 * flight_rank.c - a rank that fails or hangs in the way it is told to, for tests of what the flight recorder keeps.
 *
 *   flight_rank HOW [argument]
 *
 * All ranks meet twice; rank 0 has sent rank 1 a message by then. Where ranks are to differ, it is the last one that goes wrong.
 */
#include <muster/muster.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void must(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s\n", mst_error());
    exit(1);
}

static bool is_last(void) {
    return rank == size - 1;
}

static void begin(void) {
    int word = 7;
    must(mst_init());
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    must(mst_barrier());
    if (rank == 0 && size > 1) must(mst_send(&word, 1, MST_I32, .dst = 1));
    if (rank == 1) must(mst_recv(&word, 1, MST_I32, .src = 0));
    must(mst_barrier());
}

static mst_status step(int timeout_ms) {
    float grad[16] = {0};
    return mst_all_reduce(grad, 16, MST_F32, .timeout_ms = timeout_ms);
}

_Noreturn static void wait_to_be_ended(void) {
    for (;;) pause();
}

/* The last one is somewhere else. */
static void hang(void) {
    printf("ready\n");
    fflush(stdout);
    if (is_last()) wait_to_be_ended();
    must(step(0));
}

/* The others run out of time, say so, and stay. */
static void stall(void) {
    if (is_last()) wait_to_be_ended();
    mst_status status = step(300);
    if (status == MST_OK || step(300) == MST_OK) exit(3);
    printf("%s\n", mst_status_name(status));
    fflush(stdout);
    wait_to_be_ended();
}

static void die(void) {
    if (is_last()) raise(SIGKILL);
    must(step(0));
}

static void invalid(void) {
    if (mst_all_reduce(NULL, 16, MST_F32) != MST_ERR_INVALID) exit(3);
}

/* Into the file, and into those where that cannot be. */
static void dump(const char *path) {
    if (rank != 0) return;
    must(mst_flight_dump(path));
    if (mst_flight_dump(NULL) != MST_ERR_INVALID || mst_flight_dump("") != MST_ERR_INVALID) exit(3);
    if (mst_flight_dump("/nowhere/at/all") != MST_ERR_SYSTEM) exit(4);
    printf("%s\n", mst_error());
}

static void too_early(const char *path) {
    if (mst_flight_dump(path) != MST_ERR_STATE) exit(3);
    printf("%s\n", mst_error());
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";
    if (!strcmp(how, "early")) {
        too_early(argument);
        return 0;
    }
    begin();
    if (!strcmp(how, "hang")) hang();
    if (!strcmp(how, "stall")) stall();
    if (!strcmp(how, "die")) die();
    if (!strcmp(how, "invalid")) invalid();
    if (!strcmp(how, "dump")) dump(argument);
    must(mst_destroy_process_group(NULL));
    return 0;
}
