/* report.c - what "muster bench init" found, as tables, CSV and JSON; see init.h. */
#include "base/median.h"
#include "bench/init/init.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN = 25, CELL_MAX = 160 };

const char *const init_outcome_names[] = {"fine", "too slow", "failed"};

/* What is measured: where its samples are, and what it is called. */
struct metric {
    const char *name, *title;
    size_t offset;
};
static const struct metric metrics[] = {
    {"first_barrier", "From main of the last rank to the end of the first barrier, in milliseconds",
     offsetof(struct init_case, barrier)},
    {"wall", "The whole command, from the start of the launcher to its exit, in milliseconds",
     offsetof(struct init_case, wall)},
};
enum { N_METRICS = sizeof metrics / sizeof metrics[0] };

struct summary {
    double median, min, max; /* milliseconds */
};

static const double *samples(const struct init_case *c, const struct metric *m) {
    return (const double *)(const void *)((const char *)c + m->offset);
}

static struct summary summarise(const struct init_case *c, const struct metric *m) {
    double sorted[INIT_RUNS_MOST] = {0};
    int n = c->runs;

    memcpy(sorted, samples(c, m), (size_t)n * sizeof sorted[0]);
    double median = msi_median(sorted, n);
    return (struct summary){median * 1e3, sorted[0] * 1e3, sorted[n - 1] * 1e3};
}

static const struct init_case *find_case(const struct init_bench *b, int who, int ranks) {
    for (int i = 0; i < b->n_cases; i++)
        if ((int)b->cases[i].who == who && b->cases[i].ranks == ranks) return &b->cases[i];
    return NULL;
}

/* Three digits that count. */
static int put_ms(char *out, size_t size, double ms) {
    return snprintf(out, size, "%.*f", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

static void write_cell(const struct init_bench *b, const struct init_case *c, const struct metric *m,
                       char cell[CELL_MAX]) {
    char median[16], min[16], max[16], runs[24] = "";

    if (c == NULL || c->outcome != INIT_FINE) {
        if (c != NULL && c->outcome == INIT_TOO_SLOW)
            snprintf(cell, CELL_MAX, "> %g s", b->limit);
        else
            snprintf(cell, CELL_MAX, "%s", c == NULL ? "-" : "failed");
        return;
    }
    struct summary s = summarise(c, m);
    put_ms(median, sizeof median, s.median);
    put_ms(min, sizeof min, s.min);
    put_ms(max, sizeof max, s.max);
    if (c->runs == 1) {
        snprintf(cell, CELL_MAX, "%s (n=1)", median);
        return;
    }
    if (c->runs < b->runs) snprintf(runs, sizeof runs, ", n=%d", c->runs);
    snprintf(cell, CELL_MAX, "%s (%s-%s%s)", median, min, max, runs);
}

/* The best peer over muster: how many times as long it takes, and whose it is. */
static void write_ratio(const struct init_bench *b, int ranks, const struct metric *m, char cell[CELL_MAX]) {
    const struct init_case *ours = find_case(b, INIT_MUSTER, ranks);
    double best = 0;
    int whose = -1;

    snprintf(cell, CELL_MAX, "-");
    if (ours == NULL || ours->outcome != INIT_FINE) return;
    for (int who = INIT_MUSTER + 1; who < INIT_PEERS; who++) {
        const struct init_case *c = find_case(b, who, ranks);
        if (c == NULL || c->outcome != INIT_FINE) continue;
        double median = summarise(c, m).median;
        if (whose >= 0 && median >= best) continue;
        best = median;
        whose = who;
    }
    if (whose < 0) return;
    double ratio = best / summarise(ours, m).median;
    snprintf(cell, CELL_MAX, "%.*fx (%s)", ratio < 10 ? 1 : 0, ratio, b->peers[whose].label);
}

static bool shown(const struct init_bench *b, int who) {
    return b->peers[who].wanted && b->peers[who].why_not[0] == '\0';
}

static void print_table(const struct init_bench *b, const struct metric *m) {
    char cell[CELL_MAX];

    printf("\n%s\n%-10s", m->title, "processes");
    for (int who = 0; who < INIT_PEERS; who++)
        if (shown(b, who)) printf("%-*s", COLUMN, b->peers[who].label);
    printf("best peer / muster\n");
    for (int i = 0; i < b->n_sizes; i++) {
        printf("%-10d", b->sizes[i]);
        for (int who = 0; who < INIT_PEERS; who++) {
            if (!shown(b, who)) continue;
            write_cell(b, find_case(b, who, b->sizes[i]), m, cell);
            printf("%-*s", COLUMN, cell);
        }
        write_ratio(b, b->sizes[i], m, cell);
        printf("%s\n", cell);
    }
}

static void print_threads(const struct init_bench *b) {
    char cell[CELL_MAX];
    bool any = false;

    for (int i = 0; i < b->n_cases; i++) {
        const struct init_case *c = &b->cases[i];
        if (c->who < INIT_PEERS) continue;
        if (!any)
            printf("\n%d thread-ranks of muster in one process, in milliseconds\n%-20s%-*s%s\n", c->ranks, "",
                   COLUMN, "last start to barrier", "the whole process");
        any = true;
        printf("%-20s", b->peers[c->who].label);
        for (int m = 0; m < N_METRICS; m++) {
            write_cell(b, c, &metrics[m], cell);
            printf("%-*s", m + 1 < N_METRICS ? COLUMN : 0, cell);
        }
        printf("\n");
    }
}

static void print_notes(const struct init_bench *b) {
    bool torch = shown(b, INIT_TORCH);

    printf("\n");
    for (int who = 0; who < INIT_PEERS; who++)
        if (b->peers[who].wanted && !shown(b, who))
            printf("%s is skipped: %s\n", b->peers[who].label, b->peers[who].why_not);
    for (int i = 0; i < b->n_cases; i++)
        if (b->cases[i].outcome == INIT_FAILED)
            printf("%s with %d ranks failed: %s\n", b->peers[b->cases[i].who].label, b->cases[i].ranks,
                   b->cases[i].why);
    printf("Every rank initialises, passes one barrier and finalises.\n");
    if (torch)
        printf("torch: the first table leaves out Python's start and imports; it was asked for up to %d "
               "processes.\n",
               b->peers[INIT_TORCH].most);
}

void init_print_tables(const struct init_bench *b) {
    char machine[300];

    peers_write_machine(machine, sizeof machine);
    printf("start-up on %s\n", machine);
    for (int who = 0; who < INIT_PEERS; who++)
        if (shown(b, who)) printf("%s %s; ", b->peers[who].label, b->peers[who].version);
    printf("median (least-most) of %d run%s, everyone in turn; n=: fewer runs\n", b->runs,
           b->runs == 1 ? "" : "s");
    for (int m = 0; m < N_METRICS; m++) print_table(b, &metrics[m]);
    print_threads(b);
    print_notes(b);
}

void init_write_csv(const struct init_bench *b, FILE *file) {
    fprintf(file, "who,version,ranks,metric,median_ms,min_ms,max_ms,runs,outcome\n");
    for (int i = 0; i < b->n_cases; i++)
        for (int m = 0; m < N_METRICS; m++) {
            const struct init_case *c = &b->cases[i];
            const struct bench_peer *peer = &b->peers[c->who];

            fprintf(file, "%s,%s,%d,%s,", peer->name, peer->version, c->ranks, metrics[m].name);
            if (c->runs > 0) {
                struct summary s = summarise(c, &metrics[m]);
                fprintf(file, "%.3f,%.3f,%.3f", s.median, s.min, s.max);
            } else {
                fprintf(file, ",,");
            }
            fprintf(file, ",%d,%s\n", c->runs, init_outcome_names[c->outcome]);
        }
}

static cJSON *case_to_json(const struct init_bench *b, const struct init_case *c) {
    cJSON *item = cJSON_CreateObject();

    cJSON_AddStringToObject(item, "who", b->peers[c->who].name);
    cJSON_AddNumberToObject(item, "ranks", c->ranks);
    cJSON_AddStringToObject(item, "outcome", init_outcome_names[c->outcome]);
    if (c->outcome == INIT_FAILED) cJSON_AddStringToObject(item, "because", c->why);
    for (int m = 0; m < N_METRICS; m++) {
        char name[32];
        snprintf(name, sizeof name, "%s_seconds", metrics[m].name);
        cJSON_AddItemToObject(item, name, cJSON_CreateDoubleArray(samples(c, &metrics[m]), c->runs));
    }
    return item;
}

void init_print_json(const struct init_bench *b) {
    cJSON *root = cJSON_CreateObject();
    char machine[300];

    peers_write_machine(machine, sizeof machine);
    cJSON_AddStringToObject(root, "machine", machine);
    cJSON *peers = cJSON_AddObjectToObject(root, "peers");
    for (int who = 0; who < INIT_PEERS; who++) {
        if (!b->peers[who].wanted) continue;
        cJSON *peer = cJSON_AddObjectToObject(peers, b->peers[who].name);
        cJSON_AddStringToObject(peer, shown(b, who) ? "version" : "skipped",
                                shown(b, who) ? b->peers[who].version : b->peers[who].why_not);
    }
    cJSON *cases = cJSON_AddArrayToObject(root, "cases");
    for (int i = 0; i < b->n_cases; i++) cJSON_AddItemToArray(cases, case_to_json(b, &b->cases[i]));
    char *text = cJSON_Print(root);
    puts(text != NULL ? text : "{}");
    free(text);
    cJSON_Delete(root);
}
