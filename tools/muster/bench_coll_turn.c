/* bench_coll_turn.c - one turn of one side: its command, and what its ranks found; see bench_coll.h. */
#include "bench_coll.h"
#include "bench_launch.h"

#include <muster/version.h>
#include <stdlib.h>
#include <string.h>

extern const char bench_mpi_coll_c[], bench_coll_loop_h[], bench_torch_coll_py[];

enum { ARGV_MOST = 32, TEXT_MAX = COLL_SIZES_MOST * 12 };

bool coll_prepare(struct coll_bench *b, const char *python) {
    static const struct bench_source mpi[] = {
        {"mpi_coll.c", bench_mpi_coll_c}, {"coll_loop.h", bench_coll_loop_h}, {NULL, NULL}};
    static const struct bench_source torch[] = {{"torch_coll.py", bench_torch_coll_py}, {NULL, NULL}};
    struct bench_peer *peers = b->peers;

    for (int side = 0; side < COLL_PEERS; side++)
        snprintf(peers[side].version, sizeof peers[side].version, "%s", mst_version());
    peers_set_environment(b->dir);
    if (peers[COLL_OPENMPI].wanted &&
        !peers_prepare_mpi(&peers[COLL_OPENMPI], b->dir, mpi, "openmpi-bin libopenmpi-dev"))
        return false;
    if (peers[COLL_MPICH].wanted && !peers_prepare_mpi(&peers[COLL_MPICH], b->dir, mpi, "mpich libmpich-dev"))
        return false;
    return !peers[COLL_TORCH].wanted || peers_prepare_torch(&peers[COLL_TORCH], b->dir, torch, python);
}

/* The words that every side's ranks get. */
struct words {
    char ranks[16], sizes[TEXT_MAX], cover[32], budget[32], results[96];
};

static void write_words(const struct coll_bench *b, struct words *w) {
    const struct coll_table *t = &b->table;
    size_t len = 0;

    w->sizes[0] = '\0';
    for (int i = 0; i < t->n_sizes && len < sizeof w->sizes; i++)
        len +=
            (size_t)snprintf(w->sizes + len, sizeof w->sizes - len, "%s%zu", i > 0 ? "," : "", t->bytes[i]);
    snprintf(w->ranks, sizeof w->ranks, "%d", t->ranks);
    snprintf(w->cover, sizeof w->cover, "%zu", t->rotating ? 2 * b->cache / (size_t)t->ranks : 0);
    snprintf(w->budget, sizeof w->budget, "%g", b->budget);
    snprintf(w->results, sizeof w->results, "%s/results.%d", b->dir, b->turns);
}

struct argv {
    const char *words[ARGV_MOST];
    int n;
};

static void add(struct argv *argv, const char *const *words) {
    for (; *words != NULL && argv->n < ARGV_MOST - 1; words++) argv->words[argv->n++] = *words;
    argv->words[argv->n] = NULL;
}

/* How each launcher starts the ranks; with --tcp, such that they do not share memory. */
static void add_launcher(const struct coll_bench *b, enum coll_side side, const char *ranks,
                         struct argv *argv) {
    static const char *const openmpi_tcp[] = {
        "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", NULL};
    /* Without the settings of UCX and libfabric, those would share memory all the same. */
    static const char *const mpich_tcp[] = {
        "-genv", "MPIR_CVAR_NOLOCAL", "1",   "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo",
        "-genv", "FI_PROVIDER",       "tcp", NULL};
    const struct bench_peer *peer = &b->peers[side];

    switch (side) {
    case COLL_OPENMPI:
        add(argv, (const char *[]){peer->launcher, "--oversubscribe", "-n", ranks, NULL});
        if (b->tcp) add(argv, openmpi_tcp);
        add(argv, (const char *[]){peer->program, NULL});
        break;
    case COLL_MPICH:
        add(argv, (const char *[]){peer->launcher, "-n", ranks, NULL});
        if (b->tcp) add(argv, mpich_tcp);
        add(argv, (const char *[]){peer->program, NULL});
        break;
    case COLL_TORCH:
        add(argv, (const char *[]){b->self, "run", "-n", ranks, peer->launcher, peer->program, NULL});
        break;
    default:
        add(argv, (const char *[]){b->self, "run", "-n", ranks, b->self, "bench", "coll", "--worker",
                                   side == COLL_ALLOC ? "alloc" : "plain", b->tcp ? "tcp" : "host", NULL});
        break;
    }
}

static void take_sample(struct coll_table *t, enum coll_side side, size_t bytes, double ns) {
    for (int i = 0; i < t->n_sizes; i++) {
        struct coll_cell *cell = &t->cells[side][i];
        if (t->bytes[i] != bytes || cell->n == COLL_ROUNDS_MOST) continue;
        cell->us[cell->n++] = ns / 1e3;
        return;
    }
}

static void take_why(char *why, const char *text) {
    if (why[0] == '\0') snprintf(why, BENCH_WHY_MAX, "%s", text); /* what follows is mostly its consequence */
}

/* Reads what the ranks have appended; true if a result was wrong. */
static bool take_results(struct coll_table *t, enum coll_side side, const char *path) {
    FILE *file = fopen(path, "re");
    char line[BENCH_WHY_MAX], wrong[BENCH_WHY_MAX] = "";
    size_t bytes;
    double ns;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%zu %lf", &bytes, &ns) == 2)
            take_sample(t, side, bytes, ns);
        else if (strncmp(line, "wrong ", 6) == 0)
            take_why(wrong, line + 6);
        else if (strncmp(line, "failed ", 7) == 0)
            take_why(t->why[side], line + 7);
        else if (strncmp(line, "unsupported ", 12) == 0)
            take_why(t->unsupported[side], line + 12);
    }
    if (file != NULL) fclose(file);
    if (wrong[0] != '\0') snprintf(t->why[side], sizeof t->why[side], "%s", wrong);
    return wrong[0] != '\0';
}

enum coll_verdict coll_turn(struct coll_bench *b, enum coll_side side) {
    struct coll_table *t = &b->table;
    struct argv argv = {.n = 0};
    struct words w;
    char output[96], line[BENCH_WHY_MAX];

    b->turns++;
    write_words(b, &w);
    snprintf(output, sizeof output, "%s/output", b->dir);
    add_launcher(b, side, w.ranks, &argv);
    add(&argv,
        (const char *[]){t->op->name, w.sizes, w.cover, w.budget, b->bind ? "1" : "0", w.results, NULL});
    struct launch_result result = launch_run(argv.words, output, b->limit);
    if (result.end == LAUNCH_STOPPED) return COLL_STOPPED;
    if (take_results(t, side, w.results)) return COLL_WRONG;
    if (result.end == LAUNCH_TIME_UP) {
        snprintf(line, sizeof line, "not done after %g s (--limit)", b->limit);
        take_why(t->why[side], line);
    } else if (result.end == LAUNCH_NOT_STARTED || result.status != 0) {
        take_why(t->why[side], launch_last_line(output, line, sizeof line));
    }
    return COLL_FINE;
}
