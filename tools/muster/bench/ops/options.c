/* options.c - the command line of "muster bench OPERATION"; see ops.h. */
#include "cli/options.h"
#include "base/nearest.h"
#include "base/settings.h"
#include "bench/bench.h"
#include "bench/ops/ops.h"

#include <errno.h>
#include <muster/status.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t biggest = (size_t)4 << 30;

struct ops_options {
    const char *backends, *ranks, *bytes, *dtypes, *buffers, *python, *json, *csv, *plot;
    long hosts, rounds;
    double budget, limit;
    bool bind, limits;
};

#define AT(field) offsetof(struct ops_options, field)

static const struct opt options[] = {
    {"backend", 'b', OPT_STRING, "LIST",
     "through muster: native, mpi, mpi:openmpi, mpi:mpich, gloo, nccl,\n"
     "and modules of your own in MUSTER_BACKEND_PATH; called directly:\n"
     "openmpi, mpich, torch (default native,openmpi,mpich)",
     AT(backends), 0, 0},
    {"ranks", 'n', OPT_STRING, "LIST", "numbers of ranks (default 2)", AT(ranks), 0, 0},
    {"bytes", 0, OPT_STRING, "MIN:MAX:N",
     "sizes, each N times the one before, as 4:64M:4, which is the\ndefault; 1M alone is one size", AT(bytes),
     0, 0},
    {"dtype", 't', OPT_STRING, "LIST", "f32, bf16, f16, f64, i32, ... (default f32)", AT(dtypes), 0, 0},
    {"buffers", 0, OPT_STRING, "LIST",
     "hot: the same in each call; rotate: sets beyond the cache;\nsymmetric: from mst_alloc (default hot)",
     AT(buffers), 0, 0},
    {"hosts-simulated", 0, OPT_NUMBER, "N", "as if the ranks were on so many hosts (default 1)", AT(hosts), 1,
     OPS_RANKS_MOST},
    {"bind", 0, OPT_FLAG, NULL,
     "each rank stays on one processor; not those of gloo and torch,\n"
     "which have several threads",
     AT(bind), 0, 0},
    {"limits", 0, OPT_FLAG, NULL, "also show the least possible time, and how near each comes", AT(limits), 0,
     0},
    {"rounds", 'r', OPT_NUMBER, "N", "how often everyone has a turn (default 3)", AT(rounds), 1,
     OPS_ROUNDS_MOST},
    {"seconds", 's', OPT_SECONDS, "SECONDS", "how long one size is measured in a turn (default 0.1)",
     AT(budget), 0, 3600},
    {"limit", 0, OPT_SECONDS, "SECONDS", "a turn that takes longer is given up (default 120)", AT(limit), 1,
     86400},
    {"python", 0, OPT_STRING, "PATH", "the interpreter that has torch (default /usr/bin/python3)", AT(python),
     0, 0},
    {"json", 0, OPT_STRING, "FILE", "also write the figures to this file, a JSON object in each line",
     AT(json), 0, 0},
    {"csv", 0, OPT_STRING, "FILE", "the same as CSV", AT(csv), 0, 0},
    {"plot", 0, OPT_STRING, "FILE", "draw latency and bandwidth over size, as SVG", AT(plot), 0, 0},
};

static const struct opt_command command = {
    "muster bench",
    "operation ...",
    "Measures operations with one or several backends in one run; muster bench alone lists what there is.",
    options,
    sizeof options / sizeof *options,
    false,
};

/* A word that is not known; near is what was perhaps meant, or NULL. */
static int unknown(const char *kind, const char *word, const char *near) {
    if (near != NULL) return opt_mistake(&command, "unknown %s '%s'; did you mean '%s'?", kind, word, near);
    return opt_mistake(&command, "unknown %s '%s'; 'muster bench' lists what there is", kind, word);
}

static int read_ops(struct ops_bench *b, char **words, int n) {
    for (int i = 0; i < n; i++) {
        int op = 0;
        while (op < LOOP_OPS && strcmp(loop_op_names[op], words[i]) != 0) op++;
        if (op < LOOP_OPS)
            b->ops[op] = true;
        else if (strcmp(words[i], "all") == 0)
            memset(b->ops, true, sizeof b->ops);
        else
            return unknown("operation", words[i],
                           msi_nearest(words[i], loop_op_names, LOOP_OPS, sizeof loop_op_names[0]));
    }
    return n > 0 ? OPT_PROCEED : opt_mistake(&command, "name an operation, or all of them by 'all'");
}

static int read_ranks(struct ops_bench *b, const char *list) {
    char word[32];
    long long n;

    while (peers_next_word(&list, word)) {
        if (!opt_read_number(word, 1, OPS_RANKS_MOST, &n))
            return opt_mistake(&command, "--ranks takes numbers from 1 to %d, not '%s'", OPS_RANKS_MOST,
                               word);
        if (b->n_ranks == OPS_LIST_MOST)
            return opt_mistake(&command, "--ranks takes at most %d numbers", OPS_LIST_MOST);
        b->ranks[b->n_ranks++] = (int)n;
    }
    return b->n_ranks > 0 ? OPT_PROCEED : opt_mistake(&command, "--ranks needs a number");
}

static int unknown_backend(const char *word, const char *near) {
    char ours[OPS_NAMES_MAX], others[OPS_NAMES_MAX];

    if (near != NULL) return unknown("backend", word, near);
    return opt_mistake(&command,
                       "unknown backend '%s'; there are %s %s; a module mst_backend_%s.so is sought in "
                       "MUSTER_BACKEND_PATH",
                       word, ops_side_names(true, ours, sizeof ours),
                       ops_side_names(false, others, sizeof others), word);
}

static int read_backends(struct ops_bench *b, const char *list) {
    char word[32];
    const char *near;

    while (peers_next_word(&list, word)) {
        struct ops_side side;
        if (!ops_find_side(word, &side, &near)) return unknown_backend(word, near);
        for (int i = 0; i < b->n_sides; i++)
            if (strcmp(b->sides[i].peer.name, word) == 0)
                return opt_mistake(&command, "--backend has '%s' twice", word);
        if (b->n_sides == OPS_SIDES_MOST)
            return opt_mistake(&command, "--backend takes at most %d names", OPS_SIDES_MOST);
        b->sides[b->n_sides++] = side;
    }
    return b->n_sides > 0 ? OPT_PROCEED : opt_mistake(&command, "--backend needs a name");
}

static int read_dtypes(struct ops_bench *b, const char *list) {
    char word[32];

    while (peers_next_word(&list, word)) {
        int i = 0;
        while (i < LOOP_DTYPES && strcmp(loop_dtypes[i].name, word) != 0) i++;
        if (i == LOOP_DTYPES)
            return unknown("dtype", word, msi_nearest(word, loop_dtypes, LOOP_DTYPES, sizeof loop_dtypes[0]));
        for (int k = 0; k < b->n_dtypes; k++)
            if (b->dtypes[k] == &loop_dtypes[i]) return opt_mistake(&command, "--dtype has '%s' twice", word);
        b->dtypes[b->n_dtypes++] = &loop_dtypes[i];
    }
    return b->n_dtypes > 0 ? OPT_PROCEED : opt_mistake(&command, "--dtype needs a name");
}

static int read_buffers(struct ops_bench *b, const char *list) {
    char word[32];
    int n = 0;

    for (; peers_next_word(&list, word); n++) {
        int i = 0;
        while (i < OPS_BUFFERS && strcmp(ops_buffer_names[i], word) != 0) i++;
        if (i == OPS_BUFFERS)
            return opt_mistake(&command, "--buffers takes some of hot,rotate,symmetric, not '%s'", word);
        b->buffers[i] = true;
    }
    return n > 0 ? OPT_PROCEED : opt_mistake(&command, "--buffers needs a word");
}

/* Reads bytes as 4, 64K, 1M or 1G up to the colon or the end; where it stopped, or NULL if that is none. */
static const char *read_size(const char *text, size_t *bytes) {
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;

    if (unit != NULL) end++;
    if (text[0] < '0' || text[0] > '9' || (*end != '\0' && *end != ':') || errno != 0 || value == 0 ||
        value > biggest >> shift)
        return NULL;
    *bytes = value << shift;
    return end;
}

static int read_bytes(struct ops_bench *b, const char *text) {
    const char *at = read_size(text, &b->min);
    long long step = 4;

    b->max = b->min;
    if (at != NULL && *at == ':') at = read_size(at + 1, &b->max);
    if (at == NULL || (*at == ':' && !opt_read_number(at + 1, 2, 1024, &step)))
        return opt_mistake(&command,
                           "--bytes takes MIN:MAX:N, from 1 to 4G and N from 2 to 1024, as 4:64M:4, not '%s'",
                           text);
    if (b->min > b->max) return opt_mistake(&command, "--bytes %s begins with the larger size", text);
    b->step = (size_t)step;
    return OPT_PROCEED;
}

/* Two names of one file. Devices and pipes may be written to by several. */
static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;

    if (stat(a, &first) != 0 || stat(b, &second) != 0) return strcmp(a, b) == 0;
    return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* Nothing is opened, and so emptied, before it is known whose it is; a name for a file that was not there only then. */
static int open_files(struct ops_bench *b, const struct ops_options *o) {
    const struct {
        const char *option, *name;
        FILE **file;
    } files[] = {{"--json", o->json, &b->json}, {"--csv", o->csv, &b->csv}, {"--plot", o->plot, &b->plot}};
    enum { FILES = sizeof files / sizeof files[0] };

    for (int i = 0; i < 2 * FILES; i++) {
        int at = i % FILES;
        if (files[at].name == NULL) continue;
        for (int k = 0; k < at; k++)
            if (files[k].name != NULL && is_same_file(files[k].name, files[at].name))
                return opt_mistake(&command, "%s and %s are one file, %s; give each its own", files[k].option,
                                   files[at].option, files[at].name);
        if (i < FILES) continue;
        *files[at].file = fopen(files[at].name, "we");
        if (*files[at].file == NULL)
            return opt_mistake(&command, "cannot write to %s: %s", files[at].name, strerror(errno));
    }
    return OPT_PROCEED;
}

/* All of muster's sides would fail of it, one after the other. */
static int check_settings(void) {
    struct msi_settings settings;

    if (msi_settings_load(&settings, NULL) == MST_OK) return OPT_PROCEED;
    return opt_mistake(&command, "%s; %s", mst_last_error()->message, mst_last_error()->remedy);
}

static int read_values(struct ops_bench *b, const struct ops_options *o) {
    static struct bench_limits limits;

    b->hosts = (int)o->hosts;
    b->rounds = (int)o->rounds;
    b->bind = o->bind;
    b->budget = o->budget;
    b->limit = o->limit;
    b->python = o->python;
    b->limits = o->limits ? &limits : NULL;
    if (!(b->budget > 0)) return opt_mistake(&command, "--seconds must be more than 0");
    int status = read_ranks(b, o->ranks);
    if (status == OPT_PROCEED) status = read_backends(b, o->backends);
    if (status == OPT_PROCEED) status = read_dtypes(b, o->dtypes);
    if (status == OPT_PROCEED) status = read_buffers(b, o->buffers);
    return status == OPT_PROCEED ? read_bytes(b, o->bytes) : status;
}

int ops_read_options(struct ops_bench *b, int argc, char **argv) {
    struct ops_options o = {.backends = "native,openmpi,mpich",
                            .ranks = "2",
                            .bytes = "4:64M:4",
                            .dtypes = "f32",
                            .buffers = "hot",
                            .python = "/usr/bin/python3",
                            .hosts = 1,
                            .rounds = 3,
                            .budget = 0.1,
                            .limit = 120};
    char **operands;
    int n, status = opt_parse(&command, argc, argv, &o, &operands, &n);

    if (status == OPT_PROCEED) status = read_ops(b, operands, n);
    if (status == OPT_PROCEED) status = read_values(b, &o);
    if (status == OPT_PROCEED) status = check_settings();
    return status == OPT_PROCEED ? open_files(b, &o) : status;
}
