/*
 * flight_rank.c - a rank that fails or hangs in the way it is told to, for tests of what the flight recorder
 * keeps.
 *
 *   flight_rank HOW [argument]
 *
 * All ranks meet twice; rank 0 has sent rank 1 a message by then. Where ranks are to differ, it is the last
 * one that goes wrong.
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
    if (rank == 0 && size > 1) must(mst_send(&word, 1, MST_I32, 1));
    if (rank == 1) must(mst_recv(&word, 1, MST_I32, 0));
    must(mst_barrier());
}

static mst_status step(int timeout_ms) {
    float grad[16] = {0};
    return mst_all_reduce(grad, 16, MST_F32, .timeout_ms = timeout_ms);
}

static mst_status step_by_itself(int timeout_ms) {
    float grad[16] = {0};
    mst_work *work;
    mst_status status = mst_all_reduce(grad, 16, MST_F32, .timeout_ms = timeout_ms, .work = &work);
    return status == MST_OK ? mst_wait(work) : status;
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

/* The last one is a member, too, and has called nothing in the group yet. */
static void hang_in_group(void) {
    mst_group *group;
    int ranks[64];
    for (int r = 0; r < size; r++) ranks[r] = r;
    must(mst_new_group(ranks, (size_t)size, &group, .name = "sub"));
    printf("ready\n");
    fflush(stdout);
    if (is_last()) wait_to_be_ended();
    must(mst_barrier(.group = group));
}

/* Rank 0 has sent the first of two messages that rank 1 waits for, and with another tag more. */
static void hang_in_messages(void) {
    int words[2] = {0};
    mst_work *works[2];
    for (int i = 0; i < 3 && rank == 0; i++) must(mst_send(words, 1, MST_I32, 1, .tag = i ? 6 : 5));
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < 2 && rank == 1; i++)
        must(mst_irecv(&words[i], 1, MST_I32, i ? MST_ANY_SOURCE : 0, .tag = 5, .work = &works[i]));
    if (rank == 1) must(mst_wait(works[0]));
    if (rank == 1) must(mst_recv(words, 1, MST_I32, 0, .tag = 5));
    wait_to_be_ended();
}

/* A group ends while a receive in it is open, and others follow. */
static void leave_group(const char *path) {
    mst_group *group;
    mst_work *work;
    int both[] = {0, 1}, word;
    must(mst_new_group(both, 2, &group, .name = "pair"));
    if (rank == 0) must(mst_irecv(&word, 1, MST_I32, 1, .tag = 4, .group = group, .work = &work));
    must(mst_barrier());
    must(mst_destroy_process_group(group));
    must(mst_new_group(both, 2, &group, .name = "next"));
    if (rank == 0) must(mst_flight_dump(path));
    must(mst_barrier());
}

/* The others run out of time, say so, and stay. */
static void stall(mst_status (*take)(int timeout_ms)) {
    if (is_last()) wait_to_be_ended();
    mst_status status = take(300);
    if (status == MST_OK || take(300) == MST_OK) exit(3);
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

/* The same call, blocking from one line and as a work: all ways through the library record the same count. */
static void repeat(const char *path) {
    float out[4], in[4 * 64] = {0};
    mst_work *work;
    for (int i = 0; i < 4; i++) must(mst_reduce_scatter_tensor(out, in, 4, MST_F32));
    must(mst_reduce_scatter_tensor(out, in, 4, MST_F32, .work = &work));
    must(mst_wait(work));
    if (rank == 0) must(mst_flight_dump(path));
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
    if (!strcmp(how, "group")) hang_in_group();
    if (!strcmp(how, "messages")) hang_in_messages();
    if (!strcmp(how, "leave")) leave_group(argument);
    if (!strcmp(how, "stall")) stall(step);
    if (!strcmp(how, "stall_work")) stall(step_by_itself);
    if (!strcmp(how, "die")) die();
    if (!strcmp(how, "invalid")) invalid();
    if (!strcmp(how, "dump")) dump(argument);
    if (!strcmp(how, "repeat")) repeat(argument);
    must(mst_destroy_process_group(NULL));
    return 0;
}
