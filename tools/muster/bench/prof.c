/*
 * prof.c - "muster bench prof": what it costs a call that somebody wants to know of it: an all_reduce of 4 bytes in a world of
 * one rank, which has nothing to wait for, with nobody watching, with the flight recorder, and recorded. All ways take turns, beside
 * both clocks. In processor time of the calling thread, so that neither other programs nor muster's own threads are in it.
 */
#include "base/median.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "commands.h"
#include "os/host.h"
#include "os/tick.h"
#include "prof/record/recorder.h"
#include "prof/record/watch.h"

#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

enum { CALLS = 1500, ROUNDS_MOST = 1000, WAYS = 6 }; /* the calls of a turn have room in a ring */

static const char *const names[WAYS] = {"off",      "flight",       "recorded", "recorded and summed",
                                        "the tick", "clock_gettime"};
static const char *const words[WAYS] = {"off", "flight", "recorded", "summed", "tick", "clock"};

struct bench_options {
    const char *way;
    long rounds;
};

static const struct opt options[] = {
    {"rounds", 'r', OPT_NUMBER, "N", "how often each takes its turn (default 100)",
     offsetof(struct bench_options, rounds), 1, ROUNDS_MOST},
    {"way", 'w', OPT_STRING, "WAY",
     "only off, flight, recorded, summed, tick or clock; for counting instructions",
     offsetof(struct bench_options, way), 0, 0},
};

static const struct opt_command command = {
    "muster bench prof",
    "",
    "Measures what the flight recorder and profiling add to a call, in nanoseconds of processor time.",
    options,
    sizeof options / sizeof *options,
    false,
};

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void prepare(int way) {
    struct msi_prof_config config = {.enabled = way == 2 || way == 3, .prof_all = true};
    msi_recorder_set(&config, true); /* empties the rings, too */
    msi_watch_set(MSI_WATCH_FLIGHT, way == 1);
    msi_watch_set(MSI_WATCH_RANK_STATE, false);
}

static uint64_t sink; /* so that the clocks are read */

static void work(int way) {
    float value[1] = {1};
    if (way < 4)
        mst_all_reduce(value, 1, MST_F32);
    else
        sink += way == 4 ? msi_tick() : (uint64_t)msi_now();
}

static double turn(int way) {
    prepare(way);
    double start = now_ns();
    for (int i = 0; i < CALLS; i++) work(way);
    if (way == 3) prepare(way);
    return (now_ns() - start) / CALLS;
}

static void measure(long rounds) {
    static double times[WAYS][ROUNDS_MOST];
    char cpu[128];
    for (long round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) times[way][round] = turn(way);
    printf("muster %s; %s\n", mst_version(), msi_cpu_name(cpu, sizeof cpu));
    printf("an all_reduce of 4 bytes in a world of one rank, median of %ld turns\n\n", rounds);
    printf("%-22s %8s %8s\n", "", "ns", "added");
    double off = msi_median(times[0], rounds);
    for (int way = 0; way < WAYS; way++) {
        double ns = msi_median(times[way], rounds);
        printf("%-22s %8.1f", names[way], ns);
        if (way > 0 && way < 4) printf(" %8.1f", ns - off);
        printf("\n");
    }
}

int bench_prof(int argc, char **argv) {
    struct bench_options wanted = {NULL, 100};
    char **operands;
    int n, way = 0;
    int exit_status = opt_parse(&command, argc, argv, &wanted, &operands, &n);
    if (exit_status != OPT_PROCEED) return exit_status;
    if (n) return opt_mistake(&command, "'%s' is not expected here", operands[0]);
    while (wanted.way && way < WAYS && strcmp(wanted.way, words[way]) != 0) way++;
    if (way == WAYS)
        return opt_mistake(&command, "'%s' is none of off, flight, recorded, summed, tick, clock",
                           wanted.way);
    if (mst_init(.rank = 0, .world_size = 1, .init_method = "tcp://127.0.0.1:0") != MST_OK) {
        fprintf(stderr, "muster bench prof: %s\n", mst_error());
        return EXIT_FAILED;
    }
    if (wanted.way)
        for (long round = 0; round < wanted.rounds; round++) turn(way);
    else
        measure(wanted.rounds);
    mst_destroy_process_group(NULL);
    return EXIT_DONE;
}
