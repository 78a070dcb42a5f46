/* backends.c - the backends of "muster bench": their names and how their ranks are started; see ops.h. */
#include "base/nearest.h"
#include "bench/ops/ops.h"

#include <muster/backend.h>
#include <muster/version.h>
#include <string.h>

extern const char bench_mpi_ops_c[], bench_loop_h[], bench_loop_data_h[], bench_torch_ops_py[];

struct known {
    const char *name, *label, *engine;
    enum ops_kind kind;
};

static const struct known known[] = {
    {"native", "muster", "native", OPS_MUSTER},
    {"mpi", "muster over MPI", "mpi", OPS_MUSTER_MPI},
    {"mpi:openmpi", "muster over Open MPI", "mpi", OPS_MUSTER_MPI},
    {"mpi:mpich", "muster over MPICH", "mpi", OPS_MUSTER_MPI},
    {"gloo", "muster over Gloo", "gloo", OPS_MUSTER},
    {"nccl", "muster over NCCL", "cpu:native,cuda:nccl",
     OPS_DEVICE}, /* what the loop itself needs is the host's */
    {"openmpi", "Open MPI", NULL, OPS_MPI},
    {"mpich", "MPICH", NULL, OPS_MPI},
    {"torch", "torch gloo", NULL, OPS_TORCH},
};
enum { KNOWN = sizeof known / sizeof known[0], MODULES_MOST = 32, NAME_MOST = 32 };

/* Modules of somebody's own that muster finds; they take buffers of the host. */
static struct module { char name[NAME_MOST], label[NAME_MOST + 16]; } modules[MODULES_MOST];

static struct known all[KNOWN + MODULES_MOST]; /* those that are known, and the modules */
static int n_all;

static const struct known *find(const char *name) {
    for (int i = 0; i < n_all; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}

/* Lists the names alone: nothing is loaded. */
static void find_all(void) {
    const char *name;

    if (n_all > 0) return;
    memcpy(all, known, sizeof known);
    n_all = KNOWN;
    for (int i = 0; n_all < KNOWN + MODULES_MOST && mst_backend_list(i, &name, NULL, NULL, 0); i++) {
        struct module *m = &modules[n_all - KNOWN];
        if (find(name) != NULL) continue;
        snprintf(m->name, sizeof m->name, "%s", name);
        snprintf(m->label, sizeof m->label, "muster over %s", name);
        all[n_all++] = (struct known){m->name, m->label, m->name, OPS_MUSTER};
    }
}

bool ops_find_side(const char *name, struct ops_side *side, const char **near) {
    find_all();
    const struct known *k = find(name);
    *near = k == NULL ? msi_nearest(name, all, (size_t)n_all, sizeof all[0]) : NULL;
    if (k == NULL) return false;
    *side = (struct ops_side){
        .peer = {.name = k->name, .label = k->label, .wanted = true}, .kind = k->kind, .engine = k->engine};
    return true;
}

const char *ops_side_names(bool through_muster, char *out, size_t size) {
    size_t used = 0;

    find_all();
    out[0] = '\0';
    for (int i = 0; i < n_all && used < size; i++)
        if ((all[i].engine != NULL) == through_muster)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? " " : "", all[i].name);
    return out;
}

bool ops_usable(const struct ops_bench *b, int side) {
    return b->sides[side].peer.why_not[0] == '\0';
}

int ops_first(const struct ops_bench *b) {
    for (int side = 0; side < b->n_sides; side++)
        if (ops_usable(b, side)) return side;
    return -1;
}

/* "mpi:openmpi" names one; "mpi" is the first that is here. */
static bool prepare_launcher(struct ops_side *side, const char *dir) {
    const char *colon = strchr(side->peer.name, ':');
    bool going_on = true;

    if (colon == NULL || strcmp(colon + 1, "openmpi") == 0) {
        side->openmpi = true;
        side->peer.label = "muster over Open MPI";
        going_on = peers_find_mpirun(&side->peer, "openmpi", dir);
        if (colon != NULL || side->peer.why_not[0] == '\0') return going_on;
        side->peer.why_not[0] = '\0';
    }
    side->openmpi = false;
    side->peer.label = "muster over MPICH";
    return going_on && peers_find_mpirun(&side->peer, "mpich", dir);
}

/* Muster's own, or what an engine says of itself; others are not loaded for that. */
static void take_version(struct ops_side *side) {
    char text[BENCH_WHY_MAX];
    const char *name = NULL;
    bool usable = false;
    int i = 0;

    snprintf(side->peer.version, sizeof side->peer.version, "%s", mst_version());
    while (mst_backend_list(i, &name, &usable, NULL, 0) && strcmp(name, side->peer.name) != 0) i++;
    if (strcmp(side->peer.name, "native") == 0 || !mst_backend_list(i, &name, &usable, text, sizeof text))
        return;
    if (usable) snprintf(side->peer.version, sizeof side->peer.version, "(%.60s)", text);
}

static bool prepare(struct ops_bench *b, int i) {
    static const struct bench_source mpi[] = {{"mpi_ops.c", bench_mpi_ops_c},
                                              {"loop.h", bench_loop_h},
                                              {"loop_data.h", bench_loop_data_h},
                                              {NULL, NULL}};
    static const struct bench_source torch[] = {{"torch_ops.py", bench_torch_ops_py}, {NULL, NULL}};
    struct ops_side *side = &b->sides[i];
    bool going_on = true;

    switch (side->kind) {
    case OPS_MPI:
        side->openmpi = strcmp(side->peer.name, "openmpi") == 0;
        return peers_prepare_mpi(&side->peer, b->dir, mpi,
                                 side->openmpi ? "openmpi-bin libopenmpi-dev" : "mpich libmpich-dev");
    case OPS_TORCH:
        return peers_prepare_torch(&side->peer, b->dir, torch, b->python);
    case OPS_MUSTER_MPI:
        going_on = prepare_launcher(side, b->dir);
        break;
    default:
        take_version(side);
        break;
    }
    return going_on && (!ops_usable(b, i) || ops_try(b, i));
}

bool ops_prepare(struct ops_bench *b) {
    peers_set_environment(b->dir);
    for (int side = 0; side < b->n_sides; side++)
        if (!prepare(b, side)) return false;
    return true;
}

void ops_add_words(struct ops_argv *argv, const char *const *words) {
    for (; *words != NULL && argv->n < OPS_ARGV_MOST - 1; words++) argv->words[argv->n++] = *words;
    argv->words[argv->n] = NULL;
}

/* Between pretended hosts the MPIs must not share memory. */
static void add_mpirun(const struct ops_side *side, const struct ops_case *what, struct ops_argv *argv) {
    static const char *const openmpi_tcp[] = {
        "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", NULL};
    /* Without the settings of UCX and libfabric, those would share memory all the same. */
    static const char *const mpich_tcp[] = {
        "-genv", "MPIR_CVAR_NOLOCAL", "1",   "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo",
        "-genv", "FI_PROVIDER",       "tcp", NULL};

    ops_add_words(argv, (const char *[]){side->peer.launcher, NULL});
    if (side->openmpi) ops_add_words(argv, (const char *[]){"--oversubscribe", NULL});
    ops_add_words(argv, (const char *[]){"-n", argv->ranks, NULL});
    if (what->hosts > 1) ops_add_words(argv, side->openmpi ? openmpi_tcp : mpich_tcp);
}

void ops_add_launcher(const struct ops_bench *b, const struct ops_side *side, const struct ops_case *what,
                      struct ops_argv *argv) {
    bool native = side->engine != NULL && strcmp(side->engine, "native") == 0;
    const char *memory = native && what->buffers == OPS_SYMMETRIC ? "shared" : "plain";

    if (side->kind == OPS_DEVICE) memory = "device";
    snprintf(argv->ranks, sizeof argv->ranks, "%d", what->ranks);
    snprintf(argv->hosts, sizeof argv->hosts, "%d", what->hosts);
    if (side->kind == OPS_MPI || side->kind == OPS_MUSTER_MPI)
        add_mpirun(side, what, argv);
    else
        ops_add_words(argv, (const char *[]){b->self, "run", "-n", argv->ranks, NULL});
    if (side->kind == OPS_TORCH)
        ops_add_words(argv, (const char *[]){side->peer.launcher, side->peer.program, NULL});
    else if (side->kind == OPS_MPI)
        ops_add_words(argv, (const char *[]){side->peer.program, NULL});
    else
        ops_add_words(
            argv, (const char *[]){b->self, "bench", "--worker", side->engine, memory, argv->hosts, NULL});
}
