/*
 * ops.c - "muster bench OPERATION": how long operations take with each backend. Lets the sides take turns, again and
 * again, so that whatever else the machine does disturbs all alike; see ops.h.
 */
#include "bench/ops/ops.h"
#include "bench/bench.h"
#include "bench/launch.h"
#include "cli/options.h"
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct ops_fact ops_facts[LOOP_OPS] = {
    [LOOP_ALL_REDUCE] = {false, 2, 2}, [LOOP_ALL_GATHER] = {true, 1, 1}, [LOOP_REDUCE_SCATTER] = {true, 1, 1},
    [LOOP_BROADCAST] = {false, 1, 0},  [LOOP_REDUCE] = {false, 1, 0},    [LOOP_GATHER] = {true, 1, 0},
    [LOOP_SCATTER] = {true, 1, 0},     [LOOP_ALL_TO_ALL] = {true, 1, 1}, [LOOP_SEND_RECV] = {false, 1, 0},
    [LOOP_BARRIER] = {false, 0, 0},
};

const char *const ops_buffer_names[OPS_BUFFERS] = {"hot", "rotate", "symmetric"};

/* The sizes of a table, in whole elements and, where it has them, whole blocks; two that become one are one. */
static void list_sizes(const struct ops_bench *b, struct ops_case *what) {
    size_t unit = what->dtype->element * (ops_facts[what->op].blocks ? (size_t)what->ranks : 1);

    what->unit = unit;
    for (size_t bytes = b->min; bytes <= b->max && what->n_sizes < OPS_SIZES_MOST; bytes *= b->step) {
        size_t whole = bytes < unit ? unit : bytes / unit * unit;
        if (what->n_sizes > 0 && what->bytes[what->n_sizes - 1] == whole) continue;
        what->asked[what->n_sizes] = bytes;
        what->bytes[what->n_sizes++] = whole;
    }
    if (what->op != LOOP_BARRIER) return;
    what->bytes[0] = what->asked[0] = 0;
    what->n_sizes = 1;
}

/* What there is to measure, one table after another; false behind the last. A barrier has neither buffers nor dtype. */
static bool next_case(const struct ops_bench *b, long *at, struct ops_case *what) {
    const long tables = (long)b->n_ranks * OPS_BUFFERS * b->n_dtypes * LOOP_OPS;

    for (; *at < tables; (*at)++) {
        enum loop_op op = (enum loop_op)(*at % LOOP_OPS);
        int dtype = (int)(*at / LOOP_OPS % b->n_dtypes);
        enum ops_buffers buffers = (enum ops_buffers)(*at / LOOP_OPS / b->n_dtypes % OPS_BUFFERS);
        int ranks = b->ranks[*at / LOOP_OPS / b->n_dtypes / OPS_BUFFERS];
        bool seen = dtype > 0;
        for (int i = 0; i < (int)buffers; i++) seen |= b->buffers[i];

        if (!b->ops[op] || !b->buffers[buffers] || (op == LOOP_BARRIER && seen)) continue;
        if (op == LOOP_SEND_RECV && ranks < 2) continue;
        *what = (struct ops_case){.op = op, .dtype = b->dtypes[dtype], .ranks = ranks, .buffers = buffers};
        what->hosts = b->hosts < ranks ? b->hosts : ranks;
        list_sizes(b, what);
        (*at)++;
        return true;
    }
    return false;
}

static void count_turns(struct ops_bench *b) {
    struct ops_case what;
    int sides = 0;
    long at = 0;

    for (int side = 0; side < b->n_sides; side++) sides += ops_usable(b, side);
    while (next_case(b, &at, &what)) b->turns_in_all += sides * b->rounds;
    b->tries = b->turns;
}

/* One line on a terminal that is written again and again. */
static void show_progress(const struct ops_bench *b, int side, int round) {
    const struct ops_case *what = &b->table.what;

    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K[%d of %d] %s, %s, %d rank%s, %s, round %d: %s", b->turns - b->tries + 1,
            b->turns_in_all, loop_op_names[what->op], what->dtype->name, what->ranks,
            what->ranks == 1 ? "" : "s", ops_buffer_names[what->buffers], round + 1,
            b->sides[side].peer.name);
}

static void hide_progress(void) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}

/* The rounds of the table under way; false: the user wants to end. */
static bool run_rounds(struct ops_bench *b) {
    struct ops_table *t = &b->table;

    for (int round = 0; round < b->rounds; round++)
        for (int side = 0; side < b->n_sides; side++) {
            if (!ops_usable(b, side) || t->why[side][0] != '\0' || t->unsupported[side][0] != '\0') continue;
            show_progress(b, side, round);
            bool going_on = ops_turn(b, side);
            hide_progress();
            if (!going_on) return false;
        }
    return true;
}

/* Is there anything to show of the table under way, once the user wants to end? */
static bool has_figures(const struct ops_bench *b) {
    for (int side = 0; side < b->n_sides; side++)
        for (int i = 0; i < b->table.what.n_sizes; i++)
            if (b->table.cells[side][i].n > 0) return true;
    return false;
}

/* Takes the table that is over into the results, prints and writes it. */
static void finish_table(struct ops_bench *b) {
    const struct ops_table *t = &b->table;
    struct ops_result *more = realloc(b->results, (size_t)(b->n_results + 1) * sizeof *more);

    if (more == NULL) abort();
    b->results = more;
    struct ops_result *r = &b->results[b->n_results++];
    memset(r, 0, sizeof *r);
    r->what = t->what;
    for (int side = 0; side < b->n_sides; side++) {
        for (int i = 0; i < t->what.n_sizes; i++) {
            r->at[side][i] = ops_figure_of(&t->cells[side][i]);
            if (r->at[side][i].wrong > 0) b->wrong = true;
        }
        if (t->why[side][0] != '\0' && b->sides[side].engine != NULL) b->failed = true;
    }
    ops_print_result(b, r);
    ops_write_files(b, r);
}

/* All tables, or those up to where the user wants to end: false then. */
static bool run_all(struct ops_bench *b) {
    struct ops_table *t = &b->table;
    bool going_on = true;
    long at = 0;

    count_turns(b);
    for (;;) {
        memset(t, 0, sizeof *t);
        if (!going_on || !next_case(b, &at, &t->what)) return going_on;
        going_on = run_rounds(b);
        if (going_on || has_figures(b)) finish_table(b);
    }
}

static int measure(struct ops_bench *b) {
    bool going_on, usable = false;

    going_on = ops_prepare(b) && (b->limits == NULL || limits_measure(b->limits, b->ranks, b->n_ranks));
    usable = ops_first(b) >= 0;
    if (going_on) ops_print_head(b);
    if (going_on && usable) going_on = run_all(b);
    peers_remove_dir(b->dir);
    launch_close();
    ops_print_summary(b);
    if (b->plot != NULL) bench_plot(b, b->plot);
    if (b->wrong) fprintf(stderr, "muster bench: results were wrong\n");
    if (!going_on) {
        fprintf(stderr, "muster bench: interrupted\n");
        return EXIT_SIGNAL + launch_signal();
    }
    if (!usable) fprintf(stderr, "muster bench: none of the backends can be used here\n");
    return usable && !b->failed && !b->wrong ? EXIT_DONE : EXIT_FAILED;
}

static bool close_file(FILE *file) {
    return file == NULL || fclose(file) == 0;
}

int bench_ops(int argc, char **argv) {
    static struct ops_bench b;

    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return ops_worker(argc, argv);
    int status = ops_read_options(&b, argc, argv);
    if (status != OPT_PROCEED) return status;
    b.cache = limits_cache();
    launch_open();
    if (readlink("/proc/self/exe", b.self, sizeof b.self - 1) < 0 || !peers_open_dir(b.dir)) {
        fprintf(stderr, "muster bench: cannot find this program or make %s: %s\n", b.dir, strerror(errno));
        return EXIT_FAILED;
    }
    status = measure(&b);
    if (!close_file(b.json) || !close_file(b.csv) || !close_file(b.plot)) {
        fprintf(stderr, "muster bench: cannot write all figures: %s\n", strerror(errno));
        if (status == EXIT_DONE) status = EXIT_FAILED;
    }
    free(b.results);
    return status;
}
