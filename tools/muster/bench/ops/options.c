/* options.c - the command line of "muster bench OPERATION". See ops.h. */
#include "cli/options.h"
#include "base/nearest.h"
#include "base/settings.h"
#include "base/units.h"
#include "bench/bench.h"
#include "bench/ops/ops.h"

#include <string.h>
#include <sys/stat.h>

static const int64_t largest = (int64_t)4 << 30;

#define AT(field) offsetof(struct ops_options, field)

static const struct opt options[] = {
    {"backend", 'b', OPT_STRING, "BACKEND,...",
     "through muster: native, mpi, mpi:openmpi, mpi:mpich, gloo, nccl,\n"
     "and modules in MUSTER_BACKEND_PATH; called directly:\n"
     "openmpi, mpich, torch, and the MPIs with other settings:\n"
     "openmpi:nocma, openmpi:sm, openmpi:ucx, mpich:nocma\n"
     "(default native,openmpi,mpich)",
     AT(backends), 0, 0},
    {"ranks", 'n', OPT_STRING, "N,...", "numbers of ranks (default 2)", AT(ranks), 0, 0},
    {"bytes", 0, OPT_STRING, "MIN:MAX:N",
     "sizes from MIN to MAX, each N times the previous one; 1M is one\nsize (default 4:64M:4)", AT(bytes), 0,
     0},
    {"dtype", 't', OPT_STRING, "DTYPE,...", "f32, bf16, f16, f64, i32, ... (default f32)", AT(dtypes), 0, 0},
    {"buffers", 0, OPT_STRING, "hot|rotate|symmetric,...",
     "hot: the same in each call; rotate: several sets, larger than the\ncache; symmetric: from mst_alloc "
     "(default hot)",
     AT(buffers), 0, 0},
    {"place", 0, OPT_STRING, "out|in|both",
     "with separate buffers for input and output, in place, or both\n"
     "(default: both for one backend, out to compare several)",
     AT(place), 0, 0},
    {"hosts-simulated", 0, OPT_NUMBER, "N", "divide the ranks among N simulated hosts (default 1)", AT(hosts),
     1, OPS_RANKS_MOST},
    {"bind", 0, OPT_FLAG, NULL,
     "bind each rank to a processor; gloo and torch, whose ranks have\n"
     "several threads, are always measured bound and unbound, and the\n"
     "faster of the two is shown",
     AT(bind), 0, 0},
    {"limits", 0, OPT_FLAG, NULL, "also show the least possible time and each backend's share of it",
     AT(limits), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "number of trials of each backend (default 3)", AT(rounds), 1,
     OPS_ROUNDS_MOST},
    {"seconds", 's', OPT_SECONDS, "SECONDS", "time to measure one size in a trial (default 0.1)", AT(budget),
     0, 3600},
    {"limit", 0, OPT_SECONDS, "SECONDS", "end a trial that takes longer (default 120)", AT(limit), 1, 86400},
    {"python", 0, OPT_STRING, "PATH", "Python interpreter with torch (default /usr/bin/python3)", AT(python),
     0, 0},
    {"json", 0, OPT_STRING, "FILE", "also write the figures to FILE, a JSON object per line", AT(json), 0, 0},
    {"csv", 0, OPT_STRING, "FILE", "also write the figures to FILE as CSV", AT(csv), 0, 0},
    {"plot", 0, OPT_STRING, "FILE", "draw latency and bandwidth over size as SVG", AT(plot), 0, 0},
};

static const struct opt_command command = {
    .name = "muster bench",
    .operands = "operation ...",
    .summary = "Measures operations with one or more backends in one run; 'muster bench' lists the choices.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples =
        "  muster bench all_reduce                             muster and the installed MPIs, 2 ranks\n"
        "  muster bench all_reduce -b native -n 4 --bytes 1M   muster alone, one size\n"
        "  muster bench all --json all.json --plot all.svg     everything, with a chart\n",
};

/* near is a similar name, or NULL. */
static int unknown(const char *kind, const char *item, const char *near) {
    if (near) return opt_mistake(&command, "unknown %s '%s'; did you mean '%s'?", kind, item, near);
    return opt_mistake(&command, "unknown %s '%s'; 'muster bench' lists the choices", kind, item);
}

static int read_ops(struct ops_bench *b, char **names, int n) {
    for (int i = 0; i < n; i++) {
        int op = 0;
        while (op < LOOP_OPS && strcmp(loop_op_names[op], names[i]) != 0) op++;
        if (op < LOOP_OPS)
            b->ops[op] = true;
        else if (strcmp(names[i], "all") == 0)
            memset(b->ops, true, sizeof b->ops);
        else
            return unknown("operation", names[i],
                           msi_nearest(names[i], loop_op_names, LOOP_OPS, sizeof loop_op_names[0]));
    }
    return n > 0 ? OPT_PROCEED : opt_mistake(&command, "name an operation, or 'all'");
}

static int unknown_backend(const char *item, const char *near) {
    if (near) return unknown("backend", item, near);
    return opt_mistake(&command,
                       "unknown backend '%s'; known are %s %s; modules mst_backend_%s.so are searched in "
                       "MUSTER_BACKEND_PATH",
                       item, ops_backend_names(true), ops_backend_names(false), item);
}

static int read_backends(struct ops_bench *b, const char *list) {
    char item[32];
    const char *near;
    while (bench_next_item(&list, ',', item)) {
        struct bench_peer backend;
        if (!ops_find_backend(item, &backend, &near)) return unknown_backend(item, near);
        for (int i = 0; i < b->n_backends; i++)
            if (strcmp(b->backends[i].name, item) == 0)
                return opt_mistake(&command, "--backend has '%s' twice", item);
        if (backend.settings && b->o.hosts > 1)
            return opt_mistake(&command, "%s is for one host, without --hosts-simulated", item);
        if (b->n_backends == OPS_BACKENDS_MOST)
            return opt_mistake(&command, "--backend takes at most %d names", OPS_BACKENDS_MOST);
        b->backends[b->n_backends++] = backend;
    }
    return b->n_backends > 0 ? OPT_PROCEED : opt_mistake(&command, "--backend needs a name");
}

static int read_dtypes(struct ops_bench *b, const char *list) {
    char item[32];
    while (bench_next_item(&list, ',', item)) {
        int i = 0;
        while (i < LOOP_DTYPES && strcmp(loop_dtypes[i].name, item) != 0) i++;
        if (i == LOOP_DTYPES)
            return unknown("dtype", item, msi_nearest(item, loop_dtypes, LOOP_DTYPES, sizeof loop_dtypes[0]));
        for (int k = 0; k < b->n_dtypes; k++)
            if (b->dtypes[k] == &loop_dtypes[i]) return opt_mistake(&command, "--dtype has '%s' twice", item);
        b->dtypes[b->n_dtypes++] = &loop_dtypes[i];
    }
    return b->n_dtypes > 0 ? OPT_PROCEED : opt_mistake(&command, "--dtype needs a name");
}

static int read_buffers(struct ops_bench *b, const char *list) {
    char item[32];
    int n = 0;
    for (; bench_next_item(&list, ',', item); n++) {
        int i = 0;
        while (i < OPS_BUFFERS && strcmp(ops_buffer_names[i], item) != 0) i++;
        if (i == OPS_BUFFERS)
            return opt_mistake(&command, "--buffers takes hot, rotate and symmetric, not '%s'", item);
        b->buffers[i] = true;
    }
    return n > 0 ? OPT_PROCEED : opt_mistake(&command, "--buffers needs a name");
}

static int read_bytes(struct ops_bench *b, const char *text) {
    char items[3][32];
    int64_t min = 0, max, step = 4;
    const char *at = text;
    int n = 0;
    while (n < 3 && bench_next_item(&at, ':', items[n])) n++;
    bool good = n > 0 && *at == '\0' && msi_parse_number(items[0], true, &min);
    max = min;
    if (n > 1) good = good && msi_parse_number(items[1], true, &max);
    if (n > 2) good = good && msi_parse_number(items[2], false, &step);
    if (!good || min < 1 || min > largest || max < 1 || max > largest || step < 2 || step > 1024)
        return opt_mistake(
            &command,
            "--bytes takes MIN:MAX:N with sizes from 1 to 4G and N from 2 to 1024, such as 4:64M:4, not '%s'",
            text);
    if (min > max) return opt_mistake(&command, "--bytes %s begins with the larger size", text);
    b->min = (size_t)min;
    b->max = (size_t)max;
    b->step = (size_t)step;
    return OPT_PROCEED;
}

static int check_place(const char *place) {
    if (!place || !strcmp(place, "out") || !strcmp(place, "in") || !strcmp(place, "both")) return OPT_PROCEED;
    return opt_mistake(&command, "--place takes out, in or both, not '%s'", place);
}

/* Do both names denote one regular file? Devices and pipes may have several writers. */
static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;
    if (stat(a, &first) != 0 || stat(b, &second) != 0) return strcmp(a, b) == 0;
    return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/*
 * Compares the names before any file is truncated, and again afterwards, because links to new files are seen
 * only then.
 */
static int open_files(struct ops_bench *b) {
    const struct ops_options *o = &b->o;
    const struct {
        const char *option, *name;
        FILE **file;
    } files[] = {{"--json", o->json, &b->json}, {"--csv", o->csv, &b->csv}, {"--plot", o->plot, &b->plot}};
    enum { FILES = sizeof files / sizeof files[0] };
    for (int i = 0; i < 2 * FILES; i++) {
        int at = i % FILES;
        if (!files[at].name) continue;
        for (int k = 0; k < at; k++)
            if (files[k].name && is_same_file(files[k].name, files[at].name))
                return opt_mistake(&command, "%s and %s name the same file, %s", files[k].option,
                                   files[at].option, files[at].name);
        if (i < FILES) continue;
        int status = bench_open_output(&command, files[at].name, files[at].file);
        if (status != OPT_PROCEED) return status;
    }
    return OPT_PROCEED;
}

/* A wrong setting would make all trials of muster fail. */
static int check_settings(void) {
    struct msi_settings settings;
    if (msi_settings_load(&settings, NULL) == MST_OK) return OPT_PROCEED;
    return opt_failed(&command);
}

int ops_read_options(struct ops_bench *b, int argc, char **argv) {
    struct ops_options *o = &b->o;
    char **operands;
    *o = (struct ops_options){.backends = "native,openmpi,mpich",
                              .ranks = "2",
                              .bytes = "4:64M:4",
                              .dtypes = "f32",
                              .buffers = "hot",
                              .python = "/usr/bin/python3",
                              .hosts = 1,
                              .rounds = 3,
                              .budget = 0.1,
                              .limit = 120};
    int n, status = opt_parse(&command, argc, argv, o, &operands, &n);
    if (status == OPT_PROCEED) status = read_ops(b, operands, n);
    if (status == OPT_PROCEED && !(o->budget > 0))
        status = opt_mistake(&command, "--seconds must be more than 0");
    if (status == OPT_PROCEED)
        status = bench_read_numbers(&command, "--ranks", o->ranks, OPS_RANKS_MOST, &b->ranks);
    if (status == OPT_PROCEED) status = read_backends(b, o->backends);
    if (status == OPT_PROCEED) status = read_dtypes(b, o->dtypes);
    if (status == OPT_PROCEED) status = read_buffers(b, o->buffers);
    if (status == OPT_PROCEED) status = read_bytes(b, o->bytes);
    if (status == OPT_PROCEED) status = check_place(o->place);
    if (status == OPT_PROCEED) status = check_settings();
    return status == OPT_PROCEED ? open_files(b) : status;
}
