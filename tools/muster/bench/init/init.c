/*
 * init.c - "muster bench init": the time in which a world forms, with muster, Open MPI, MPICH and torch's
 * gloo. Runs all cases in every round, so that other load on the machine affects all of them alike.
 */
#include "bench/init/init.h"
#include "bench/launch.h"
#include "cli/options.h"
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 4096, TORCH_RANKS = 16, TORCH_RANKS_ALL = 64, FILES_PER_RANK = 8, FILES_BESIDES = 256 };

struct init_options {
    const char *ranks, *peers, *python, *csv;
    long runs, threads;
    double limit, patience;
    bool all, json;
};

#define AT(field) offsetof(struct init_options, field)

static const struct opt options[] = {
    {"ranks", 'n', OPT_STRING, "LIST", "numbers of processes (default 2,16,64,256)", AT(ranks), 0, 0},
    {"threads", 't', OPT_NUMBER, "N", "number of ranks of muster that are threads; 0: none (default 1024)",
     AT(threads), 0, 16384},
    {"peers", 'p', OPT_STRING, "LIST", "some of muster,openmpi,mpich,torch (default: all)", AT(peers), 0, 0},
    {"reps", 'r', OPT_NUMBER, "N", "number of runs; the median counts (default 5)", AT(runs), 1,
     INIT_RUNS_MOST},
    {"limit", 0, OPT_SECONDS, "SECONDS", "end a command that takes longer (default 120)", AT(limit), 1,
     86400},
    {"patience", 0, OPT_SECONDS, "SECONDS",
     "no further runs of a case that has taken so long in total\n(default 30)", AT(patience), 0, 86400},
    {"all", 0, OPT_FLAG, NULL, "measure torch with up to 64 processes, not only 16", AT(all), 0, 0},
    {"python", 0, OPT_STRING, "PATH", "Python interpreter with torch (default /usr/bin/python3)", AT(python),
     0, 0},
    {"csv", 0, OPT_STRING, "FILE", "also write the figures to FILE", AT(csv), 0, 0},
    {"json", 0, OPT_FLAG, NULL, "print every sample as JSON instead of the tables", AT(json), 0, 0},
};

static const struct opt_command command = {
    "muster bench init",
    "",
    "Measures how long a world takes to form, with muster, the MPIs and torch's gloo in one run.",
    options,
    sizeof options / sizeof *options,
    false,
};

static int read_peers(struct init_bench *b, const char *list) {
    char name[32];
    while (bench_next_item(&list, name)) {
        int backend = 0;
        while (backend < INIT_PEERS && strcmp(b->peers[backend].name, name) != 0) backend++;
        if (backend == INIT_PEERS)
            return opt_mistake(&command, "--peers takes muster, openmpi, mpich and torch, not '%s'", name);
        b->peers[backend].wanted = true;
    }
    return OPT_PROCEED;
}

static int read_options(struct init_bench *b, const struct init_options *o) {
    static const struct bench_peer all[INIT_BACKENDS] = {
        [INIT_MUSTER] = {.name = "muster", .label = "muster", .most = RANKS_MOST},
        [INIT_OPENMPI] = {.name = "openmpi", .label = "Open MPI", .most = RANKS_MOST},
        [INIT_MPICH] = {.name = "mpich", .label = "MPICH", .most = RANKS_MOST},
        [INIT_TORCH] = {.name = "torch", .label = "torch gloo", .most = TORCH_RANKS},
        [INIT_THREADS_HASH] = {.name = "threads-hash", .label = "hash:// store", .wanted = true},
        [INIT_THREADS_TCP] = {.name = "threads-tcp", .label = "tcp:// store", .wanted = true},
    };
    memcpy(b->peers, all, sizeof all);
    if (o->all) b->peers[INIT_TORCH].most = TORCH_RANKS_ALL;
    b->runs = (int)o->runs;
    b->limit = o->limit;
    b->patience = o->patience;
    int status = bench_read_numbers(&command, "--ranks", o->ranks, RANKS_MOST, &b->sizes);
    return status == OPT_PROCEED ? read_peers(b, o->peers) : status;
}

static void add_case(struct init_bench *b, enum init_backend backend, int ranks) {
    const struct bench_peer *peer = &b->peers[backend];
    if (!peer->wanted || peer->why_not[0] != '\0') return;
    b->cases[b->n_cases++] = (struct init_case){.backend = backend, .ranks = ranks};
}

static bool list_cases(struct init_bench *b, int threads) {
    b->cases = calloc((size_t)b->sizes.n * INIT_PEERS + INIT_BACKENDS, sizeof b->cases[0]);
    if (!b->cases) return false;
    for (int i = 0; i < b->sizes.n; i++)
        for (int backend = 0; backend < INIT_PEERS; backend++)
            if (b->sizes.at[i] <= b->peers[backend].most)
                add_case(b, (enum init_backend)backend, b->sizes.at[i]);
    for (int backend = INIT_PEERS; backend < INIT_BACKENDS && threads > 0; backend++)
        add_case(b, (enum init_backend)backend, threads);
    return true;
}

/* Adds a run from the timestamps of its ranks: the last start and the last end count. */
static bool read_timestamps(struct init_case *c, const char *timestamps, double wall) {
    FILE *file = fopen(timestamps, "re");
    long long start, end, last_start = 0, last_end = 0;
    int n = 0;
    for (; file && fscanf(file, "%lld %lld", &start, &end) == 2; n++) {
        if (start > last_start) last_start = start;
        if (end > last_end) last_end = end;
    }
    if (file) fclose(file);
    if (n != c->ranks) {
        snprintf(c->why, sizeof c->why, "%d of %d ranks wrote their timestamps", n, c->ranks);
        return false;
    }
    c->barrier[c->runs] = (double)(last_end - last_start) / 1e9;
    c->wall[c->runs++] = wall;
    return true;
}

/* One run of one case. False: the user interrupts. */
static bool run_case(struct init_bench *b, struct init_case *c, int run) {
    char timestamps[96], output[96], line[BENCH_WHY_MAX];
    struct bench_argv argv = {.n = 0};
    if (c->outcome != INIT_FINE || (c->runs > 0 && c->spent >= b->patience)) return true;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Krun %d of %d: %s, %d ranks", run + 1, b->runs, b->peers[c->backend].label,
                c->ranks);
    snprintf(timestamps, sizeof timestamps, "%s/timestamps.%d.%d", b->dir, (int)(c - b->cases), run);
    snprintf(output, sizeof output, "%s/output", b->dir);
    init_peer_command(b, c, timestamps, &argv);
    struct launch_result result = launch_run(argv.args, output, b->limit);
    c->spent += result.wall;
    if (result.end == LAUNCH_INTERRUPTED) return false;
    if (result.end == LAUNCH_TIME_UP) {
        c->outcome = INIT_TOO_SLOW;
    } else if (result.end == LAUNCH_NOT_STARTED || result.status != 0) {
        c->outcome = INIT_FAILED;
        snprintf(c->why, sizeof c->why, "%s", launch_last_line(output, line, sizeof line));
    } else if (!read_timestamps(c, timestamps, result.wall)) {
        c->outcome = INIT_FAILED;
    }
    return true;
}

static bool run_all(struct init_bench *b) {
    bool proceed = true;
    for (int run = 0; run < b->runs && proceed; run++)
        for (int i = 0; i < b->n_cases && proceed; i++) proceed = run_case(b, &b->cases[i], run);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
    return proceed;
}

/*
 * A launcher has several open files per rank. Not higher than needed, because some programs close all
 * possible ones.
 */
static void raise_file_limit(const struct init_bench *b) {
    int most = 0;
    for (int i = 0; i < b->sizes.n; i++)
        if (b->sizes.at[i] > most) most = b->sizes.at[i];
    bench_raise_file_limit((size_t)most * FILES_PER_RANK + FILES_BESIDES);
}

static int measure(struct init_bench *b, const struct init_options *o) {
    raise_file_limit(b);
    bool proceed = init_peers_prepare(b, o->python);
    bool listed = proceed && list_cases(b, (int)o->threads);
    if (listed) proceed = run_all(b);
    peers_remove_dir(b->dir);
    launch_close();
    if (proceed && !listed) return opt_mistake(&command, "out of memory");
    if (!proceed) {
        fprintf(stderr, "muster bench init: interrupted\n");
        return EXIT_SIGNAL + launch_signal();
    }
    int status = EXIT_DONE;
    for (int i = 0; i < b->n_cases; i++)
        if (b->cases[i].backend == INIT_MUSTER || b->cases[i].backend >= INIT_PEERS)
            if (b->cases[i].outcome != INIT_FINE) status = EXIT_FAILED;
    return status;
}

int bench_init(int argc, char **argv) {
    struct init_options o = {.ranks = "2,16,64,256",
                             .peers = "muster,openmpi,mpich,torch",
                             .python = "/usr/bin/python3",
                             .runs = 5,
                             .threads = 1024,
                             .limit = 120,
                             .patience = 30};
    struct init_bench b = {0};
    FILE *csv = NULL;
    if (argc > 1 && (strcmp(argv[1], "--worker") == 0 || strcmp(argv[1], "--thread-ranks") == 0))
        return init_worker(argc, argv);
    int status = bench_parse(&command, argc, argv, &o);
    if (status == OPT_PROCEED) status = read_options(&b, &o);
    if (status == OPT_PROCEED) status = bench_open_output(&command, o.csv, &csv);
    if (status != OPT_PROCEED) return status;
    ssize_t len = readlink("/proc/self/exe", b.self, sizeof b.self - 1);
    if (len < 0) return opt_mistake(&command, "cannot find this program: %s", strerror(errno));
    launch_open();
    if (!peers_open_dir(b.dir)) return opt_mistake(&command, "cannot create %s: %s", b.dir, strerror(errno));
    status = measure(&b, &o);
    if (b.cases && status < EXIT_SIGNAL) {
        (o.json ? init_print_json : init_print_tables)(&b);
        if (csv) init_write_csv(&b, csv);
    }
    if (csv) fclose(csv);
    free(b.cases);
    return status;
}
