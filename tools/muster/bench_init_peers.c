/*
 * bench_init_peers.c - who can be measured here, and with which command; see bench_init.h. The peers'
 * programs are in bench/peers/, which the build embeds; they are written out and compiled in the temporary
 * directory, so that neither building nor installing muster needs a peer.
 */
#include "bench_init.h"
#include "program.h"

#include <muster/version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern const char bench_mpi_init_c[], bench_torch_init_py[];

enum { PREPARE_SECONDS = 120 };

static void path_in(const struct init_bench *b, const char *name, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%s/%s", b->dir, name);
}

static bool write_program(struct init_peer *peer, const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fputs(text, file) >= 0;

    if (file != NULL && fclose(file) != 0) written = false;
    if (!written) snprintf(peer->why_not, sizeof peer->why_not, "cannot write to %.200s", path);
    return written;
}

/* Finds a program in PATH, or says which package would bring it. */
static bool find(struct init_peer *peer, const char *name, const char *package, char path[PATH_MAX]) {
    char why[INIT_WHY_MAX], *found;

    if (program_find(name, &found, why, sizeof why) != 0) {
        snprintf(peer->why_not, sizeof peer->why_not, "%.200s (Debian: %s)", why, package);
        return false;
    }
    snprintf(path, PATH_MAX, "%s", found);
    free(found);
    return true;
}

/* Runs a command that prepares a peer; what it prints is left in output. */
static enum init_end prepare_by(struct init_peer *peer, const char *const *argv, const char *output) {
    struct init_result result = init_launch(argv, output, PREPARE_SECONDS);
    bool fine = result.end == INIT_ENDED && WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0;
    char line[INIT_WHY_MAX];

    if (!fine)
        snprintf(peer->why_not, sizeof peer->why_not, "%.120s fails: %.150s", argv[0],
                 init_last_line(output, line, sizeof line));
    return result.end;
}

/* The first word of the output that begins with a digit, or with v and a digit. */
static void take_version(struct init_peer *peer, const char *output) {
    FILE *file = fopen(output, "re");
    char word[64];

    while (file != NULL && fscanf(file, "%63s", word) == 1) {
        const char *number = word + (word[0] == 'v');
        size_t len = strcspn(number, ",;+");
        if (number[0] < '0' || number[0] > '9') continue;
        snprintf(peer->version, sizeof peer->version, "%.*s", (int)len, number);
        break;
    }
    if (file != NULL) fclose(file);
}

static bool prepare_mpi(struct init_bench *b, enum init_who who, const char *package) {
    struct init_peer *peer = &b->peers[who];
    char source[PATH_MAX], output[PATH_MAX], compiler[PATH_MAX], name[32];

    path_in(b, "mpi_init.c", source);
    path_in(b, "output", output);
    path_in(b, peer->name, peer->program);
    snprintf(name, sizeof name, "mpirun.%s", peer->name);
    if (!find(peer, name, package, peer->launcher)) return true;
    snprintf(name, sizeof name, "mpicc.%s", peer->name);
    if (!find(peer, name, package, compiler) || !write_program(peer, source, bench_mpi_init_c)) return true;
    const char *compile[] = {compiler, "-O2", "-o", peer->program, source, NULL};
    const char *ask[] = {peer->program, NULL};
    enum init_end end = prepare_by(peer, compile, output);
    if (peer->why_not[0] == '\0') end = prepare_by(peer, ask, output);
    if (peer->why_not[0] == '\0') take_version(peer, output);
    return end != INIT_STOPPED;
}

static bool prepare_torch(struct init_bench *b, const char *python) {
    struct init_peer *peer = &b->peers[INIT_TORCH];
    char output[PATH_MAX];

    path_in(b, "output", output);
    path_in(b, "torch_init.py", peer->program);
    if (!find(peer, python, "python3-torch", peer->launcher)) return true;
    if (!write_program(peer, peer->program, bench_torch_init_py)) return true;
    const char *ask[] = {peer->launcher, peer->program, NULL};
    enum init_end end = prepare_by(peer, ask, output);
    if (peer->why_not[0] == '\0') take_version(peer, output);
    return end != INIT_STOPPED;
}

bool init_peers_prepare(struct init_bench *b, const char *python) {
    static const enum init_who ours[] = {INIT_MUSTER, INIT_THREADS_HASH, INIT_THREADS_TCP};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        snprintf(b->peers[ours[i]].version, sizeof b->peers[0].version, "%s", mst_version());
    setenv("TMPDIR", b->dir, 1); /* where Open MPI keeps its session: removed with the rest */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0); /* never used on one host, yet missed without ssh */
    if (b->peers[INIT_OPENMPI].wanted && !prepare_mpi(b, INIT_OPENMPI, "openmpi-bin libopenmpi-dev"))
        return false;
    if (b->peers[INIT_MPICH].wanted && !prepare_mpi(b, INIT_MPICH, "mpich libmpich-dev")) return false;
    return !b->peers[INIT_TORCH].wanted || prepare_torch(b, python);
}

static void fill(const char *argv[INIT_ARGV_MAX], const char *const *words) {
    int n = 0;

    for (; words[n] != NULL; n++) argv[n] = words[n];
    argv[n] = NULL;
}

void init_peer_command(const struct init_bench *b, const struct init_case *c, const char *marks,
                       char number[16], const char *argv[INIT_ARGV_MAX]) {
    const struct init_peer *peer = &b->peers[c->who];

    snprintf(number, 16, "%d", c->ranks);
    switch (c->who) {
    case INIT_MUSTER:
        fill(argv, (const char *[]){b->self, "run", "-n", number, b->self, "bench", "init", "--worker", marks,
                                    NULL});
        break;
    case INIT_OPENMPI:
        fill(argv,
             (const char *[]){peer->launcher, "--oversubscribe", "-n", number, peer->program, marks, NULL});
        break;
    case INIT_MPICH:
        fill(argv, (const char *[]){peer->launcher, "-n", number, peer->program, marks, NULL});
        break;
    case INIT_TORCH:
        fill(argv,
             (const char *[]){b->self, "run", "-n", number, peer->launcher, peer->program, marks, NULL});
        break;
    default:
        fill(argv, (const char *[]){b->self, "bench", "init", "--thread-ranks", marks, number,
                                    c->who == INIT_THREADS_TCP ? "tcp" : "hash", NULL});
        break;
    }
}
