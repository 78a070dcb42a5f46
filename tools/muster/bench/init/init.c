/*
 * init.c - "muster bench init": the time in which a world forms, with muster, Open MPI, MPICH and torch's
 * gloo. Runs all cases in every round, so that other load on the machine affects all of them alike.
 */
#include "bench/init/init.h"
#include "cli/options.h"
#include "commands.h"

#include <string.h>
#include <unistd.h>

enum { RANKS_MOST = 4096, TORCH_RANKS = 16, TORCH_RANKS_ALL = 64, FILES_PER_RANK = 8, FILES_BESIDES = 256 };

extern const char bench_mpi_init_c[], bench_torch_init_py[];

#define AT(field) offsetof(struct init_options, field)

static const struct opt options[] = {
    {"ranks", 'n', OPT_STRING, "LIST", "numbers of processes (default 2,16,64,256)", AT(ranks), 0, 0},
    {"threads", 't', OPT_NUMBER, "N", "number of ranks of muster that are threads; 0: none (default 1024)",
     AT(threads), 0, 16384},
    {"peers", 'p', OPT_STRING, "muster|openmpi|mpich|torch,...", "measure these only (default: all)",
     AT(peers), 0, 0},
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
    .name = "muster bench init",
    .operands = "",
    .summary = "Measures how long a world takes to form, with muster, the MPIs and torch's gloo in one run.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster bench init --ranks 2,16 --peers muster,openmpi\n",
};

static int read_peers(struct init_bench *b, const char *list) {
    char name[32];
    while (bench_next_item(&list, ',', name)) {
        int backend = 0;
        while (backend < INIT_PEERS && strcmp(b->peers[backend].name, name) != 0) backend++;
        if (backend == INIT_PEERS)
            return opt_mistake(&command, "--peers takes muster, openmpi, mpich and torch, not '%s'", name);
        b->wanted[backend] = true;
    }
    return OPT_PROCEED;
}

static int read_options(struct init_bench *b, int argc, char **argv) {
    static const struct bench_peer all[INIT_BACKENDS] = {
        [INIT_MUSTER] = {"muster", "muster", "native", BENCH_MUSTER},
        [INIT_OPENMPI] = {"openmpi", "Open MPI", NULL, BENCH_MPI, .openmpi = true},
        [INIT_MPICH] = {"mpich", "MPICH", NULL, BENCH_MPI},
        [INIT_TORCH] = {"torch", "torch gloo", NULL, BENCH_TORCH},
        [INIT_THREADS_HASH] = {"threads-hash", "hash:// store", "native", BENCH_MUSTER},
        [INIT_THREADS_TCP] = {"threads-tcp", "tcp:// store", "native", BENCH_MUSTER},
    };
    memcpy(b->peers, all, sizeof all);
    b->o = (struct init_options){.ranks = "2,16,64,256",
                                 .peers = "muster,openmpi,mpich,torch",
                                 .python = "/usr/bin/python3",
                                 .runs = 5,
                                 .threads = 1024,
                                 .limit = 120,
                                 .patience = 30};
    int status = bench_parse(&command, argc, argv, &b->o);
    b->torch_most = b->o.all ? TORCH_RANKS_ALL : TORCH_RANKS;
    b->wanted[INIT_THREADS_HASH] = b->wanted[INIT_THREADS_TCP] = b->o.threads > 0;
    if (status == OPT_PROCEED)
        status = bench_read_numbers(&command, "--ranks", b->o.ranks, RANKS_MOST, &b->sizes);
    return status == OPT_PROCEED ? read_peers(b, b->o.peers) : status;
}

/* Prepares the wanted backends or sets their why_not. False: the user interrupts. */
static bool prepare(struct init_bench *b) {
    static const struct bench_source mpi[] = {{"mpi_init.c", bench_mpi_init_c}, {NULL, NULL}};
    static const struct bench_source torch[] = {{"torch_init.py", bench_torch_init_py}, {NULL, NULL}};
    for (int backend = 0; backend < INIT_BACKENDS; backend++)
        if (b->wanted[backend] && !peers_prepare(&b->peers[backend], &b->place, mpi, torch)) return false;
    return true;
}

static void add_case(struct init_bench *b, enum init_backend backend, int ranks) {
    if (!b->wanted[backend] || b->peers[backend].why_not[0] != '\0') return;
    if (backend == INIT_TORCH && ranks > b->torch_most) return;
    b->cases[b->n_cases++] = (struct init_case){.backend = backend, .ranks = ranks};
}

static void list_cases(struct init_bench *b) {
    for (int i = 0; i < b->sizes.n; i++)
        for (int backend = 0; backend < INIT_PEERS; backend++)
            add_case(b, (enum init_backend)backend, b->sizes.at[i]);
    add_case(b, INIT_THREADS_HASH, (int)b->o.threads);
    add_case(b, INIT_THREADS_TCP, (int)b->o.threads);
}

static void add_command(const struct init_bench *b, const struct init_case *c, const char *timestamps,
                        struct bench_argv *argv) {
    const char *self = b->place.self;
    if (c->backend >= INIT_PEERS) {
        snprintf(argv->ranks, sizeof argv->ranks, "%d", c->ranks);
        peers_add(argv, self, "bench", "init", "--thread-ranks", timestamps, argv->ranks,
                  c->backend == INIT_THREADS_TCP ? "tcp" : "hash");
        return;
    }
    peers_add_launcher(argv, &b->place, &b->peers[c->backend], c->ranks, 1);
    if (c->backend == INIT_MUSTER) peers_add(argv, self, "bench", "init", "--worker");
    peers_add(argv, timestamps);
}

/* Adds a run from the timestamps of its ranks: the last start and the last end count. */
static void read_timestamps(struct init_case *c, const char *timestamps, double wall) {
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
        c->outcome = LAUNCH_FAILED;
        return;
    }
    c->samples[INIT_BARRIER][c->runs] = (double)(last_end - last_start) / 1e9;
    c->samples[INIT_WALL][c->runs++] = wall;
}

/* One run of one case. False: the user interrupts. */
static bool run_case(struct init_bench *b, struct init_case *c, int run) {
    char timestamps[96];
    struct bench_argv argv = {.n = 0};
    struct launch_result result;
    if (c->outcome != LAUNCH_DONE || (c->runs > 0 && c->spent >= b->o.patience)) return true;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Krun %d of %ld: %s, %d ranks", run + 1, b->o.runs, b->peers[c->backend].label,
                c->ranks);
    snprintf(timestamps, sizeof timestamps, "%s/timestamps.%d.%d", b->place.dir, (int)(c - b->cases), run);
    add_command(b, c, timestamps, &argv);
    launch_run(argv.args, b->o.limit, &result);
    c->spent += result.wall;
    c->outcome = result.end;
    snprintf(c->why, sizeof c->why, "%s", result.why);
    if (result.end == LAUNCH_DONE) read_timestamps(c, timestamps, result.wall);
    return result.end != LAUNCH_INTERRUPTED;
}

static bool run_all(struct init_bench *b) {
    bool proceed = true;
    for (int run = 0; run < b->o.runs && proceed; run++)
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

static int measure(struct init_bench *b) {
    fprintf(stderr,
            "muster bench init: starts worlds of %s processes on this machine, %ld times each, with %s; a "
            "library "
            "gets at most %.0f seconds for each size\n",
            b->o.ranks, b->o.runs, b->o.peers ? b->o.peers : "muster, openmpi, mpich and torch",
            b->o.patience);
    raise_file_limit(b);
    bool proceed = prepare(b);
    list_cases(b);
    proceed = proceed && run_all(b);
    peers_close(&b->place);
    if (!proceed) return bench_interrupted(command.name);
    int status = EXIT_DONE;
    for (int i = 0; i < b->n_cases; i++)
        if (b->peers[b->cases[i].backend].engine && b->cases[i].outcome != LAUNCH_DONE) status = EXIT_FAILED;
    return status;
}

int bench_init(int argc, char **argv) {
    static struct init_bench b;
    FILE *csv = NULL;
    if (argc > 1 && (strcmp(argv[1], "--worker") == 0 || strcmp(argv[1], "--thread-ranks") == 0))
        return init_worker(argc, argv);
    int status = read_options(&b, argc, argv);
    if (status == OPT_PROCEED) status = bench_open_output(&command, b.o.csv, &csv);
    if (status != OPT_PROCEED) return status;
    if (!peers_open(&b.place, b.o.python)) return EXIT_FAILED;
    status = measure(&b);
    if (status < EXIT_SIGNAL) {
        (b.o.json ? init_print_json : init_print_tables)(&b);
        if (csv) init_write_csv(&b, csv);
    }
    if (csv) fclose(csv);
    return status;
}
