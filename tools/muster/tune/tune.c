/*
 * tune.c - "muster tune": measures the cost of communication between the ranks of several hosts and writes a
 * cost model for MUSTER_MODEL. Started as a rank, it measures with the other ranks. Started by hand, it
 * starts ranks on simulated hosts.
 */
#include "tune/tune.h"
#include "api/api.h"
#include "base/error.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "comm/comm_internal.h"
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MOST = 64 };

#define FIELD(name)              offsetof(struct tune_options, name), 0, 0
#define RANGE(name, least, most) offsetof(struct tune_options, name), least, most

static const struct opt options[] = {
    {"output", 'o', OPT_STRING, "FILE",
     "write the cost model there, for MUSTER_MODEL (default: standard\n"
     "output; all other text goes to standard error)",
     FIELD(output)},
    {"hosts", 'H', OPT_NUMBER, "N", "simulate N hosts on this machine (default 2)", RANGE(hosts, 2, 64)},
    {"ranks", 'n', OPT_NUMBER, "N", "with N ranks on each simulated host (default 2)", RANGE(ranks, 1, 64)},
    {"all", 'a', OPT_FLAG, NULL, "show every algorithm with its measured and predicted time", FIELD(all)},
    {"rounds", 'r', OPT_NUMBER, "N", "measure each algorithm N times (default 3)",
     RANGE(rounds, 1, TUNE_ROUNDS_MOST)},
    {"seconds", 's', OPT_SECONDS, "S", "seconds per measurement (default 0.01)", RANGE(budget, 0, 60)},
};

static const struct opt_command command = {
    .name = "muster tune",
    .operands = "",
    .summary = "Measures every collective algorithm between ranks on two or more hosts and writes a cost\n"
               "model, by which programs select algorithms (MUSTER_MODEL). Start it as you start your\n"
               "program, with 'muster run' or another launcher. By itself it starts ranks on this machine\n"
               "and simulates several hosts; then it measures the loopback interface, not your network.\n"
               "It warns if the machines are too busy for reliable results.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster tune > model                                 simulated hosts, to try it\n"
                "  muster run --hosts a,b -n 4 muster tune -o model    8 ranks on 2 hosts\n"
                "  MUSTER_MODEL=model muster run -n 4 ./program        use the model\n",
};

/* Executes `muster run`, which starts this program as ranks, with the same arguments and -n. */
static int start_ranks(const struct tune_options *wanted, int argc, char **argv) {
    char self[PATH_MAX], all[24], each[24];
    const char *args[ARGS_MOST + 10] = {self, "run", "-n", all, "--no-prefix", "--", self, "tune"};
    long ranks = wanted->ranks ? wanted->ranks : 2, n_args = 8;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = '\0';
    snprintf(all, sizeof all, "%ld", (wanted->hosts ? wanted->hosts : 2) * ranks);
    snprintf(each, sizeof each, "%ld", ranks);
    fprintf(stderr,
            "muster tune: starts %s ranks on this machine as %ld simulated hosts, for about %.0f seconds; to "
            "measure a network, start it on several hosts\n",
            all, wanted->hosts ? wanted->hosts : 2,
            5 + (double)wanted->rounds * TUNE_POINTS_MOST / 2 * wanted->budget);
    for (int i = 1; i < argc; i++) args[n_args++] = argv[i];
    args[n_args++] = "-n";
    args[n_args++] = each;
    execv(self, (char **)(uintptr_t)args);
    fprintf(stderr, "muster tune: cannot start %s: %s\n", self, strerror(errno));
    return EXIT_FAILED;
}

/* Finds the world and its hosts, and allocates the buffers. */
static mst_status set_up(struct tune *tune) {
    struct msi_comm *comm;
    tune->world = msi_call_group("muster tune", NULL, NULL);
    if (!tune->world) return mst_last_error()->status;
    mst_status st = msi_group_comm_of(tune->world, MST_MEMORY_HOST, &comm);
    if (st != MST_OK) return st;
    tune->hosts = comm->ranks.hosts;
    size_t bytes = tune_sizes[TUNE_SIZES - 1] + (size_t)tune->world->size * sizeof(float);
    tune->in = calloc(1, bytes);
    tune->out = calloc(1, bytes);
    return tune->in && tune->out ? MST_OK : msi_fail_memory();
}

static void write_comments(FILE *to, const struct tune *tune, const bool kept[MSI_COST_TERMS]) {
    char text[TUNE_TEXT];
    const char *doubt;
    fprintf(to, "# Cost model, measured by `muster tune` with %d ranks on %d %shosts.\n", tune->world->size,
            tune->hosts.n, tune->o.ranks ? "simulated " : "");
    for (int at = 0; (doubt = tune_doubt(tune, &at, text)) != NULL;)
        fprintf(to, "# Not reliable: %s.\n", doubt);
    for (int k = 0; k < MSI_COST_TERMS; k++)
        if (kept[k])
            fprintf(to, "# The default, because the measurements do not determine it: %s.\n",
                    msi_model_name(k));
}

static int write_model(const struct tune *tune, const struct msi_model *model,
                       const bool kept[MSI_COST_TERMS]) {
    const char *path = tune->o.output;
    FILE *to = path ? fopen(path, "we") : stdout;
    if (!to) {
        fprintf(stderr, "muster tune: cannot write %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    write_comments(to, tune, kept);
    msi_model_write(to, model);
    bool bad = ferror(to);
    if (path) bad |= fclose(to) != 0;
    if (bad) fprintf(stderr, "muster tune: cannot write %s\n", path ? path : "the cost model");
    if (path && !bad) fprintf(stderr, "\nWrote %s; set MUSTER_MODEL=%s for all ranks.\n", path, path);
    return bad ? EXIT_FAILED : EXIT_DONE;
}

/* Warns about what makes the model unreliable. */
static void print_warnings(const struct tune *tune, const bool kept[MSI_COST_TERMS]) {
    char text[TUNE_TEXT];
    const char *doubt;
    bool any = false;
    for (int at = 0; (doubt = tune_doubt(tune, &at, text)) != NULL; any = true)
        fprintf(stderr, "muster tune: warning: %s\n", doubt);
    if (any)
        fputs("muster tune: warning: measure again on idle machines, with one core for each rank\n", stderr);
    for (int k = 0; k < MSI_COST_TERMS; k++)
        if (kept[k])
            fprintf(stderr,
                    "muster tune: warning: the measurements do not determine %s; it has its default\n",
                    msi_model_name(k));
}

/* Only the model goes to stdout. */
static int report(const struct tune *tune) {
    struct msi_model model;
    bool kept[MSI_COST_TERMS];
    int fitted = tune_fit(tune, &model, kept);
    fprintf(stderr, "%d ranks on %d hosts%s, f32\n\n", tune->world->size, tune->hosts.n,
            tune->o.ranks ? " (simulated over the loopback interface)" : "");
    tune_report(tune, &msi_model_default, &model);
    print_warnings(tune, kept);
    if (fitted > 0) return write_model(tune, &model, kept);
    fputs("muster tune: the measurements determine nothing, so there is no model; measure again on idle "
          "machines\n",
          stderr);
    return EXIT_FAILED;
}

/* The load of the busiest machine, before the ranks add to it. */
static void read_load(struct tune *tune) {
    mst_discovery found;
    double load = 0, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) == 1) tune->load = load / cores;
    if (mst_discover(&found) == MST_OK) tune->crowd = found.local_size / cores;
}

static mst_status measure(struct tune *tune) {
    mst_status st = set_up(tune);
    if (st == MST_OK) st = mst_all_reduce(&tune->load, 1, MST_F64, .op = MST_MAX);
    if (st == MST_OK) st = mst_all_reduce(&tune->crowd, 1, MST_F64, .op = MST_MAX);
    if (st != MST_OK) return st;
    if (tune->hosts.n > 1) return tune_measure(tune, &msi_model_default);
    if (tune->world->rank == 0)
        fputs("muster tune: all ranks are on one host, where they use shared memory and no algorithm is "
              "selected; start it on several hosts, or without RANK and WORLD_SIZE to simulate hosts\n",
              stderr);
    return MST_ERR_UNSUPPORTED;
}

/* Ranks with different values of MUSTER_FORCE_HOST count as ranks of different hosts. */
static void simulate_host(const char *rank, long each) {
    char host[24];
    snprintf(host, sizeof host, "%ld", strtol(rank, NULL, 10) / each);
    setenv("MUSTER_FORCE_HOST", host, 1);
}

static int run_rank(const char *rank, struct tune *tune) {
    if (tune->o.ranks) simulate_host(rank, tune->o.ranks);
    read_load(tune);
    mst_status st = mst_init();
    if (st == MST_OK) st = measure(tune);
    if (st != MST_OK && st != MST_ERR_UNSUPPORTED) fprintf(stderr, "muster tune: %s\n", mst_error());
    int status = st != MST_OK ? EXIT_FAILED : tune->world->rank == 0 ? report(tune) : EXIT_DONE;
    free(tune->in);
    free(tune->out);
    mst_destroy_process_group(NULL);
    return status;
}

/* Looks before the measurements; leaves the file as it is. */
static bool can_write(const char *path) {
    bool existed = access(path, F_OK) == 0;
    if (output_file_check(path) != MST_OK) {
        fprintf(stderr, "muster tune: %s\n", mst_last_error()->message);
        return false;
    }
    FILE *file = fopen(path, "ae");
    if (!file) {
        fprintf(stderr, "muster tune: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    fclose(file);
    if (!existed) unlink(path);
    return true;
}

int cmd_tune(int argc, char **argv) {
    static struct tune tune;
    char *args[ARGS_MOST], **operands; /* opt_parse may change the order */
    int n;
    tune.o = (struct tune_options){.rounds = 3, .budget = 0.01};
    if (argc >= ARGS_MOST) return opt_mistake(&command, "too many arguments");
    memcpy(args, argv, (size_t)(argc + 1) * sizeof *args);
    int status = opt_parse(&command, argc, args, &tune.o, &operands, &n);
    if (status != OPT_PROCEED) return status;
    if (n > 0) return opt_mistake(&command, "unexpected argument '%s'", operands[0]);
    const char *rank = getenv("RANK");
    if (!rank && tune.o.output && !can_write(tune.o.output)) return EXIT_FAILED;
    return rank ? run_rank(rank, &tune) : start_ranks(&tune.o, argc, argv);
}
