/* trial.c - one trial of a backend: its command and the results of its ranks. See ops.h. */
#include "bench/ops/ops.h"

#include <string.h>

enum { TEXT_MAX = OPS_SIZES_MOST * 12 };

/* The arguments of loop.h that differ between trials. */
struct loop_args {
    char sizes[TEXT_MAX], cover[32], budget[32], results[96];
};

static void write_args(const struct ops_bench *b, const struct ops_case *what, struct loop_args *a) {
    size_t len = 0;
    a->sizes[0] = '\0';
    for (int i = 0; i < what->n_sizes && len < sizeof a->sizes; i++)
        len += (size_t)snprintf(a->sizes + len, sizeof a->sizes - len, "%s%zu", i > 0 ? "," : "",
                                what->bytes[i]);
    snprintf(a->cover, sizeof a->cover, "%zu",
             what->buffers == OPS_ROTATE ? 2 * b->cache / (size_t)what->ranks : 0);
    snprintf(a->budget, sizeof a->budget, "%g", b->o.budget);
    snprintf(a->results, sizeof a->results, "%s/results.%d", b->place.dir, b->trials);
}

/* The index of a size; -1: there is none. */
static int size_of(const struct ops_case *what, size_t bytes) {
    int i = what->n_sizes - 1;
    while (i >= 0 && what->bytes[i] != bytes) i--;
    return i;
}

static void add_sample(struct ops_samples all[OPS_SIZES_MOST], int size, const double ns[2]) {
    if (size < 0 || all[size].n == OPS_ROUNDS_MOST) return;
    struct ops_samples *samples = &all[size];
    samples->us[samples->n] = ns[0] / 1e3;
    samples->p99[samples->n++] = ns[1] / 1e3;
}

static void set_reason(char *why, const char *text) {
    if (why[0] == '\0')
        snprintf(why, BENCH_WHY_MAX, "%s", text); /* later errors are mostly its consequence */
}

/* Parses the rest of a line that begins with "wrong ". */
static void read_wrong(struct ops_table *t, int backend, const char *text) {
    size_t bytes, elements;
    int len = 0;
    if (sscanf(text, "%zu %zu %n", &bytes, &elements, &len) < 2 || len == 0) return;
    int size = size_of(&t->what, bytes);
    if (size >= 0) t->at[backend][size].wrong += elements;
    if (t->wrong[backend][0] == '\0')
        snprintf(t->wrong[backend], sizeof t->wrong[backend], "%zu bytes: %.200s", bytes, text + len);
}

/* Reads the lines of the ranks. */
static void read_results(struct ops_bench *b, int backend, bool bound, const char *path) {
    struct ops_table *t = &b->table;
    FILE *file = fopen(path, "re");
    char line[BENCH_WHY_MAX];
    size_t bytes;
    double ns[2]; /* median and p99 */
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%zu %lf %lf", &bytes, &ns[0], &ns[1]) == 3)
            add_sample(b->samples[backend][bound], size_of(&t->what, bytes), ns);
        else if (strncmp(line, "wrong ", 6) == 0)
            read_wrong(t, backend, line + 6);
        else if (strncmp(line, "failed ", 7) == 0)
            set_reason(t->why[backend], line + 7);
        else if (strncmp(line, "unsupported ", 12) == 0)
            set_reason(t->unsupported[backend], line + 12);
    }
    if (file) fclose(file);
}

bool ops_tries_both(const struct bench_peer *backend) {
    return backend->kind == BENCH_TORCH || (backend->engine && strcmp(backend->engine, "gloo") == 0);
}

/* Adds the command of the ranks, up to the arguments of loop.h. */
static void add_command(const struct ops_bench *b, const struct bench_peer *backend,
                        struct bench_argv *argv) {
    const struct ops_case *what = &b->table.what;
    const char *memory = "plain";
    peers_add_launcher(argv, &b->place, backend, what->ranks, what->hosts);
    if (!backend->engine) return;
    if (strcmp(backend->engine, "native") == 0 && what->buffers == OPS_SYMMETRIC) memory = "shared";
    if (backend->kind == BENCH_DEVICE) memory = "device";
    snprintf(argv->hosts, sizeof argv->hosts, "%d", what->hosts);
    peers_add(argv, b->place.self, "bench", "--worker", backend->engine, memory, argv->hosts);
}

bool ops_run_trial(struct ops_bench *b, int backend, bool bound) {
    struct ops_table *t = &b->table;
    struct bench_argv argv = {.n = 0};
    struct launch_result result;
    struct loop_args a;
    char text[BENCH_WHY_MAX];
    b->trials++;
    write_args(b, &t->what, &a);
    add_command(b, &b->backends[backend], &argv);
    peers_add(&argv, loop_op_names[t->what.op], t->what.dtype->name, a.sizes, a.cover, a.budget,
              bound ? "1" : "0", t->what.in_place ? "1" : "0", a.results);
    launch_run(argv.args, b->o.limit, &result);
    read_results(b, backend, bound, a.results);
    if (result.end == LAUNCH_INTERRUPTED) return false;
    snprintf(text, sizeof text, "%.280s%s", result.why, result.end == LAUNCH_TIME_UP ? " (--limit)" : "");
    if (result.end != LAUNCH_DONE) set_reason(t->why[backend], text);
    return true;
}

bool ops_probe(struct ops_bench *b, int backend) {
    struct ops_table *t = &b->table;
    double budget = b->o.budget;
    ops_begin_table(b);
    t->what = (struct ops_case){.op = LOOP_ALL_REDUCE,
                                .dtype = b->dtypes[0],
                                .ranks = b->ranks.at[0],
                                .hosts = 1,
                                .bytes = {64},
                                .n_sizes = 1};
    b->o.budget = 0.001;
    bool proceed = ops_run_trial(b, backend, false);
    b->o.budget = budget;
    /* Other operations may be supported; the tables show which are not. */
    if (t->unsupported[backend][0] == '\0')
        snprintf(b->backends[backend].why_not, BENCH_WHY_MAX, "%s", t->why[backend]);
    return proceed;
}
