/*
 * init.c - "muster bench init": how long a world takes to form, beside Open MPI, MPICH and torch's
 * gloo. Reads the command line and runs every case in turn, again and again, so that whatever else the
 * machine does disturbs all sides alike.
 */
#include "bench/init/init.h"
#include "bench/bench.h"
#include "bench/launch.h"
#include "cli/options.h"
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    {"threads", 't', OPT_NUMBER, "N", "thread-ranks of muster alone; 0: none (default 1024)", AT(threads), 0,
     16384},
    {"peers", 'p', OPT_STRING, "LIST", "some of muster,openmpi,mpich,torch (default: all)", AT(peers), 0, 0},
    {"reps", 'r', OPT_NUMBER, "N", "how often everyone has a turn (default 5)", AT(runs), 1, INIT_RUNS_MOST},
    {"limit", 0, OPT_SECONDS, "SECONDS", "what takes longer than this is given up (default 120)", AT(limit),
     1, 86400},
    {"patience", 0, OPT_SECONDS, "SECONDS",
     "no further turns for a case that has taken so long in all (default 30)", AT(patience), 0, 86400},
    {"all", 0, OPT_FLAG, NULL, "torch with up to 64 processes; else with up to 16", AT(all), 0, 0},
    {"python", 0, OPT_STRING, "PATH", "the interpreter that has torch (default /usr/bin/python3)", AT(python),
     0, 0},
    {"csv", 0, OPT_STRING, "FILE", "also write the figures to this file", AT(csv), 0, 0},
    {"json", 0, OPT_FLAG, NULL, "print every sample as JSON instead of the tables", AT(json), 0, 0},
};

static const struct opt_command command = {
    "muster bench init",
    "",
    "Measures how long a world takes to form, beside the MPIs and torch's gloo in one run.",
    options,
    sizeof options / sizeof *options,
    false,
};

static int read_sizes(struct init_bench *b, const char *list) {
    char word[32];
    long long n;

    while (peers_next_word(&list, word)) {
        if (!opt_read_number(word, 1, RANKS_MOST, &n))
            return opt_mistake(&command, "--ranks takes numbers from 1 to %d, not '%s'", RANKS_MOST, word);
        if (b->n_sizes == INIT_SIZES_MOST)
            return opt_mistake(&command, "--ranks takes at most %d numbers", INIT_SIZES_MOST);
        b->sizes[b->n_sizes++] = (int)n;
    }
    return OPT_PROCEED;
}

static int read_peers(struct init_bench *b, const char *list) {
    char word[32];

    while (peers_next_word(&list, word)) {
        int who = 0;
        while (who < INIT_PEERS && strcmp(b->peers[who].name, word) != 0) who++;
        if (who == INIT_PEERS)
            return opt_mistake(&command, "--peers takes some of muster,openmpi,mpich,torch, not '%s'", word);
        b->peers[who].wanted = true;
    }
    return OPT_PROCEED;
}

static int read_options(struct init_bench *b, const struct init_options *o) {
    static const struct bench_peer all[INIT_WHO_COUNT] = {
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
    int status = read_sizes(b, o->ranks);
    return status == OPT_PROCEED ? read_peers(b, o->peers) : status;
}

static void add_case(struct init_bench *b, enum init_who who, int ranks) {
    const struct bench_peer *peer = &b->peers[who];

    if (!peer->wanted || peer->why_not[0] != '\0') return;
    b->cases[b->n_cases++] = (struct init_case){.who = who, .ranks = ranks};
}

static bool list_cases(struct init_bench *b, int threads) {
    b->cases = calloc((size_t)b->n_sizes * INIT_PEERS + INIT_WHO_COUNT, sizeof b->cases[0]);
    if (b->cases == NULL) return false;
    for (int i = 0; i < b->n_sizes; i++)
        for (int who = 0; who < INIT_PEERS; who++)
            if (b->sizes[i] <= b->peers[who].most) add_case(b, (enum init_who)who, b->sizes[i]);
    for (int who = INIT_PEERS; who < INIT_WHO_COUNT && threads > 0; who++)
        add_case(b, (enum init_who)who, threads);
    return true;
}

/* Adds a run from what its ranks noted: the last beginning and the last end count. */
static bool take_marks(struct init_case *c, const char *marks, double wall) {
    FILE *file = fopen(marks, "re");
    long long start, end, last_start = 0, last_end = 0;
    int n = 0;

    for (; file != NULL && fscanf(file, "%lld %lld", &start, &end) == 2; n++) {
        if (start > last_start) last_start = start;
        if (end > last_end) last_end = end;
    }
    if (file != NULL) fclose(file);
    if (n != c->ranks) {
        snprintf(c->why, sizeof c->why, "%d of %d ranks said how long they took", n, c->ranks);
        return false;
    }
    c->barrier[c->runs] = (double)(last_end - last_start) / 1e9;
    c->wall[c->runs++] = wall;
    return true;
}

/* One run of one case; false if the user wants to end. */
static bool run_case(struct init_bench *b, struct init_case *c, int turn) {
    char marks[96], output[96], number[16], line[BENCH_WHY_MAX];
    const char *argv[INIT_ARGV_MAX];

    if (c->outcome != INIT_FINE || (c->runs > 0 && c->spent >= b->patience)) return true;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kturn %d of %d: %s, %d ranks", turn + 1, b->runs, b->peers[c->who].label,
                c->ranks);
    snprintf(marks, sizeof marks, "%s/marks.%d.%d", b->dir, (int)(c - b->cases), turn);
    snprintf(output, sizeof output, "%s/output", b->dir);
    init_peer_command(b, c, marks, number, argv);
    struct launch_result result = launch_run(argv, output, b->limit);
    c->spent += result.wall;
    if (result.end == LAUNCH_STOPPED) return false;
    if (result.end == LAUNCH_TIME_UP) {
        c->outcome = INIT_TOO_SLOW;
    } else if (result.end == LAUNCH_NOT_STARTED || result.status != 0) {
        c->outcome = INIT_FAILED;
        snprintf(c->why, sizeof c->why, "%s", launch_last_line(output, line, sizeof line));
    } else if (!take_marks(c, marks, result.wall)) {
        c->outcome = INIT_FAILED;
    }
    return true;
}

static bool run_all(struct init_bench *b) {
    bool proceed = true;

    for (int turn = 0; turn < b->runs && proceed; turn++)
        for (int i = 0; i < b->n_cases && proceed; i++) proceed = run_case(b, &b->cases[i], turn);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
    return proceed;
}

/* A launcher holds several files per rank. Not higher than needed: some walk through all there may be. */
static void raise_file_limit(const struct init_bench *b) {
    struct rlimit limit;
    int most = 0;

    for (int i = 0; i < b->n_sizes; i++)
        if (b->sizes[i] > most) most = b->sizes[i];
    rlim_t wish = (rlim_t)most * FILES_PER_RANK + FILES_BESIDES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wish) return;
    limit.rlim_cur = wish < limit.rlim_max ? wish : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
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
        if (b->cases[i].who == INIT_MUSTER || b->cases[i].who >= INIT_PEERS)
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
    char **operands;
    int n;

    if (argc > 1 && (strcmp(argv[1], "--worker") == 0 || strcmp(argv[1], "--thread-ranks") == 0))
        return init_worker(argc, argv);
    int status = opt_parse(&command, argc, argv, &o, &operands, &n);
    if (status != OPT_PROCEED) return status;
    if (n > 0) return opt_mistake(&command, "'%s' is not expected here", operands[0]);
    status = read_options(&b, &o);
    if (status != OPT_PROCEED) return status;
    ssize_t len = readlink("/proc/self/exe", b.self, sizeof b.self - 1);
    if (len < 0) return opt_mistake(&command, "cannot find this program: %s", strerror(errno));
    FILE *csv = o.csv != NULL ? fopen(o.csv, "we") : NULL;
    if (o.csv != NULL && csv == NULL)
        return opt_mistake(&command, "cannot write to %s: %s", o.csv, strerror(errno));
    launch_open();
    if (!peers_open_dir(b.dir)) return opt_mistake(&command, "cannot make %s: %s", b.dir, strerror(errno));
    status = measure(&b, &o);
    if (b.cases != NULL && status < EXIT_SIGNAL) {
        (o.json ? init_print_json : init_print_tables)(&b);
        if (csv != NULL) init_write_csv(&b, csv);
    }
    if (csv != NULL) fclose(csv);
    free(b.cases);
    return status;
}
