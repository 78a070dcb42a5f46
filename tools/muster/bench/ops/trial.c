/* trial.c - one turn of one side: its command, and what its ranks found; see ops.h. */
#include "bench/launch.h"
#include "bench/ops/ops.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = OPS_SIZES_MOST * 12 };

/* The words that every side's ranks get. */
struct words {
    char sizes[TEXT_MAX], cover[32], budget[32], results[96];
};

static void write_words(const struct ops_bench *b, const struct ops_case *what, struct words *w) {
    size_t len = 0;

    w->sizes[0] = '\0';
    for (int i = 0; i < what->n_sizes && len < sizeof w->sizes; i++)
        len += (size_t)snprintf(w->sizes + len, sizeof w->sizes - len, "%s%zu", i > 0 ? "," : "",
                                what->bytes[i]);
    snprintf(w->cover, sizeof w->cover, "%zu",
             what->buffers == OPS_ROTATE ? 2 * b->cache / (size_t)what->ranks : 0);
    snprintf(w->budget, sizeof w->budget, "%g", b->budget);
    snprintf(w->results, sizeof w->results, "%s/results.%d", b->dir, b->turns);
}

static struct ops_cell *cell_of(struct ops_table *t, int side, size_t bytes) {
    for (int i = 0; i < t->what.n_sizes; i++)
        if (t->what.bytes[i] == bytes) return &t->cells[side][i];
    return NULL;
}

static void take_sample(struct ops_cell *cell, double ns, double p99) {
    if (cell == NULL || cell->n == OPS_ROUNDS_MOST) return;
    cell->us[cell->n] = ns / 1e3;
    cell->p99[cell->n++] = p99 / 1e3;
}

static void take_why(char *why, const char *text) {
    if (why[0] == '\0') snprintf(why, BENCH_WHY_MAX, "%s", text); /* what follows is mostly its consequence */
}

/* The rest of a line that begins with "wrong ". */
static void take_wrong(struct ops_table *t, int side, const char *text) {
    size_t bytes, elements;
    int len = 0;

    if (sscanf(text, "%zu %zu %n", &bytes, &elements, &len) < 2 || len == 0) return;
    struct ops_cell *cell = cell_of(t, side, bytes);
    if (cell != NULL) cell->wrong += elements;
    if (t->wrong[side][0] == '\0')
        snprintf(t->wrong[side], sizeof t->wrong[side], "%zu bytes: %.200s", bytes, text + len);
}

/* Reads what the ranks have appended. */
static void take_results(struct ops_table *t, int side, const char *path) {
    FILE *file = fopen(path, "re");
    char line[BENCH_WHY_MAX];
    size_t bytes;
    double ns, p99;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%zu %lf %lf", &bytes, &ns, &p99) == 3)
            take_sample(cell_of(t, side, bytes), ns, p99);
        else if (strncmp(line, "wrong ", 6) == 0)
            take_wrong(t, side, line + 6);
        else if (strncmp(line, "failed ", 7) == 0)
            take_why(t->why[side], line + 7);
        else if (strncmp(line, "unsupported ", 12) == 0)
            take_why(t->unsupported[side], line + 12);
    }
    if (file != NULL) fclose(file);
}

/* Gloo's ranks have several threads each, which would stand in each other's way on one processor. */
static bool binds(const struct ops_bench *b, int side) {
    const struct ops_side *s = &b->sides[side];
    return b->bind && s->kind != OPS_TORCH && (!s->engine || strcmp(s->engine, "gloo") != 0);
}

bool ops_turn(struct ops_bench *b, int side) {
    struct ops_table *t = &b->table;
    struct ops_argv argv = {.n = 0};
    struct words w;
    char output[96], line[BENCH_WHY_MAX];

    b->turns++;
    write_words(b, &t->what, &w);
    snprintf(output, sizeof output, "%s/output", b->dir);
    ops_add_launcher(b, &b->sides[side], &t->what, &argv);
    ops_add_words(&argv, (const char *[]){loop_op_names[t->what.op], t->what.dtype->name, w.sizes, w.cover,
                                          w.budget, binds(b, side) ? "1" : "0", w.results, NULL});
    struct launch_result result = launch_run(argv.words, output, b->limit);
    take_results(t, side, w.results);
    if (result.end == LAUNCH_STOPPED) return false;
    if (result.end == LAUNCH_TIME_UP) {
        snprintf(line, sizeof line, "not done after %g s (--limit)", b->limit);
        take_why(t->why[side], line);
    } else if (result.end == LAUNCH_NOT_STARTED || result.status != 0) {
        take_why(t->why[side], launch_last_line(output, line, sizeof line));
    }
    return true;
}

bool ops_try(struct ops_bench *b, int side) {
    struct ops_table *t = &b->table;
    double budget = b->budget;

    memset(t, 0, sizeof *t);
    t->what = (struct ops_case){.op = LOOP_ALL_REDUCE,
                                .dtype = b->dtypes[0],
                                .ranks = b->ranks[0],
                                .hosts = 1,
                                .bytes = {64},
                                .n_sizes = 1};
    b->budget = 0.001;
    bool going_on = ops_turn(b, side);
    b->budget = budget;
    /* What it lacks may be this one operation: that is said in the tables. */
    if (t->unsupported[side][0] == '\0')
        snprintf(b->sides[side].peer.why_not, sizeof b->sides[side].peer.why_not, "%s", t->why[side]);
    return going_on;
}
