/*
 * tune.c - "muster tune": measures what communication costs between the ranks of several hosts, and writes it down for
 * MUSTER_MODEL. Started as a rank, it measures with the other ranks; started by hand, it pretends that there are hosts.
 */
#include "tune/tune.h"
#include "api/api.h"
#include "base/error.h"
#include "cli/options.h"
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MOST = 64 };

struct tune_options {
    const char *output;
    bool all;
    long hosts, ranks, rounds;
    double budget;
};

static const struct opt options[] = {
    {"output", 'o', OPT_STRING, "FILE", "write the prices there, for MUSTER_MODEL (default: to the screen)",
     offsetof(struct tune_options, output), 0, 0},
    {"hosts", 'H', OPT_NUMBER, "N", "pretend that there are so many hosts (by hand: 2)",
     offsetof(struct tune_options, hosts), 2, 64},
    {"ranks", 'n', OPT_NUMBER, "N", "… and so many ranks on each (by hand: 2)",
     offsetof(struct tune_options, ranks), 1, 64},
    {"all", 'a', OPT_FLAG, NULL, "show every algorithm, measured and as the prices have it",
     offsetof(struct tune_options, all), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "how often each algorithm takes its turn (default 3)",
     offsetof(struct tune_options, rounds), 1, TUNE_ROUNDS_MOST},
    {"seconds", 's', OPT_SECONDS, "S", "time for each turn (default 0.01)",
     offsetof(struct tune_options, budget), 0, 60},
};

static const struct opt_command command = {
    "muster tune",
    "",
    "Measures every algorithm between the ranks that it is started as, on two hosts or more, and finds the "
    "prices\n"
    "by which MUSTER_MODEL makes programs choose among them. Start it as you start your program, such as\n"
    "with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; without them it starts ranks here and pretends\n"
    "that they are on several hosts: what is remote is then this machine's loopback, not your network.",
    options,
    sizeof options / sizeof *options,
    false,
};

/* Becomes `muster run`, which starts this program again as ranks: with the same words, and how many are on each host. */
static int start_ranks(const struct tune_options *wanted, int argc, char **argv) {
    char self[PATH_MAX], all[24], each[24];
    const char *words[WORDS_MOST + 10] = {self, "run", "-n", all, "--", self, "tune"};
    long ranks = wanted->ranks ? wanted->ranks : 2, n_words = 7;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = '\0';
    snprintf(all, sizeof all, "%ld", (wanted->hosts ? wanted->hosts : 2) * ranks);
    snprintf(each, sizeof each, "%ld", ranks);
    for (int i = 1; i < argc; i++) words[n_words++] = argv[i];
    words[n_words++] = "-n";
    words[n_words++] = each;
    execv(self, (char **)(uintptr_t)words);
    fprintf(stderr, "muster tune: cannot start %s: %s\n", self, strerror(errno));
    return EXIT_FAILED;
}

/* Fills in who is where. */
static mst_status look_around(struct tune *tune) {
    tune->world = msi_call_group("muster tune", NULL, NULL);
    if (!tune->world) return mst_last_error()->status;
    const struct msi_members *members = &tune->world->world->members;
    tune->rank = tune->world->rank;
    tune->size = tune->world->size;
    int *of = malloc((size_t)tune->size * sizeof *of);
    if (!of) return msi_fail_memory();
    tune->hosts = (struct msi_hosts){.n = members->host_count, .of = of};
    for (int r = 0; r < tune->size; r++) {
        of[r] = members->members[r].host;
        if (members->local_sizes[of[r]] > tune->hosts.largest)
            tune->hosts.largest = members->local_sizes[of[r]];
    }
    size_t bytes = tune_sizes[TUNE_SIZES - 1] + (size_t)tune->size * sizeof(float);
    tune->in = calloc(1, bytes);
    tune->out = calloc(1, bytes);
    return tune->in && tune->out ? MST_OK : msi_fail_memory();
}

static int write_prices(const char *path, const struct tune *tune, bool pretended,
                        const struct msi_model *model) {
    FILE *to = path ? fopen(path, "we") : stdout;
    if (!to) {
        fprintf(stderr, "muster tune: cannot write %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    fprintf(to, "# What communication costs, measured by `muster tune` with %d ranks on %d %shosts.\n",
            tune->size, tune->hosts.n, pretended ? "pretended " : "");
    msi_model_write(to, model);
    bool bad = ferror(to);
    if (path) bad |= fclose(to) != 0;
    if (bad) fprintf(stderr, "muster tune: cannot write %s\n", path ? path : "the prices");
    if (path && !bad) printf("\nWritten to %s: give it to all ranks as MUSTER_MODEL=%s.\n", path, path);
    return bad ? EXIT_FAILED : EXIT_DONE;
}

static int tell(const struct tune *tune, const struct tune_options *wanted) {
    bool pretended = wanted->ranks > 0;
    struct msi_model model = msi_model_default;
    tune_fit(tune, &model);
    printf("%d ranks on %d hosts%s, f32\n\n", tune->size, tune->hosts.n,
           pretended ? " that are pretended: what is remote is this machine's loopback" : "");
    tune_report(tune, &msi_model_default, &model, wanted->all);
    if (!wanted->output) printf("\n");
    return write_prices(wanted->output, tune, pretended, &model);
}

static mst_status measure(struct tune *tune) {
    mst_status st = look_around(tune);
    if (st != MST_OK) return st;
    if (tune->hosts.n > 1) return tune_measure(tune, &msi_model_default);
    if (tune->rank == 0)
        fputs("muster tune: all ranks are on one host, where shared memory is used directly and there is no "
              "choice;\n"
              "start it on several, or without RANK and WORLD_SIZE to pretend them\n",
              stderr);
    return MST_ERR_UNSUPPORTED;
}

/* Ranks with different values of this setting count as ranks of different hosts. */
static void part_ranks(const char *rank, long each) {
    char host[24];
    snprintf(host, sizeof host, "%ld", strtol(rank, NULL, 10) / each);
    setenv("MUSTER_FORCE_HOST", host, 1);
}

static int run_rank(const char *rank, const struct tune_options *wanted) {
    struct tune *tune = calloc(1, sizeof *tune);
    if (!tune) {
        fputs("muster tune: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    tune->rounds = (int)wanted->rounds;
    tune->budget = wanted->budget;
    if (wanted->ranks) part_ranks(rank, wanted->ranks);
    mst_status st = mst_init();
    if (st == MST_OK) st = measure(tune);
    if (st != MST_OK && st != MST_ERR_UNSUPPORTED) fprintf(stderr, "muster tune: %s\n", mst_error());
    int status = st != MST_OK ? EXIT_FAILED : tune->rank == 0 ? tell(tune, wanted) : EXIT_DONE;
    free((void *)(uintptr_t)tune->hosts.of);
    free(tune->in);
    free(tune->out);
    free(tune);
    mst_destroy_process_group(NULL);
    return status;
}

int cmd_tune(int argc, char **argv) {
    struct tune_options wanted = {.rounds = 3, .budget = 0.01};
    char *words[WORDS_MOST], **operands; /* what is read may be put into another order */
    int n;
    if (argc >= WORDS_MOST) return opt_mistake(&command, "too many arguments");
    memcpy(words, argv, (size_t)(argc + 1) * sizeof *words);
    int status = opt_parse(&command, argc, words, &wanted, &operands, &n);
    if (status != OPT_PROCEED) return status;
    if (n > 0) return opt_mistake(&command, "unexpected argument '%s'", operands[0]);
    const char *rank = getenv("RANK");
    return rank ? run_rank(rank, &wanted) : start_ranks(&wanted, argc, argv);
}
