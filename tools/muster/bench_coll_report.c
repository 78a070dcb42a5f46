/* bench_coll_report.c - what "muster bench coll" found: tables, the summary and CSV; see bench_coll.h. */
#include "bench_coll.h"
#include "bench_median.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 32, WIDTH = 13 };

bool coll_shown(const struct coll_bench *b, int side) {
    return b->peers[side].wanted && b->peers[side].why_not[0] == '\0';
}

/* Microseconds; 0 if there are none. */
static double median(const struct coll_cell *cell) {
    double sorted[COLL_ROUNDS_MOST];
    int n = cell->n;

    if (n == 0) return 0;
    memcpy(sorted, cell->us, (size_t)n * sizeof sorted[0]);
    qsort(sorted, (size_t)n, sizeof sorted[0], bench_compare);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static double least(const struct coll_cell *cell) {
    double found = cell->n > 0 ? cell->us[0] : 0;
    for (int i = 1; i < cell->n; i++)
        if (cell->us[i] < found) found = cell->us[i];
    return found;
}

static double bus_gbps(const struct coll_table *t, size_t bytes, double us) {
    return us > 0 ? (double)bytes / us / 1e3 * (t->op->bus - t->op->shrink / t->ranks) : 0;
}

/* The peer that took least time at a size, or -1. */
static int best_peer(const struct coll_table *t, int i) {
    int best = -1;

    for (int side = COLL_PEERS; side < COLL_SIDES; side++)
        if (t->cells[side][i].n > 0 && (best < 0 || median(&t->cells[side][i]) < median(&t->cells[best][i])))
            best = side;
    return best;
}

/* How many times as long as muster the best peer takes; 0 if there is nothing to compare. */
static double ratio(const struct coll_table *t, int ours, int i) {
    int best = best_peer(t, i);
    if (best < 0 || t->cells[ours][i].n == 0) return 0;
    return median(&t->cells[best][i]) / median(&t->cells[ours][i]);
}

/* Three digits that count. */
static const char *put(char out[TEXT], double x) {
    snprintf(out, TEXT, "%.*f", x < 10 ? 2 : x < 100 ? 1 : 0, x);
    return x > 0 ? out : "-";
}

/* A factor, such as 2.31x or 0.043x. */
static const char *put_ratio(char out[TEXT], double x) {
    snprintf(out, TEXT, "%.*fx", x < 1 ? 3 : x < 10 ? 2 : x < 100 ? 1 : 0, x);
    return x > 0 ? out : "-";
}

static const char *put_bytes(char out[TEXT], size_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
        snprintf(out, TEXT, "%zu MiB", bytes >> 20);
    else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0)
        snprintf(out, TEXT, "%zu KiB", bytes >> 10);
    else
        snprintf(out, TEXT, "%zu B", bytes);
    return out;
}

static const char *buffers_of(bool rotating) {
    return rotating ? "rotating" : "hot";
}

void coll_print_head(const struct coll_bench *b) {
    char machine[300], cache[TEXT];
    double load = 0;

    peers_write_machine(machine, sizeof machine);
    if (getloadavg(&load, 1) != 1) load = 0;
    printf("collectives on %s; load %.2f when this began\n", machine, load);
    for (int side = 0; side < COLL_SIDES; side++)
        if (side != COLL_ALLOC && coll_shown(b, side))
            printf("%s %s; ", b->peers[side].label, b->peers[side].version);
    printf("f32, %s%s\nmedian of %d round%s, everyone in turn, %g s for each size; us",
           b->tcp ? "TCP alone" : "one host", b->bind ? ", each rank bound to a processor" : "", b->rounds,
           b->rounds == 1 ? "" : "s", b->budget);
    if (b->bandwidth) printf(" and bus bandwidth in GB/s");
    printf("\n");
    if (b->rotating)
        printf("rotating buffers: up to 256 sets, together twice the last-level cache (%s) or more where "
               "they can be\n",
               put_bytes(cache, b->cache));
    for (int side = 0; side < COLL_SIDES; side++)
        if (b->peers[side].wanted && !coll_shown(b, side))
            printf("%s is skipped: %s\n", b->peers[side].label, b->peers[side].why_not);
    fflush(stdout);
}

static void print_titles(const struct coll_bench *b) {
    const struct coll_table *t = &b->table;

    printf("\n%s, %d ranks, %s buffers\n%12s", t->op->title, t->ranks, buffers_of(t->rotating), "bytes");
    for (int side = 0; side < COLL_SIDES; side++) {
        if (!coll_shown(b, side)) continue;
        printf(" %*s", WIDTH, b->peers[side].label);
        if (b->bandwidth) printf(" %8s", "GB/s");
    }
    printf("   best peer : muster%s\n", coll_shown(b, COLL_ALLOC) ? ", alloc" : "");
}

static void print_ratios(const struct coll_bench *b, int i) {
    const struct coll_table *t = &b->table;
    int best = best_peer(t, i);
    char text[TEXT];

    printf("   %s", put_ratio(text, ratio(t, COLL_MUSTER, i)));
    if (coll_shown(b, COLL_ALLOC)) printf(", %s", put_ratio(text, ratio(t, COLL_ALLOC, i)));
    if (ratio(t, COLL_MUSTER, i) > 0 || ratio(t, COLL_ALLOC, i) > 0) printf(" (%s)", b->peers[best].label);
    printf("\n");
}

static void print_row(const struct coll_bench *b, int i) {
    const struct coll_table *t = &b->table;
    char text[TEXT];

    printf("%12zu", t->bytes[i]);
    for (int side = 0; side < COLL_SIDES; side++) {
        if (!coll_shown(b, side)) continue;
        double us = median(&t->cells[side][i]);
        printf(" %*s", WIDTH, put(text, us));
        if (b->bandwidth) printf(" %8s", put(text, bus_gbps(t, t->bytes[i], us)));
    }
    print_ratios(b, i);
}

static void write_csv(const struct coll_bench *b) {
    const struct coll_table *t = &b->table;

    for (int i = 0; i < t->n_sizes; i++)
        for (int side = 0; side < COLL_SIDES; side++) {
            const struct coll_cell *cell = &t->cells[side][i];
            double us = median(cell);
            if (!coll_shown(b, side)) continue;
            fprintf(b->csv, "%s,%s,%s,%d,%zu,%s,%s,", t->op->title, b->tcp ? "tcp" : "host",
                    buffers_of(t->rotating), t->ranks, t->bytes[i], b->peers[side].name,
                    b->peers[side].version);
            if (cell->n > 0)
                fprintf(b->csv, "%.4f,%.4f,%.4f,%d\n", us, least(cell), bus_gbps(t, t->bytes[i], us),
                        cell->n);
            else
                fprintf(b->csv, ",,,0\n");
        }
    fflush(b->csv);
}

static void add_score(struct coll_bench *b) {
    const struct coll_table *t = &b->table;
    struct coll_score *score = &b->scores[b->n_scores++];

    *score = (struct coll_score){.op = t->op, .ranks = t->ranks, .rotating = t->rotating};
    for (int ours = 0; ours < COLL_PEERS; ours++)
        for (int i = 0; i < t->n_sizes; i++) {
            struct coll_ratios *r = &score->ours[ours];
            double x = ratio(t, ours, i);
            if (x <= 0) continue;
            r->log_sum += log(x);
            if (r->n++ > 0 && x >= r->worst) continue;
            r->worst = x;
            r->worst_at = t->bytes[i];
        }
}

void coll_print_table(struct coll_bench *b) {
    const struct coll_table *t = &b->table;

    print_titles(b);
    for (int i = 0; i < t->n_sizes; i++) print_row(b, i);
    for (int side = 0; side < COLL_SIDES; side++)
        if (t->unsupported[side][0] != '\0')
            printf("%s does not support it: %s\n", b->peers[side].label, t->unsupported[side]);
        else if (t->why[side][0] != '\0')
            printf("%s failed: %s\n", b->peers[side].label, t->why[side]);
    fflush(stdout);
    if (b->csv != NULL) {
        if (b->n_scores == 0)
            fprintf(b->csv, "op,link,buffers,ranks,bytes,who,version,median_us,min_us,busbw_GBps,rounds\n");
        write_csv(b);
    }
    add_score(b);
}

static void print_mean(const struct coll_ratios *r, const char *worst_op) {
    char mean[TEXT], worst[TEXT], at[TEXT];

    printf(" %8s %8s", put_ratio(mean, r->n > 0 ? exp(r->log_sum / r->n) : 0), put_ratio(worst, r->worst));
    if (r->worst_at > 0) printf(" at %s", put_bytes(at, r->worst_at));
    if (worst_op != NULL) printf(" of %s", worst_op);
    printf("\n");
}

/* All tables together; *worst_op names the operation that has the worst point. */
static struct coll_ratios sum_up(const struct coll_bench *b, int ours, const char **worst_op) {
    struct coll_ratios all = {0};

    for (int i = 0; i < b->n_scores; i++) {
        const struct coll_ratios *r = &b->scores[i].ours[ours];
        if (r->n > 0 && (all.n == 0 || r->worst < all.worst)) {
            all.worst = r->worst;
            all.worst_at = r->worst_at;
            *worst_op = b->scores[i].op->title;
        }
        all.log_sum += r->log_sum;
        all.n += r->n;
    }
    return all;
}

void coll_print_summary(const struct coll_bench *b) {
    for (int ours = 0; ours < COLL_PEERS; ours++) {
        const char *worst_op = "";
        struct coll_ratios all = sum_up(b, ours, &worst_op);
        if (!coll_shown(b, ours) || all.n == 0) continue;
        printf("\nbest peer : %s, over all sizes (more than 1: %s is faster)\n%-24s %5s %-9s %8s %8s\n",
               b->peers[ours].label, b->peers[ours].label, "", "ranks", "buffers", "geo mean", "worst");
        for (int i = 0; i < b->n_scores; i++) {
            const struct coll_score *s = &b->scores[i];
            printf("%-24s %5d %-9s", s->op->title, s->ranks, buffers_of(s->rotating));
            print_mean(&s->ours[ours], NULL);
        }
        printf("%-24s %5s %-9s", "all", "", "");
        print_mean(&all, worst_op);
    }
}
