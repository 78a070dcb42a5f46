/*
 * picker.c - the module that muster loads as "mpi". It does not link an MPI. It selects the MPI of this
 * process, loads the engine built for it, and forwards every call to that engine.
 *
 * It selects the MPI library that the process has already loaded, else MUSTER_MPI, else the launcher's MPI,
 * else MPICH, which muster can start without an MPI launcher. The selection is final once an engine is
 * loaded.
 */
#include "launcher.h"

#include <muster/backend.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BIT(name) (1u << MST_KIND_##name)
#define FLOATS    (1u << MST_F64 | 1u << MST_F32)
#define HALVES    (1u << MST_F16 | 1u << MST_BF16)
#define INTEGERS                                                                                             \
    (1u << MST_I8 | 1u << MST_U8 | 1u << MST_I16 | 1u << MST_U16 | 1u << MST_I32 | 1u << MST_U32 |           \
     1u << MST_I64 | 1u << MST_U64 | 1u << MST_BOOL)
#define ARITHMETIC  (1u << MST_SUM | 1u << MST_PRODUCT | 1u << MST_MIN | 1u << MST_MAX)
#define COMPLEX     (1u << MST_C64 | 1u << MST_C128)
#define COMPLEX_OPS (1u << MST_SUM | 1u << MST_PRODUCT)
#define BITWISE     (1u << MST_BAND | 1u << MST_BOR | 1u << MST_BXOR)
#define COMPARISONS (1u << MST_MIN | 1u << MST_MAX)
#define REDUCTIONS  (BIT(ALL_REDUCE) | BIT(REDUCE))
#define PARTS       (MST_FORM_UNEVEN | MST_FORM_IN_PLACE)

/* engine_types.c explains which reductions are missing. */
static const mst_backend_capability capabilities[] = {
    {.kinds = BIT(BARRIER)},
    {.kinds = BIT(BROADCAST) | BIT(ALL_GATHER) | BIT(GATHER) | BIT(SCATTER), .forms = MST_FORM_IN_PLACE},
    {.kinds = BIT(ALL_GATHER), .forms = MST_FORM_UNEVEN | MST_FORM_IN_PLACE},
    /* In place, MPI requires that all ranks are, and the same counts in both directions. */
    {.kinds = BIT(ALL_TO_ALL), .forms = MST_FORM_UNEVEN},
    {.kinds = REDUCTIONS, .dtypes = FLOATS, .ops = ARITHMETIC, .forms = MST_FORM_IN_PLACE},
    {.kinds = REDUCTIONS, .dtypes = COMPLEX, .ops = COMPLEX_OPS, .forms = MST_FORM_IN_PLACE},
    {.kinds = REDUCTIONS, .dtypes = HALVES, .ops = COMPARISONS, .forms = MST_FORM_IN_PLACE},
    {.kinds = REDUCTIONS, .dtypes = INTEGERS, .ops = ARITHMETIC | BITWISE, .forms = MST_FORM_IN_PLACE},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = FLOATS, .ops = ARITHMETIC, .forms = PARTS},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = COMPLEX, .ops = COMPLEX_OPS, .forms = PARTS},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = HALVES, .ops = COMPARISONS, .forms = PARTS},
    {.kinds = BIT(REDUCE_SCATTER), .dtypes = INTEGERS, .ops = ARITHMETIC | BITWISE, .forms = PARTS},
    {.kinds = BIT(SEND), .forms = MST_FORM_TAG},
    {.kinds = BIT(RECV), .forms = MST_FORM_TAG | MST_FORM_ANY_SOURCE | MST_FORM_ANY_TAG},
    {.kinds = 0},
};

static const struct flavour {
    const char *name, *title;
    const char *library; /* that the engine is linked to */
    const char *package; /* the Debian package that contains it */
    enum msm_launcher launcher;
} flavours[] = {
    {"openmpi", "Open MPI", "libmpi.so.40", "libopenmpi3", MSM_LAUNCHER_OPENMPI},
    {"mpich", "MPICH", "libmpich.so.12", "libmpich12", MSM_LAUNCHER_MPICH},
};
enum { FLAVOURS = sizeof flavours / sizeof *flavours };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The engine's table. load stores it with release under the lock; selected() loads it with acquire. */
static _Atomic(const mst_backend *) engine;

static const mst_backend *selected(void) {
    return atomic_load_explicit(&engine, memory_order_acquire);
}

static const struct flavour *by_name(const char *name) {
    for (int i = 0; i < FLAVOURS; i++)
        if (!strcmp(flavours[i].name, name)) return &flavours[i];
    return NULL;
}

static bool is_loaded(const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle;
}

/* The MPI that the process has loaded, preferably the one that its own calls reach. *file: an unknown MPI. */
static const struct flavour *loaded(const char **file) {
    const struct flavour *found = NULL;
    Dl_info info;
    void *init = dlsym(RTLD_DEFAULT, "MPI_Init");
    *file = init && dladdr(init, &info) ? info.dli_fname : NULL;
    for (int i = 0; i < FLAVOURS; i++) {
        void *handle = dlopen(flavours[i].library, RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) continue;
        bool reached = init && dlsym(handle, "MPI_Init") == init;
        if (reached || !init) found = &flavours[i];
        dlclose(handle);
    }
    if (!found && !*file && is_loaded("libmpi.so.12")) *file = "libmpi.so.12";
    return found;
}

/* Writes DIRECTORY/muster_mpi_NAME.so; DIRECTORY is that of this module. */
static void engine_path(const struct flavour *flavour, char *path, size_t size) {
    static const char here = 0;
    Dl_info info = {0};
    int n = 0;
    if (dladdr(&here, &info) && info.dli_fname && strrchr(info.dli_fname, '/'))
        n = (int)(strrchr(info.dli_fname, '/') - info.dli_fname + 1);
    snprintf(path, size, "%.*smuster_mpi_%s.so", n, n ? info.dli_fname : "", flavour->name);
}

static bool is_built(const struct flavour *flavour) {
    char path[4096];
    engine_path(flavour, path, sizeof path);
    return access(path, R_OK) == 0;
}

__attribute__((format(printf, 3, 4))) static const struct flavour *no_flavour(char *text, size_t size,
                                                                              const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    return NULL;
}

/* Returns NULL with the reason in text. */
static const struct flavour *select_flavour(char *text, size_t size) {
    const char *file = NULL, *setting = getenv("MUSTER_MPI");
    const struct flavour *present = loaded(&file), *wanted = setting && *setting ? by_name(setting) : NULL;
    if (setting && *setting && !wanted)
        return no_flavour(text, size, "MUSTER_MPI=%s: set it to openmpi or mpich", setting);
    if (!present && file)
        return no_flavour(text, size, "the program uses an MPI (%s) that muster was not built for", file);
    if (present && wanted && present != wanted)
        return no_flavour(text, size, "MUSTER_MPI=%s, but the program uses %s: unset MUSTER_MPI", setting,
                          present->title);
    if (present || wanted) return present ? present : wanted;
    for (int i = 0; i < FLAVOURS; i++)
        if (flavours[i].launcher == msm_launcher()) return &flavours[i];
    const struct flavour *alone = by_name("mpich");
    if (is_built(alone)) return alone;
    return no_flavour(
        text, size,
        "not started by mpirun, and muster was built without %s, the only MPI that works without it: use "
        "Open MPI's mpirun, or build muster with lib%s-dev",
        alone->title, alone->name);
}

/* UCX, used by MPICH, installs signal handlers when it is loaded. Restores the program's handlers. */
static void *load_and_keep_signals(const char *path) {
    enum { SIGNALS = 65 };
    struct sigaction before[SIGNALS], after;
    for (int i = 1; i < SIGNALS; i++) sigaction(i, NULL, &before[i]);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (int i = 1; i < SIGNALS; i++)
        if (!sigaction(i, NULL, &after) && after.sa_sigaction != before[i].sa_sigaction)
            sigaction(i, &before[i], NULL);
    return handle;
}

static const mst_backend *load_engine(const struct flavour *flavour, char *text, size_t size) {
    char path[4096];
    engine_path(flavour, path, sizeof path);
    if (access(path, R_OK)) {
        snprintf(text, size, "muster was built without %s (%.300s is missing): build it with lib%s-dev",
                 flavour->title, path, flavour->name);
        return NULL;
    }
    void *handle = load_and_keep_signals(path);
    if (!handle) {
        snprintf(text, size, "cannot load %s, install it (Debian: %s): %.300s", flavour->title,
                 flavour->package, dlerror());
        return NULL;
    }
    const mst_backend *(*module)(unsigned);
    void *found = dlsym(handle, "mst_backend_module");
    memcpy(&module, &found, sizeof module); /* C has no cast from object to function pointer */
    const mst_backend *table = module ? module(MST_BACKEND_VERSION) : NULL;
    if (!table) snprintf(text, size, "%.300s belongs to another version of muster", path);
    return table;
}

static bool load(char *text, size_t size) {
    pthread_mutex_lock(&lock);
    const struct flavour *flavour = selected() ? NULL : select_flavour(text, size);
    const mst_backend *table = flavour ? load_engine(flavour, text, size) : NULL;
    if (table) atomic_store_explicit(&engine, table, memory_order_release); /* pairs with selected() */
    pthread_mutex_unlock(&lock);
    return selected();
}

static bool probe(char *text, size_t size) {
    return load(text, size) && selected()->probe(text, size);
}

/* The same for both MPIs, so that no engine needs to be loaded. */
static const mst_backend_capability *rows(void) {
    return capabilities;
}

static mst_status open_engine(const mst_backend_host *host, mst_backend_engine **made,
                              mst_backend_traits *traits) {
    char reason[600] = "";
    if (!load(reason, sizeof reason)) return host->fail(host, MST_ERR_UNSUPPORTED, -1, NULL, reason);
    return selected()->open(host, made, traits);
}

static mst_status submit(mst_backend_engine *e, mst_backend_op *op) {
    return selected()->submit(e, op);
}

static mst_status progress(mst_backend_engine *e, mst_backend_op *op, bool *done) {
    return selected()->progress(e, op, done);
}

static mst_status run(mst_backend_engine *e, mst_backend_op *op) {
    return selected()->run(e, op);
}

static bool cancel(mst_backend_engine *e, mst_backend_op *op) {
    return selected()->cancel(e, op);
}

static mst_status find(mst_backend_engine *e, mst_backend_op *op, bool *found) {
    return selected()->find(e, op, found);
}

static void end_all(mst_backend_engine *e) {
    selected()->abort(e);
}

static void close_engine(mst_backend_engine *e) {
    selected()->close(e);
}

static mst_backend table = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof table,
    .name = "mpi",
    .title = "Open MPI or MPICH",
    .probe = probe,
    .rows = rows,
    .open = open_engine,
    .submit = submit,
    .progress = progress,
    .cancel = cancel,
    .abort = end_all,
    .close = close_engine,
    .find = find,
    .world_first = true, /* MPI_Init waits for all ranks */
};

__attribute__((visibility("default"))) const mst_backend *mst_backend_module(unsigned version) {
    const char *blocking = getenv("MUSTER_MPI_BLOCKING");
    if (version != MST_BACKEND_VERSION) return NULL;
    /* MPI's blocking functions are faster in some MPIs, but neither a deadline nor a lost rank ends them. */
    if (blocking && *blocking && *blocking != '0') table.run = run;
    return &table;
}
