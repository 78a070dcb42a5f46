/* backends.c - the backends of "muster bench": their names, and whether they are usable. See ops.h. */
#include "base/nearest.h"
#include "bench/ops/ops.h"

#include <muster/backend.h>
#include <string.h>

extern const char bench_mpi_ops_c[], bench_loop_h[], bench_loop_data_h[], bench_torch_ops_py[];

struct known {
    const char *name, *label, *engine;
    enum bench_kind kind;
    const char *const *settings; /* see struct bench_peer */
};

/* Settings with which the MPIs are faster at some points, but not at all of them. */
static const char *const no_cma[] = {"--mca", "btl_vader_single_copy_mechanism", "none", NULL},
                         *const coll_sm[] = {"--mca", "coll_sm_priority", "100", NULL},
                         *const ucx[] = {"--mca",
                                         "pml",
                                         "ucx",
                                         "--mca",
                                         "pml_ucx_tls",
                                         "any",
                                         "--mca",
                                         "pml_ucx_devices",
                                         "any",
                                         "-x",
                                         "UCX_TLS=posix,cma,self",
                                         NULL},
                         *const ucx_no_cma[] = {"-genv", "UCX_TLS", "posix,self", NULL};

static const struct known known[] = {
    {"native", "muster", "native", BENCH_MUSTER, NULL},
    {"mpi", "muster over Open MPI", "mpi", BENCH_MUSTER_MPI, NULL},
    {"mpi:openmpi", "muster over Open MPI", "mpi", BENCH_MUSTER_MPI, NULL},
    {"mpi:mpich", "muster over MPICH", "mpi", BENCH_MUSTER_MPI, NULL},
    {"gloo", "muster over Gloo", "gloo", BENCH_MUSTER, NULL},
    /* native for the loop itself, whose data is on the host */
    {"nccl", "muster over NCCL", "cpu:native,cuda:nccl", BENCH_DEVICE, NULL},
    {"openmpi", "Open MPI", NULL, BENCH_MPI, NULL},
    {"mpich", "MPICH", NULL, BENCH_MPI, NULL},
    {"openmpi:nocma", "Open MPI without CMA", NULL, BENCH_MPI, no_cma},
    {"openmpi:sm", "Open MPI with coll/sm", NULL, BENCH_MPI, coll_sm},
    {"openmpi:ucx", "Open MPI with UCX", NULL, BENCH_MPI, ucx},
    {"mpich:nocma", "MPICH without CMA", NULL, BENCH_MPI, ucx_no_cma},
    {"torch", "torch gloo", NULL, BENCH_TORCH, NULL},
};
enum { KNOWN = sizeof known / sizeof known[0], MODULES_MOST = 32, NAME_MOST = 32, NAMES_MAX = 1200 };

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
        all[n_all++] = (struct known){m->name, m->label, m->name, BENCH_MUSTER, NULL};
    }
}

bool ops_find_backend(const char *name, struct bench_peer *backend, const char **near) {
    find_all();
    const struct known *k = find(name);
    *near = !k ? msi_nearest(name, all, (size_t)n_all, sizeof all[0]) : NULL;
    if (!k) return false;
    *backend = (struct bench_peer){
        .name = k->name, .label = k->label, .engine = k->engine, .kind = k->kind, .settings = k->settings};
    backend->openmpi = strstr(k->name, "mpich") == NULL;
    return true;
}

const char *ops_backend_names(bool through_muster) {
    static char names[2][NAMES_MAX];
    char *out = names[through_muster];
    size_t used = 0;
    find_all();
    for (int i = 0; i < n_all && used < NAMES_MAX; i++)
        if ((all[i].engine != NULL) == through_muster)
            used += (size_t)snprintf(out + used, NAMES_MAX - used, "%s%s", used > 0 ? " " : "", all[i].name);
    return out;
}

/* Sets the version to the description of a loadable module. */
static void describe_module(struct bench_peer *backend) {
    char text[BENCH_WHY_MAX];
    const char *name;
    bool usable;
    int i = 0;
    while (mst_backend_list(i, &name, NULL, NULL, 0) && strcmp(name, backend->name) != 0) i++;
    if (strcmp(backend->name, "native") != 0 && mst_backend_list(i, &name, &usable, text, sizeof text) &&
        usable)
        snprintf(backend->version, sizeof backend->version, "(%.60s)", text);
}

static bool prepare(struct ops_bench *b, int i) {
    static const struct bench_source mpi[] = {{"mpi_ops.c", bench_mpi_ops_c},
                                              {"loop.h", bench_loop_h},
                                              {"loop_data.h", bench_loop_data_h},
                                              {NULL, NULL}};
    static const struct bench_source torch[] = {{"torch_ops.py", bench_torch_ops_py}, {NULL, NULL}};
    struct bench_peer *backend = &b->backends[i];
    if (!peers_prepare(backend, &b->place, mpi, torch)) return false;
    if (backend->kind < BENCH_MUSTER_MPI) describe_module(backend);
    return !backend->engine || backend->why_not[0] != '\0' || ops_probe(b, i);
}

bool ops_prepare(struct ops_bench *b) {
    for (int backend = 0; backend < b->n_backends; backend++)
        if (!prepare(b, backend)) return false;
    return true;
}
