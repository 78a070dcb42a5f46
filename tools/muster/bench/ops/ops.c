/*
 * ops.c - "muster bench OPERATION": measures operations with each backend. Every backend runs in every round,
 * so that other load on the machine affects all of them alike. See ops.h.
 */
#include "bench/ops/ops.h"
#include "base/median.h"
#include "base/units.h"
#include "cli/options.h"
#include "commands.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const ops_buffer_names[OPS_BUFFERS] = {"hot", "rotate", "symmetric"};

bool ops_has_blocks(enum loop_op op) {
    return op == LOOP_ALL_GATHER || op == LOOP_REDUCE_SCATTER || op == LOOP_GATHER || op == LOOP_SCATTER ||
           op == LOOP_ALL_TO_ALL;
}

/* Lists the sizes of a table, rounded to whole elements and whole blocks, without duplicates. */
static void list_sizes(const struct ops_bench *b, struct ops_case *what) {
    size_t unit = what->dtype->element * (ops_has_blocks(what->op) ? (size_t)what->ranks : 1);
    what->unit = unit;
    for (size_t bytes = b->min; bytes <= b->max && what->n_sizes < OPS_SIZES_MOST; bytes *= b->step) {
        size_t whole = bytes < unit ? unit : bytes / unit * unit;
        if (what->n_sizes > 0 && what->bytes[what->n_sizes - 1] == whole) continue;
        what->requested[what->n_sizes] = bytes;
        what->bytes[what->n_sizes++] = whole;
    }
    if (what->op != LOOP_BARRIER) return;
    what->bytes[0] = what->requested[0] = 0;
    what->n_sizes = 1;
}

bool ops_is_alone(const struct ops_bench *b) {
    return b->n_backends == 1 && !b->o.limits;
}

/*
 * Is an operation measured in this form? Messages and barriers have one form. A broadcast of the MPIs and of
 * torch is in place; compared with others, that of muster is, too. So are reductions of torch; compared with
 * others, they count as out of place.
 */
static bool has_form(const struct ops_bench *b, enum loop_op op, bool in_place) {
    bool torch_is_in_place = op == LOOP_ALL_REDUCE || op == LOOP_REDUCE;
    const char *place = b->o.place ? b->o.place : ops_is_alone(b) ? "both" : "out";
    if (op == LOOP_SEND_RECV || op == LOOP_BARRIER) return !in_place;
    if (op == LOOP_BROADCAST && (b->n_backends > 1 || !b->backends[0].engine)) return in_place;
    if (b->n_backends == 1 && b->backends[0].kind == BENCH_TORCH && torch_is_in_place) return in_place;
    return strcmp(place, "both") == 0 || in_place == (strcmp(place, "in") == 0);
}

/* Sets the parameters of the next table; false after the last. A barrier has neither buffers nor dtype. */
static bool next_case(const struct ops_bench *b, long *at, struct ops_case *what) {
    const long tables = (long)b->ranks.n * OPS_BUFFERS * b->n_dtypes * LOOP_OPS * 2;
    for (; *at < tables; (*at)++) {
        bool in_place = *at % 2;
        long rest = *at / 2;
        enum loop_op op = (enum loop_op)(rest % LOOP_OPS);
        int dtype = (int)(rest / LOOP_OPS % b->n_dtypes);
        enum ops_buffers buffers = (enum ops_buffers)(rest / LOOP_OPS / b->n_dtypes % OPS_BUFFERS);
        int ranks = b->ranks.at[rest / LOOP_OPS / b->n_dtypes / OPS_BUFFERS];
        bool seen = dtype > 0;
        for (int i = 0; i < (int)buffers; i++) seen |= b->buffers[i];

        if (!b->ops[op] || !b->buffers[buffers] || (op == LOOP_BARRIER && seen)) continue;
        if ((op == LOOP_SEND_RECV && ranks < 2) || !has_form(b, op, in_place)) continue;
        *what = (struct ops_case){.op = op, .dtype = b->dtypes[dtype], .ranks = ranks, .buffers = buffers};
        what->in_place = in_place;
        what->hosts = b->o.hosts < ranks ? (int)b->o.hosts : ranks;
        list_sizes(b, what);
        (*at)++;
        return true;
    }
    return false;
}

/* Counts the trials; returns about how many seconds they take. */
static double count_trials(struct ops_bench *b) {
    struct ops_case what;
    double seconds = 0;
    long at = 0;
    b->n_trials = 0;
    while (next_case(b, &at, &what))
        for (int backend = 0; backend < b->n_backends; backend++) {
            enum bench_kind kind = b->backends[backend].kind;
            int trials = (int)b->o.rounds * (ops_tries_both(&b->backends[backend]) ? 2 : 1);
            double start = kind == BENCH_TORCH ? 3 : kind < BENCH_MUSTER_MPI ? 0.3 : 1;
            b->n_trials += trials;
            seconds += trials * (start + 1.5 * b->o.budget * what.n_sizes);
        }
    b->probes = b->trials;
    return seconds;
}

/* Says on stderr what is about to start. */
static void announce(struct ops_bench *b) {
    char least[MSI_UNITS_TEXT], most[MSI_UNITS_TEXT];
    double seconds = count_trials(b);
    fprintf(stderr, "muster bench: measures");
    for (int op = 0, n = 0; op < LOOP_OPS; op++)
        if (b->ops[op]) fprintf(stderr, "%s %s", n++ > 0 ? "," : "", loop_op_names[op]);
    fprintf(stderr, " of %s from %s to %s with %s ranks on this machine:", b->o.dtypes,
            msi_bytes_text((double)b->min, least), msi_bytes_text((double)b->max, most), b->o.ranks);
    for (int backend = 0; backend < b->n_backends; backend++)
        fprintf(stderr, "%s %s", backend > 0 ? "," : "", b->backends[backend].label);
    fprintf(stderr, "; starts the ranks %d times, for about %.0f %s in total\n", b->n_trials,
            ceil(seconds < 100 ? seconds : seconds / 60), seconds < 100 ? "seconds" : "minutes");
}

/* Updates a line on the terminal. */
static void show_progress(const struct ops_bench *b, int backend, int round) {
    const struct ops_case *what = &b->table.what;
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K[%d of %d] %s, %s, %d rank%s, %s, round %d: %s", b->trials - b->probes + 1,
            b->n_trials, loop_op_names[what->op], what->dtype->name, what->ranks, what->ranks == 1 ? "" : "s",
            ops_buffer_names[what->buffers], round + 1, b->backends[backend].name);
}

static void hide_progress(void) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}

/* Runs the rounds of the current table. False: the user interrupts. */
static bool run_rounds(struct ops_bench *b) {
    struct ops_table *t = &b->table;
    for (int round = 0; round < b->o.rounds; round++)
        for (int backend = 0; backend < b->n_backends; backend++) {
            bool both = ops_tries_both(&b->backends[backend]);
            for (int setting = 0; setting < (both ? 2 : 1); setting++) {
                if (t->why[backend][0] != '\0' || t->unsupported[backend][0] != '\0') continue;
                show_progress(b, backend, round);
                bool proceed = ops_run_trial(b, backend, both ? setting == 1 : b->o.bind);
                hide_progress();
                if (!proceed) return false;
            }
        }
    return true;
}

void ops_begin_table(struct ops_bench *b) {
    memset(&b->table, 0, sizeof b->table);
    memset(b->samples, 0, sizeof b->samples);
}

/*
 * Selects the setting with more measured sizes. If both have as many: with the shorter times, by their
 * geometric mean over the sizes that both have.
 */
static void select_setting(struct ops_bench *b, int backend) {
    struct ops_table *t = &b->table;
    double log_ratio = 0;
    int n = 0, more = 0; /* sizes of both; how many more the bound ranks have */
    t->bound[backend] = b->o.bind;
    if (!ops_tries_both(&b->backends[backend])) return;
    for (int i = 0; i < t->what.n_sizes; i++) {
        struct ops_samples *loose = &b->samples[backend][0][i], *bound = &b->samples[backend][1][i];
        more += (bound->n > 0) - (loose->n > 0);
        if (loose->n == 0 || bound->n == 0) continue;
        log_ratio += log(msi_median(loose->us, loose->n) / msi_median(bound->us, bound->n));
        n++;
    }
    t->bound[backend] = more != 0 ? more > 0 : log_ratio > 0;
    t->gain[backend] = n > 0 ? exp((t->bound[backend] ? log_ratio : -log_ratio) / n) : 0;
}

/* Sets the figures of the current table; false if there are none. */
static bool set_figures(struct ops_bench *b) {
    struct ops_table *t = &b->table;
    bool any = false;
    for (int backend = 0; backend < b->n_backends; backend++) {
        select_setting(b, backend);
        for (int i = 0; i < t->what.n_sizes; i++) {
            struct ops_samples *samples = &b->samples[backend][t->bound[backend]][i];
            struct ops_figure *figure = &t->at[backend][i];
            if (figure->wrong > 0) b->wrong = true;
            if (samples->n == 0) continue;
            figure->us = msi_median(samples->us, samples->n);
            figure->p99 = msi_median(samples->p99, samples->n);
            any = true;
        }
        if (t->why[backend][0] != '\0' && b->backends[backend].engine) b->failed = true;
    }
    return any;
}

/* Do two tables differ only in their form? Then they are adjacent. */
static bool is_pair(const struct ops_case *out, const struct ops_case *in) {
    return !out->in_place && in->in_place && out->op == in->op && out->dtype == in->dtype &&
           out->ranks == in->ranks && out->buffers == in->buffers;
}

/* Prints the finished tables; with one backend a pair together, so the first of a possible pair waits. */
static void print_finished(struct ops_bench *b, bool all) {
    while (b->n_printed < b->n_results) {
        const struct ops_table *t = &b->results[b->n_printed], *next = t + 1;
        bool last = b->n_printed + 1 == b->n_results, pair = !last && is_pair(&t->what, &next->what);
        if (!ops_is_alone(b)) {
            ops_print_result(b, t);
        } else if (last && !all && !t->what.in_place && has_form(b, t->what.op, true)) {
            return;
        } else {
            ops_print_one(b, t->what.in_place ? NULL : t, pair ? next : t->what.in_place ? t : NULL);
            b->n_printed += pair;
        }
        b->n_printed++;
    }
}

/* Adds the current table to the results, prints and writes it. */
static void finish_table(struct ops_bench *b) {
    struct ops_table *more = realloc(b->results, (size_t)(b->n_results + 1) * sizeof *more);
    if (!more) abort();
    b->results = more;
    b->results[b->n_results++] = b->table;
    print_finished(b, false);
    ops_write_files(b, &b->table);
}

/* Runs all tables. False: the user interrupts. */
static bool run_all(struct ops_bench *b) {
    bool proceed = true;
    long at = 0;
    announce(b);
    for (;;) {
        ops_begin_table(b);
        if (!proceed || !next_case(b, &at, &b->table.what)) return proceed;
        proceed = run_rounds(b);
        if (set_figures(b) || proceed) finish_table(b);
    }
}

static void remove_unusable(struct ops_bench *b) {
    int n = 0;
    for (int backend = 0; backend < b->n_backends; backend++)
        if (b->backends[backend].why_not[0] == '\0') {
            if (n != backend) b->backends[n] = b->backends[backend];
            n++;
        }
    b->n_backends = n;
}

static int measure(struct ops_bench *b) {
    bool proceed = ops_prepare(b) && (!b->o.limits || limits_measure(&b->limits, &b->ranks));
    if (proceed) ops_print_head(b);
    remove_unusable(b);
    bool usable = b->n_backends > 0;
    if (proceed && usable) proceed = run_all(b);
    print_finished(b, true);
    peers_close(&b->place);
    ops_print_summary(b);
    if (b->plot) ops_plot(b, b->plot);
    if (b->wrong) fprintf(stderr, "muster bench: results were wrong\n");
    if (!proceed) return bench_interrupted("muster bench");
    if (!usable) fprintf(stderr, "muster bench: none of the backends is usable\n");
    return usable && !b->failed && !b->wrong ? EXIT_DONE : EXIT_FAILED;
}

static bool close_file(FILE *file) {
    return !file || fclose(file) == 0;
}

int bench_ops(int argc, char **argv) {
    static struct ops_bench b;
    if (argc > 1 && strcmp(argv[1], "--worker") == 0) return ops_worker(argc, argv);
    int status = ops_read_options(&b, argc, argv);
    if (status != OPT_PROCEED) return status;
    b.cache = limits_cache();
    if (!peers_open(&b.place, b.o.python)) return EXIT_FAILED;
    status = measure(&b);
    if (!close_file(b.json) || !close_file(b.csv) || !close_file(b.plot)) {
        fprintf(stderr, "muster bench: cannot write all figures: %s\n", strerror(errno));
        if (status == EXIT_DONE) status = EXIT_FAILED;
    }
    free(b.results);
    return status;
}
