/*
 * prof.c - "muster bench prof": the cost of recording a call. Measures an all_reduce of 4 bytes in a world of
 * one rank, which waits for nobody: without recording, with the flight recorder, and with the profiler; also
 * both clocks. All of them alternate. In processor time of the calling thread, which includes neither other
 * programs nor muster's own threads.
 */
#include "base/median.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "commands.h"
#include "os/tick.h"
#include "prof/record/op_trace.h"
#include "prof/record/recorder.h"

#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

/* The event ring holds all CALLS of a trial. */
enum { CALLS = 1500, ROUNDS_MOST = 1000 };
/* --way names one of these variants. */
enum way { OFF, FLIGHT, RECORDED, SUMMED, TICK, CLOCK, WAYS };

static const char *const names[WAYS] = {"off", "flight", "recorded", "summed", "tick", "clock"};
static const char *const labels[WAYS] = {"off",        "flight recorder", "recorded", "recorded and summed",
                                         "msi_tick()", "clock_gettime()"};

struct bench_options {
    const char *way;
    long rounds;
};

static const struct opt options[] = {
    {"rounds", 'r', OPT_NUMBER, "N", "number of trials; the median counts (default 100)",
     offsetof(struct bench_options, rounds), 1, ROUNDS_MOST},
    {"way", 'w', OPT_STRING, "off|flight|recorded|summed|tick|clock",
     "run only this one and print nothing; for counting instructions", offsetof(struct bench_options, way), 0,
     0},
};

static const struct opt_command command = {
    .name = "muster bench prof",
    .operands = "",
    .summary =
        "Measures what the flight recorder and profiling add to a call, in nanoseconds of processor time.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster bench prof\n",
};

static void prepare(int way) {
    struct msi_prof_config config = {.enabled = way == RECORDED || way == SUMMED, .prof_all = true};
    msi_recorder_set(&config, true); /* also empties the rings */
    msi_sink_set(MSI_SINK_FLIGHT, way == FLIGHT);
    msi_sink_set(MSI_SINK_RANK_STATE, false);
}

static uint64_t sink; /* keeps the compiler from removing the clock reads */

static void work(int way) {
    float value[1] = {1};
    if (way < TICK)
        mst_all_reduce(value, 1, MST_F32);
    else
        sink += way == TICK ? msi_tick() : (uint64_t)msi_now();
}

static double run_trial(int way) {
    prepare(way);
    double start = bench_thread_ns();
    for (int i = 0; i < CALLS; i++) work(way);
    if (way == SUMMED) prepare(way); /* sums up the ring */
    return (bench_thread_ns() - start) / CALLS;
}

static void measure(long rounds) {
    static double times[WAYS][ROUNDS_MOST];
    char machine[BENCH_MACHINE_TEXT];
    for (long round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) times[way][round] = run_trial(way);
    printf("muster %s; %s\n", mst_version(), bench_machine(machine));
    printf("an all_reduce of 4 bytes in a world of one rank, median of %ld trials\n\n", rounds);
    printf("%-22s %8s %8s\n", "", "ns", "added");
    double off = msi_median(times[OFF], rounds);
    for (int way = 0; way < WAYS; way++) {
        double ns = msi_median(times[way], rounds);
        printf("%-22s %8.1f", labels[way], ns);
        if (way > OFF && way < TICK) printf(" %8.1f", ns - off);
        printf("\n");
    }
}

int bench_prof(int argc, char **argv) {
    struct bench_options wanted = {NULL, 100};
    int way = 0, exit_status = bench_parse(&command, argc, argv, &wanted);
    if (exit_status != OPT_PROCEED) return exit_status;
    while (wanted.way && way < WAYS && strcmp(wanted.way, names[way]) != 0) way++;
    if (way == WAYS)
        return opt_mistake(&command, "--way takes off, flight, recorded, summed, tick or clock, not '%s'",
                           wanted.way);
    if (mst_init(.rank = 0, .world_size = 1, .init_method = "tcp://127.0.0.1:0") != MST_OK) {
        fprintf(stderr, "muster bench prof: %s\n", mst_error());
        return EXIT_FAILED;
    }
    if (wanted.way)
        for (long round = 0; round < wanted.rounds; round++) run_trial(way);
    else
        measure(wanted.rounds);
    mst_destroy_process_group(NULL);
    return EXIT_DONE;
}
