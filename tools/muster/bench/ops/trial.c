/* trial.c - one trial of a backend: its command and the results of its ranks. See ops.h. */
#include "bench/launch.h"
#include "bench/ops/ops.h"

#include <stdlib.h>
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
    snprintf(a->budget, sizeof a->budget, "%g", b->budget);
    snprintf(a->results, sizeof a->results, "%s/results.%d", b->dir, b->trials);
}

static struct ops_cell *cell_of(struct ops_table *t, int backend, size_t bytes) {
    for (int i = 0; i < t->what.n_sizes; i++)
        if (t->what.bytes[i] == bytes) return &t->cells[backend][i];
    return NULL;
}

static void add_sample(struct ops_cell *cell, double ns, double p99) {
    if (!cell || cell->n == OPS_ROUNDS_MOST) return;
    cell->us[cell->n] = ns / 1e3;
    cell->p99[cell->n++] = p99 / 1e3;
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
    struct ops_cell *cell = cell_of(t, backend, bytes);
    if (cell) cell->wrong += elements;
    if (t->wrong[backend][0] == '\0')
        snprintf(t->wrong[backend], sizeof t->wrong[backend], "%zu bytes: %.200s", bytes, text + len);
}

/* Reads the lines of the ranks. */
static void read_results(struct ops_table *t, int backend, const char *path) {
    FILE *file = fopen(path, "re");
    char line[BENCH_WHY_MAX];
    size_t bytes;
    double ns, p99;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%zu %lf %lf", &bytes, &ns, &p99) == 3)
            add_sample(cell_of(t, backend, bytes), ns, p99);
        else if (strncmp(line, "wrong ", 6) == 0)
            read_wrong(t, backend, line + 6);
        else if (strncmp(line, "failed ", 7) == 0)
            set_reason(t->why[backend], line + 7);
        else if (strncmp(line, "unsupported ", 12) == 0)
            set_reason(t->unsupported[backend], line + 12);
    }
    if (file) fclose(file);
}

/* Ranks of gloo have several threads, which would compete for one processor. */
static bool is_bound(const struct ops_bench *b, int backend) {
    const struct ops_backend *s = &b->backends[backend];
    return b->bind && s->kind != OPS_TORCH && (!s->engine || strcmp(s->engine, "gloo") != 0);
}

bool ops_run_trial(struct ops_bench *b, int backend) {
    struct ops_table *t = &b->table;
    struct bench_argv argv = {.n = 0};
    struct loop_args a;
    char output[96], line[BENCH_WHY_MAX];
    b->trials++;
    write_args(b, &t->what, &a);
    snprintf(output, sizeof output, "%s/output", b->dir);
    ops_add_launcher(b, &b->backends[backend], &t->what, &argv);
    peers_add_args(&argv, (const char *[]){loop_op_names[t->what.op], t->what.dtype->name, a.sizes, a.cover,
                                           a.budget, is_bound(b, backend) ? "1" : "0", a.results, NULL});
    struct launch_result result = launch_run(argv.args, output, b->limit);
    read_results(t, backend, a.results);
    if (result.end == LAUNCH_INTERRUPTED) return false;
    if (result.end == LAUNCH_TIME_UP) {
        snprintf(line, sizeof line, "did not finish within %g s (--limit)", b->limit);
        set_reason(t->why[backend], line);
    } else if (result.end == LAUNCH_NOT_STARTED || result.status != 0) {
        set_reason(t->why[backend], launch_last_line(output, line, sizeof line));
    }
    return true;
}

bool ops_probe(struct ops_bench *b, int backend) {
    struct ops_table *t = &b->table;
    double budget = b->budget;
    memset(t, 0, sizeof *t);
    t->what = (struct ops_case){.op = LOOP_ALL_REDUCE,
                                .dtype = b->dtypes[0],
                                .ranks = b->ranks.at[0],
                                .hosts = 1,
                                .bytes = {64},
                                .n_sizes = 1};
    b->budget = 0.001;
    bool proceed = ops_run_trial(b, backend);
    b->budget = budget;
    /* Other operations may be supported; the tables show which are not. */
    if (t->unsupported[backend][0] == '\0')
        snprintf(b->backends[backend].peer.why_not, sizeof b->backends[backend].peer.why_not, "%s",
                 t->why[backend]);
    return proceed;
}
