/* limits.c - "muster bench limits": plans the measurements, and shows what they found; see limits.h. */
#include "bench/limits.h"
#include "bench/bench.h"
#include "bench/launch.h"
#include "bench/peers.h"
#include "cli/options.h"
#include "commands.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const limit_names[LIMIT_KINDS] = {"copy_GBps", "add_GBps", "tcp_GBps", "line_us", "tcp_us"};

enum { SIZES = 4, LISTS_MOST = 16, USUAL_ROUNDS = 5 };
static const size_t usual_cache = 32 << 20, least_past = 64 << 20, most_past = 512 << 20,
                    tcp_piece = 256 << 10;
static const double usual_seconds = 0.02;

int limits_processors(void) {
    cpu_set_t allowed;
    int n = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return n < LIMITS_PROCESSES_MOST ? n : LIMITS_PROCESSES_MOST;
}

size_t limits_cache(void) {
    size_t most = 0;

    for (int index = 0; index < 8; index++) {
        char path[80], text[32] = "";
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *file = fopen(path, "re");
        if (file == NULL) break;
        if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
        fclose(file);
        size_t kib = strtoull(text, NULL, 10); /* as 32768K */
        if (kib << 10 > most) most = kib << 10;
    }
    return most > 0 ? most : usual_cache;
}

/* Sizes that fit into the nearer caches, and one that is past them all. */
static size_t size_of(int i, int processes) {
    static const size_t near[SIZES - 1] = {64 << 10, 1 << 20, 16 << 20};
    size_t past = 2 * limits_cache() / (size_t)processes;

    if (i < SIZES - 1) return near[i];
    return past < least_past ? least_past : past > most_past ? most_past : past & ~(size_t)4095;
}

static void plan(struct bench_limits *l, enum limit_kind kind, int processes, size_t bytes) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i].kind == kind && l->at[i].processes == processes && l->at[i].bytes == bytes) return;
    if (l->n == LIMITS_MOST) return;
    l->at[l->n++] = (struct limit){.kind = kind, .processes = processes, .bytes = bytes};
}

/* What others do on the machine meanwhile can only make it look worse. */
static double best(const struct limit *limit, int rounds) {
    double found = limit->samples[0];

    for (int i = 1; i < rounds; i++)
        if (limit->kind <= LIMIT_TCP_GBPS ? limit->samples[i] > found : limit->samples[i] < found)
            found = limit->samples[i];
    return found;
}

bool limits_measure(struct bench_limits *l, const int *processes, int n) {
    int most = limits_processors();
    bool done[LIMITS_PROCESSES_MOST + 1] = {false}, going_on = true;

    if (l->rounds == 0) l->rounds = USUAL_ROUNDS;
    if (!(l->seconds > 0)) l->seconds = usual_seconds;
    for (int k = 0; k < n; k++) {
        int p = processes[k] < most ? processes[k] : most;
        for (int i = 0; i < 2 * SIZES; i++)
            plan(l, i < SIZES ? LIMIT_COPY : LIMIT_ADD, p, size_of(i % SIZES, p));
        if (p > 1) plan(l, LIMIT_TCP_GBPS, p, tcp_piece);
    }
    if (most > 1) plan(l, LIMIT_LINE, 2, 0);
    if (most > 1) plan(l, LIMIT_TCP_US, 2, 1);
    for (int i = 0; i < l->n && going_on; i++) {
        int p = l->at[i].processes;
        if (!done[p]) going_on = limits_run_crew(l, p);
        done[p] = true;
    }
    for (int i = 0; i < l->n; i++) l->at[i].value = best(&l->at[i], l->rounds);
    return going_on;
}

static double value_of(const struct bench_limits *l, enum limit_kind kind, int processes, size_t bytes) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i].kind == kind && l->at[i].processes == processes && l->at[i].bytes == bytes)
            return l->at[i].value;
    return 0;
}

double limits_delay(const struct bench_limits *l, enum limit_kind kind) {
    return value_of(l, kind, 2, kind == LIMIT_LINE ? 0 : 1);
}

/* A straight line between neighbours in the logarithm of the size. */
double limits_rate(const struct bench_limits *l, enum limit_kind kind, int processes, double bytes) {
    const struct limit *below = NULL, *above = NULL;

    for (int i = 0; i < l->n; i++) {
        const struct limit *at = &l->at[i];
        if (at->kind != kind || at->processes != processes || at->value <= 0) continue;
        if ((double)at->bytes <= bytes && (below == NULL || at->bytes > below->bytes)) below = at;
        if ((double)at->bytes >= bytes && (above == NULL || at->bytes < above->bytes)) above = at;
    }
    if (below == NULL || above == NULL || below == above)
        return below != NULL ? below->value : above != NULL ? above->value : 0;
    double share = log(bytes / (double)below->bytes) / log((double)above->bytes / (double)below->bytes);
    return below->value + share * (above->value - below->value);
}

struct limits_options {
    const char *processes, *json;
    long rounds;
    double seconds;
};

#define AT(field) offsetof(struct limits_options, field)

static const struct opt options[] = {
    {"processes", 'n', OPT_STRING, "LIST", "how many at a time (default 1,2 and one for each processor)",
     AT(processes), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "how often each is measured; the best counts (default 5)", AT(rounds), 1,
     LIMITS_ROUNDS_MOST},
    {"seconds", 's', OPT_SECONDS, "SECONDS", "how long each time (default 0.02)", AT(seconds), 0, 60},
    {"json", 0, OPT_STRING, "FILE", "also write the figures to this file, a JSON object in each line",
     AT(json), 0, 0},
};

static const struct opt_command command = {
    "muster bench limits",
    "",
    "Measures what this machine allows: copies, additions, hand-overs between processors, TCP.",
    options,
    sizeof options / sizeof *options,
    false,
};

static int read_processes(const char *list, int processes[LISTS_MOST], int *n) {
    char word[32];
    long long number;

    while (peers_next_word(&list, word)) {
        if (!opt_read_number(word, 1, limits_processors(), &number))
            return opt_mistake(&command,
                               "--processes takes numbers from 1 to the %d processors here, not '%s'",
                               limits_processors(), word);
        if (*n == LISTS_MOST)
            return opt_mistake(&command, "--processes takes at most %d numbers", LISTS_MOST);
        for (int i = 0; i < *n; i++)
            if (processes[i] == (int)number) return opt_mistake(&command, "--processes has %s twice", word);
        processes[(*n)++] = (int)number;
    }
    return *n > 0 ? OPT_PROCEED : opt_mistake(&command, "--processes needs a number");
}

static void print_rates(const struct bench_limits *l, enum limit_kind kind, const char *title, const int *p,
                        int n) {
    for (int i = 0; i < (kind == LIMIT_TCP_GBPS ? 1 : SIZES); i++) {
        bool past = kind != LIMIT_TCP_GBPS && i == SIZES - 1;
        size_t bytes = kind == LIMIT_TCP_GBPS ? tcp_piece : size_of(i, 1);
        if (past)
            printf("%-32s %12s", i == 0 ? title : "", "past caches");
        else
            printf("%-32s %8zu KiB", i == 0 ? title : "", bytes >> 10);
        for (int k = 0; k < n; k++)
            printf(" %9.1f", value_of(l, kind, p[k], past ? size_of(i, p[k]) : bytes));
        printf("\n");
    }
}

static void print(const struct bench_limits *l, const int *p, int n) {
    char machine[300];

    peers_write_machine(machine, sizeof machine);
    printf("limits of %s\n", machine);
    printf(
        "GB/s of so many processes together, each on a processor of its own; the best of %d rounds\n\n%-32s "
        "%12s",
        l->rounds, "", "bytes each");
    for (int k = 0; k < n; k++) printf(" %9d", p[k]);
    printf("\n");
    print_rates(l, LIMIT_COPY, "copy (memcpy)", p, n);
    print_rates(l, LIMIT_ADD, "add (c += a, f32)", p, n);
    print_rates(l, LIMIT_TCP_GBPS, "TCP on loopback, both ways", p, n);
    printf("\n%-45s %9.3f us\n%-45s %9.3f us\n", "a cache line, from one processor to another",
           limits_delay(l, LIMIT_LINE), "a byte over TCP on loopback, one way",
           limits_delay(l, LIMIT_TCP_US));
}

static void write_json(const struct bench_limits *l, FILE *file) {
    for (int i = 0; i < l->n; i++)
        fprintf(file, "{\"limit\":\"%s\",\"bytes\":%zu,\"processes\":%d,\"value\":%.5g}\n",
                limit_names[l->at[i].kind], l->at[i].bytes, l->at[i].processes, l->at[i].value);
}

int bench_limits(int argc, char **argv) {
    static struct bench_limits l;
    struct limits_options o = {.processes = NULL, .rounds = USUAL_ROUNDS, .seconds = usual_seconds};
    int processes[LISTS_MOST], n = 0, most = limits_processors(), n_operands;
    char **operands, usual[64];
    FILE *json = NULL;

    int status = opt_parse(&command, argc, argv, &o, &operands, &n_operands);
    if (status != OPT_PROCEED) return status;
    if (n_operands > 0) return opt_mistake(&command, "'%s' is not expected here", operands[0]);
    snprintf(usual, sizeof usual, most > 2 ? "1,2,%d" : most > 1 ? "1,2" : "1", most);
    status = read_processes(o.processes != NULL ? o.processes : usual, processes, &n);
    if (status != OPT_PROCEED) return status;
    if (o.json != NULL && (json = fopen(o.json, "we")) == NULL)
        return opt_mistake(&command, "cannot write to %s: %s", o.json, strerror(errno));
    l.rounds = (int)o.rounds;
    l.seconds = o.seconds;
    launch_open();
    bool going_on = limits_measure(&l, processes, n);
    launch_close();
    if (going_on) print(&l, processes, n);
    if (json != NULL && going_on) write_json(&l, json);
    if (json != NULL && fclose(json) != 0) return EXIT_FAILED;
    if (going_on) return EXIT_DONE;
    fprintf(stderr, "%s: interrupted\n", command.name);
    return EXIT_SIGNAL + launch_signal();
}
