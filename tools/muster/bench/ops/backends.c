/* backends.c - the backends of "muster bench": their names and how their ranks are started. See ops.h. */
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
    /* native for the loop itself, whose data is on the host */
    {"nccl", "muster over NCCL", "cpu:native,cuda:nccl", OPS_DEVICE},
    {"openmpi", "Open MPI", NULL, OPS_MPI},
    {"mpich", "MPICH", NULL, OPS_MPI},
    {"torch", "torch gloo", NULL, OPS_TORCH},
};
enum { KNOWN = sizeof known / sizeof known[0], MODULES_MOST = 32, NAME_MOST = 32 };

/* Loadable modules that are not in the table above. They use host buffers. */
static struct module { char name[NAME_MOST], label[NAME_MOST + 16]; } modules[MODULES_MOST];

static struct known all[KNOWN + MODULES_MOST]; /* the known ones and the modules */
static int n_all;

static const struct known *find(const char *name) {
    for (int i = 0; i < n_all; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}

/* Lists the names without loading the modules. */
static void find_all(void) {
    const char *name;
    if (n_all > 0) return;
    memcpy(all, known, sizeof known);
    n_all = KNOWN;
    for (int i = 0; n_all < KNOWN + MODULES_MOST && mst_backend_list(i, &name, NULL, NULL, 0); i++) {
        struct module *m = &modules[n_all - KNOWN];
        if (find(name)) continue;
        snprintf(m->name, sizeof m->name, "%s", name);
        snprintf(m->label, sizeof m->label, "muster over %s", name);
        all[n_all++] = (struct known){m->name, m->label, m->name, OPS_MUSTER};
    }
}

bool ops_find_backend(const char *name, struct ops_backend *backend, const char **near) {
    find_all();
    const struct known *k = find(name);
    *near = !k ? msi_nearest(name, all, (size_t)n_all, sizeof all[0]) : NULL;
    if (!k) return false;
    *backend = (struct ops_backend){
        .peer = {.name = k->name, .label = k->label, .wanted = true}, .kind = k->kind, .engine = k->engine};
    return true;
}

const char *ops_backend_names(bool through_muster, char *out, size_t size) {
    size_t used = 0;
    find_all();
    out[0] = '\0';
    for (int i = 0; i < n_all && used < size; i++)
        if ((all[i].engine != NULL) == through_muster)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? " " : "", all[i].name);
    return out;
}

bool ops_usable(const struct ops_bench *b, int backend) {
    return b->backends[backend].peer.why_not[0] == '\0';
}

int ops_first(const struct ops_bench *b) {
    for (int backend = 0; backend < b->n_backends; backend++)
        if (ops_usable(b, backend)) return backend;
    return -1;
}

/* "mpi:openmpi" and "mpi:mpich" name one; "mpi" is the first that is installed. */
static bool prepare_launcher(struct ops_backend *backend, const char *dir) {
    const char *colon = strchr(backend->peer.name, ':');
    bool proceed = true;
    if (!colon || strcmp(colon + 1, "openmpi") == 0) {
        backend->openmpi = true;
        backend->peer.label = "muster over Open MPI";
        proceed = peers_find_mpirun(&backend->peer, "openmpi", dir);
        if (colon || backend->peer.why_not[0] == '\0') return proceed;
        backend->peer.why_not[0] = '\0';
    }
    backend->openmpi = false;
    backend->peer.label = "muster over MPICH";
    return proceed && peers_find_mpirun(&backend->peer, "mpich", dir);
}

/* The version of muster, or the description of a loadable module. */
static void set_version(struct ops_backend *backend) {
    char text[BENCH_WHY_MAX];
    const char *name = NULL;
    bool usable = false;
    int i = 0;
    snprintf(backend->peer.version, sizeof backend->peer.version, "%s", mst_version());
    while (mst_backend_list(i, &name, &usable, NULL, 0) && strcmp(name, backend->peer.name) != 0) i++;
    if (strcmp(backend->peer.name, "native") == 0 || !mst_backend_list(i, &name, &usable, text, sizeof text))
        return;
    if (usable) snprintf(backend->peer.version, sizeof backend->peer.version, "(%.60s)", text);
}

static bool prepare(struct ops_bench *b, int i) {
    static const struct bench_source mpi[] = {{"mpi_ops.c", bench_mpi_ops_c},
                                              {"loop.h", bench_loop_h},
                                              {"loop_data.h", bench_loop_data_h},
                                              {NULL, NULL}};
    static const struct bench_source torch[] = {{"torch_ops.py", bench_torch_ops_py}, {NULL, NULL}};
    struct ops_backend *backend = &b->backends[i];
    bool proceed = true;
    switch (backend->kind) {
    case OPS_MPI:
        backend->openmpi = strcmp(backend->peer.name, "openmpi") == 0;
        return peers_prepare_mpi(&backend->peer, b->dir, mpi,
                                 backend->openmpi ? "openmpi-bin libopenmpi-dev" : "mpich libmpich-dev");
    case OPS_TORCH:
        return peers_prepare_torch(&backend->peer, b->dir, torch, b->python);
    case OPS_MUSTER_MPI:
        proceed = prepare_launcher(backend, b->dir);
        break;
    default:
        set_version(backend);
        break;
    }
    return proceed && (!ops_usable(b, i) || ops_probe(b, i));
}

bool ops_prepare(struct ops_bench *b) {
    peers_set_environment(b->dir);
    for (int backend = 0; backend < b->n_backends; backend++)
        if (!prepare(b, backend)) return false;
    return true;
}

/* Between simulated hosts the MPIs must use TCP. */
static void add_mpirun(const struct ops_backend *backend, const struct ops_case *what,
                       struct bench_argv *argv) {
    static const char *const openmpi_tcp[] = {
        "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", NULL};
    /* UCX and libfabric would still use shared memory without their own settings. */
    static const char *const mpich_tcp[] = {
        "-genv", "MPIR_CVAR_NOLOCAL", "1",   "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo",
        "-genv", "FI_PROVIDER",       "tcp", NULL};
    peers_add_args(argv, (const char *[]){backend->peer.launcher, NULL});
    if (backend->openmpi) peers_add_args(argv, (const char *[]){"--oversubscribe", NULL});
    peers_add_args(argv, (const char *[]){"-n", argv->ranks, NULL});
    if (what->hosts > 1) peers_add_args(argv, backend->openmpi ? openmpi_tcp : mpich_tcp);
}

void ops_add_launcher(const struct ops_bench *b, const struct ops_backend *backend,
                      const struct ops_case *what, struct bench_argv *argv) {
    bool native = backend->engine && strcmp(backend->engine, "native") == 0;
    const char *memory = native && what->buffers == OPS_SYMMETRIC ? "shared" : "plain";
    if (backend->kind == OPS_DEVICE) memory = "device";
    snprintf(argv->ranks, sizeof argv->ranks, "%d", what->ranks);
    snprintf(argv->hosts, sizeof argv->hosts, "%d", what->hosts);
    if (backend->kind == OPS_MPI || backend->kind == OPS_MUSTER_MPI)
        add_mpirun(backend, what, argv);
    else
        peers_add_args(argv, (const char *[]){b->self, "run", "-n", argv->ranks, NULL});
    if (backend->kind == OPS_TORCH)
        peers_add_args(argv, (const char *[]){backend->peer.launcher, backend->peer.program, NULL});
    else if (backend->kind == OPS_MPI)
        peers_add_args(argv, (const char *[]){backend->peer.program, NULL});
    else
        peers_add_args(
            argv, (const char *[]){b->self, "bench", "--worker", backend->engine, memory, argv->hosts, NULL});
}
