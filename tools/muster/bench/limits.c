/* limits.c - "muster bench limits": plans the measurements and prints the results. See limits.h. */
#include "bench/limits.h"
#include "bench/launch.h"
#include "cli/options.h"
#include "commands.h"

#include "base/json.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

const char *const limit_names[LIMIT_KINDS] = {"copy_GBps", "add_GBps", "tcp_GBps", "line_us", "tcp_us"};

enum { SIZES = 4, DEFAULT_ROUNDS = 5 };
static const size_t default_cache = 32 << 20, least_uncached = 64 << 20, most_uncached = 512 << 20,
                    tcp_piece = 256 << 10;
static const double default_seconds = 0.02;

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
        if (!file) break;
        if (!fgets(text, sizeof text, file)) text[0] = '\0';
        fclose(file);
        size_t kib = strtoull(text, NULL, 10); /* as 32768K */
        if (kib << 10 > most) most = kib << 10;
    }
    return most > 0 ? most : default_cache;
}

/* Three sizes that fit into caches, and one that exceeds all of them. */
static size_t size_of(int i, int processes) {
    static const size_t cached[SIZES - 1] = {64 << 10, 1 << 20, 16 << 20};
    size_t uncached = 2 * limits_cache() / (size_t)processes;
    if (i < SIZES - 1) return cached[i];
    return uncached < least_uncached  ? least_uncached
           : uncached > most_uncached ? most_uncached
                                      : uncached & ~(size_t)4095;
}

static void plan(struct bench_limits *l, enum limit_kind kind, int processes, size_t bytes) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i].kind == kind && l->at[i].processes == processes && l->at[i].bytes == bytes) return;
    if (l->n == LIMITS_MOST) return;
    l->at[l->n++] = (struct limit){.kind = kind, .processes = processes, .bytes = bytes};
}

/* The best sample, because other programs can only make it worse. */
static double best(const struct limit *limit, long rounds) {
    double found = limit->samples[0];
    for (int i = 1; i < rounds; i++)
        if (limit->kind <= LIMIT_TCP_GBPS ? limit->samples[i] > found : limit->samples[i] < found)
            found = limit->samples[i];
    return found;
}

bool limits_measure(struct bench_limits *l, const struct bench_numbers *processes) {
    int most = l->processors = limits_processors();
    bool done[LIMITS_PROCESSES_MOST + 1] = {false}, proceed = true;
    if (l->rounds == 0) l->rounds = DEFAULT_ROUNDS;
    if (!(l->seconds > 0)) l->seconds = default_seconds;
    for (int k = 0; k < processes->n; k++) {
        int p = processes->at[k] < most ? processes->at[k] : most;
        for (int i = 0; i < 2 * SIZES; i++)
            plan(l, i < SIZES ? LIMIT_COPY : LIMIT_ADD, p, size_of(i % SIZES, p));
        if (p > 1) plan(l, LIMIT_TCP_GBPS, p, tcp_piece);
    }
    if (most > 1) plan(l, LIMIT_LINE, 2, 0);
    if (most > 1) plan(l, LIMIT_TCP_US, 2, 1);
    for (int i = 0; i < l->n && proceed; i++) {
        int p = l->at[i].processes;
        if (!done[p]) proceed = limits_run_workers(l, p);
        done[p] = true;
    }
    for (int i = 0; i < l->n; i++) l->at[i].value = best(&l->at[i], l->rounds);
    return proceed;
}

/* Interpolates linearly in the logarithm of the size. */
double limits_value(const struct bench_limits *l, enum limit_kind kind, int processes, double bytes) {
    const struct limit *below = NULL, *above = NULL;
    for (int i = 0; i < l->n; i++) {
        const struct limit *at = &l->at[i];
        if (at->kind != kind || at->processes != processes || at->value <= 0) continue;
        if ((double)at->bytes <= bytes && (!below || at->bytes > below->bytes)) below = at;
        if ((double)at->bytes >= bytes && (!above || at->bytes < above->bytes)) above = at;
    }
    if (!below || !above || below == above) return below ? below->value : above ? above->value : 0;
    double share = log(bytes / (double)below->bytes) / log((double)above->bytes / (double)below->bytes);
    return below->value + share * (above->value - below->value);
}

struct limits_options {
    const char *processes, *json;
    struct bench_limits l;
};

#define AT(field) offsetof(struct limits_options, field)

static const struct opt options[] = {
    {"processes", 'n', OPT_STRING, "LIST", "numbers of processes (default 1, 2 and one per processor)",
     AT(processes), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "number of trials; the best counts (default 5)", AT(l.rounds), 1,
     LIMITS_ROUNDS_MOST},
    {"seconds", 's', OPT_SECONDS, "SECONDS", "time of each trial (default 0.02)", AT(l.seconds), 0, 60},
    {"json", 0, OPT_STRING, "FILE", "also write the figures to FILE, a JSON object per line", AT(json), 0, 0},
};

static const struct opt_command command = {
    .name = "muster bench limits",
    .operands = "",
    .summary = "Measures the limits of this machine: copies, additions, cache lines between processors, TCP.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster bench limits\n"
                "  muster bench limits -n 1,4 --json limits.json\n",
};

static void print_rates(const struct bench_limits *l, enum limit_kind kind, const char *title,
                        const struct bench_numbers *p) {
    for (int i = 0; i < (kind == LIMIT_TCP_GBPS ? 1 : SIZES); i++) {
        bool uncached = kind != LIMIT_TCP_GBPS && i == SIZES - 1;
        size_t bytes = kind == LIMIT_TCP_GBPS ? tcp_piece : size_of(i, 1);
        if (uncached)
            printf("%-32s %12s", "", "uncached");
        else
            printf("%-32s %8zu KiB", i == 0 ? title : "", bytes >> 10);
        for (int k = 0; k < p->n; k++)
            printf(" %9.1f",
                   limits_value(l, kind, p->at[k], (double)(uncached ? size_of(i, p->at[k]) : bytes)));
        printf("\n");
    }
}

static void print(const struct bench_limits *l, const struct bench_numbers *p) {
    char machine[BENCH_MACHINE_TEXT];
    printf("limits of %s\n", bench_machine(machine));
    printf("GB/s of all processes together, each on its own processor; the best of %ld rounds\n\n%-32s %12s",
           l->rounds, "", "bytes each");
    for (int k = 0; k < p->n; k++) printf(" %9d", p->at[k]);
    printf("\n");
    print_rates(l, LIMIT_COPY, "copy (memcpy)", p);
    print_rates(l, LIMIT_ADD, "add (c += a, f32)", p);
    print_rates(l, LIMIT_TCP_GBPS, "TCP on loopback, both directions", p);
    printf("\n%-45s %9.3f us\n%-45s %9.3f us\n", "a cache line from one processor to another",
           limits_value(l, LIMIT_LINE, 2, 0), "a byte over TCP on loopback, one way",
           limits_value(l, LIMIT_TCP_US, 2, 1));
}

static void write_json(const struct bench_limits *l, FILE *file) {
    for (int i = 0; i < l->n; i++) {
        struct msi_buf line = {0};
        struct msi_json_out out = msi_json_to(&line);
        msi_json_put_object(&out);
        msi_json_member_string(&out, "limit", limit_names[l->at[i].kind]);
        msi_json_member_int(&out, "bytes", (int64_t)l->at[i].bytes);
        msi_json_member_int(&out, "processes", l->at[i].processes);
        msi_json_member_double(&out, "value", l->at[i].value, 6);
        msi_json_put_object_end(&out);
        bench_write_line(&line, file);
    }
}

int bench_limits(int argc, char **argv) {
    static struct limits_options o;
    struct bench_numbers processes;
    int most = limits_processors();
    char defaults[64];
    FILE *json = NULL;
    snprintf(defaults, sizeof defaults, most > 2 ? "1,2,%d" : most > 1 ? "1,2" : "1", most);
    o.processes = defaults;
    int status = bench_parse(&command, argc, argv, &o);
    if (status == OPT_PROCEED)
        status = bench_read_numbers(&command, "--processes", o.processes, most, &processes);
    if (status == OPT_PROCEED) status = bench_open_output(&command, o.json, &json);
    if (status != OPT_PROCEED) return status;
    launch_open();
    bool proceed = limits_measure(&o.l, &processes);
    launch_close();
    if (proceed) print(&o.l, &processes);
    if (json && proceed) write_json(&o.l, json);
    if (json && fclose(json) != 0) return EXIT_FAILED;
    return proceed ? EXIT_DONE : bench_interrupted(command.name);
}
