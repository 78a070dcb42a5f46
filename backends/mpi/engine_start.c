/*
 * engine_start.c - starts MPI once per process, unless the program has, and finalizes it at exit.
 *
 * Errors in MPI_Init are fatal by definition, so everything that can be checked is checked before it.
 */
#include "engine.h"
#include "launcher.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool started; /* MPI is usable. Under the lock. */
static bool stuck;   /* MPI_Init did not return. Under the lock. */
static bool served;  /* muster is the PMI server */
static int level = MPI_THREAD_SINGLE;
static pid_t owner;             /* a forked child must not finalize its parent's MPI */
static atomic_bool unfinalised; /* relaxed: a hint for exit */

static pthread_mutex_t serial = PTHREAD_MUTEX_INITIALIZER;

void msm_lock(void) {
    if (level == MPI_THREAD_SERIALIZED) pthread_mutex_lock(&serial);
}

void msm_unlock(void) {
    if (level == MPI_THREAD_SERIALIZED) pthread_mutex_unlock(&serial);
}

void msm_leave_unfinalised(void) {
    atomic_store_explicit(&unfinalised, true, memory_order_relaxed);
}

bool msm_alive(void) {
    int finalized = 0;
    return MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

#ifdef MSM_MPICH
const char *msm_job(void) {
    return served ? msm_pmi_job() : msm_launcher_job();
}
#else
const char *msm_job(void) {
    return msm_launcher_job();
}
#endif

mst_status msm_fail_mpi(const mst_backend_host *host, const char *what, int rc) {
    char text[MPI_MAX_ERROR_STRING] = "", line[MPI_MAX_ERROR_STRING + 200];
    int length = 0, class = MPI_ERR_OTHER;
    MPI_Error_string(rc, text, &length);
    MPI_Error_class(rc, &class);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    snprintf(line, sizeof line, MSM_FLAVOUR ": %s: %s", what, text);
    mst_status status = class == MPI_ERR_NO_MEM ? MST_ERR_MEMORY : MST_ERR_SYSTEM;
    return host->fail(host, status, -1, NULL, line);
}

/*
 * Runs at exit. After a failure, MPI_Finalize could wait forever for a dead rank. It is also skipped if
 * muster is the PMI server: it would wait for ranks that have exited, and MPICH needs no cleanup.
 */
static void finish(void) {
    if (owner != getpid() || served || !msm_alive()) return;
    if (atomic_load_explicit(&unfinalised, memory_order_relaxed)) return;
    MPI_Finalize();
}

static int init(void *provided) {
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, provided);
}

static mst_status init_with_deadline(const mst_backend_host *host) {
    int rc = MPI_SUCCESS, *provided = malloc(sizeof *provided);
    if (!provided) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory while starting MPI");
    mst_status st =
        msm_timed_call(host, init, provided, MSM_FLAVOUR ": MPI_Init did not return before the deadline",
                       "call a collective of the world first on all ranks, for example mst_barrier()", &rc);
    if (st != MST_OK) {
        stuck = true;
        return st;
    }
    free(provided);
    if (rc != MPI_SUCCESS) return msm_fail_mpi(host, "MPI_Init", rc);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    owner = getpid();
    atexit(finish);
    return MST_OK;
}

#ifdef MSM_MPICH
/* An environment variable that is set during MPI_Init, and its previous value. */
struct saved_env {
    const char *name;
    char *before;
};

static void set_env(struct saved_env *env, const char *name, const char *value) {
    const char *before = getenv(name);
    env->name = name;
    env->before = before ? strdup(before) : NULL;
    setenv(name, value, 1);
}

static void set_env_number(struct saved_env *env, const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set_env(env, name, text);
}

/*
 * UCX aborts the process when it reads the memory of a dead process by CMA, so CMA is disabled; large
 * messages are copied twice then. Under mpirun the death of a rank ends the job anyway.
 */
static void set_env_transports(struct saved_env *env) {
    const char *chosen = getenv("UCX_TLS");
    set_env(env, "UCX_TLS", chosen && *chosen ? chosen : "^cma");
}

static void restore_env(struct saved_env *env) {
    if (env->before)
        setenv(env->name, env->before, 1);
    else
        unsetenv(env->name);
    free(env->before);
}

/* Without an MPI launcher: muster serves PMI. MPICH finds it by Hydra's variables. */
static mst_status init_without_launcher(const mst_backend_host *host) {
    struct saved_env variables[4];
    int fd = -1;
    if (host->ranks != host->world_size)
        return host->fail(
            host, MST_ERR_STATE, -1,
            "call a collective of the world before its groups, for example mst_barrier(), or start the ranks "
            "with "
            "mpirun",
            "without an MPI launcher all ranks of the world must start MPI together, but this group has only "
            "some of them");
    mst_status st = msm_pmi_serve(host, &fd);
    if (st != MST_OK) return st;
    set_env_number(&variables[0], "PMI_FD", fd);
    set_env_number(&variables[1], "PMI_RANK", host->rank);
    set_env_number(&variables[2], "PMI_SIZE", host->ranks);
    set_env_transports(&variables[3]);
    served = true;
    st = init_with_deadline(host);
    msm_pmi_detach();
    for (int i = 0; i < 4; i++) restore_env(&variables[i]);
    return st;
}
#else
/* A single process needs no launcher. Several need PMIx, which muster does not serve. */
static mst_status init_without_launcher(const mst_backend_host *host) {
    if (host->world_size == 1) return init_with_deadline(host);
    return host->fail(
        host, MST_ERR_UNSUPPORTED, -1,
        "start them with Open MPI's mpirun, or use MPICH (Debian: libmpich12; MUSTER_MPI=mpich), which "
        "needs no MPI launcher",
        "Open MPI cannot join ranks that its own launcher did not start");
}
#endif

static mst_status init_mpi(const mst_backend_host *host) {
#ifdef MSM_MPICH
    bool ours = msm_launcher() == MSM_LAUNCHER_MPICH;
#else
    bool ours = msm_launcher() == MSM_LAUNCHER_OPENMPI;
#endif
    return ours ? init_with_deadline(host) : init_without_launcher(host);
}

/* Called with the lock held. */
static mst_status prepare_mpi(const mst_backend_host *host) {
    int initialized = 0;
    if (stuck)
        return host->fail(host, MST_ERR_STATE, -1, "restart the ranks",
                          "an earlier MPI_Init of this process did not return");
    MPI_Initialized(&initialized);
    if (!initialized) {
        mst_status st = init_mpi(host);
        if (st != MST_OK) return st;
    }
    MPI_Query_thread(&level);
    int rc = msm_types_init(host);
    return rc == MPI_SUCCESS ? MST_OK : msm_fail_mpi(host, "MPI_Op_create", rc);
}

static mst_status check_thread(const mst_backend_host *host, bool *own_thread) {
    int main_thread = 0;
    *own_thread = level < MPI_THREAD_SERIALIZED;
    if (!*own_thread) return MST_OK;
    MPI_Is_thread_main(&main_thread);
    if (main_thread) return MST_OK;
    return host->fail(
        host, MST_ERR_STATE, -1,
        "call MPI_Init_thread with MPI_THREAD_MULTIPLE, or use the group from MPI's main thread",
        "the program has initialized MPI for its main thread only, and this is another thread");
}

mst_status msm_start(const mst_backend_host *host, bool *own_thread) {
    struct timespec until = {host->deadline / 1000000000, host->deadline % 1000000000};
    if (!msm_alive())
        return host->fail(host, MST_ERR_STATE, -1, "call MPI_Finalize at the end of the process",
                          "MPI_Finalize was called in this process");
    if (pthread_mutex_clocklock(&starting, CLOCK_MONOTONIC, &until))
        return host->fail(host, MST_ERR_TIMEOUT, -1, NULL, "another thread is still starting MPI");
    mst_status st = started ? MST_OK : prepare_mpi(host);
    started = st == MST_OK;
    pthread_mutex_unlock(&starting);
    return st == MST_OK ? check_thread(host, own_thread) : st;
}
