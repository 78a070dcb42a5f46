/* engine_open.c - opens an engine: the members exchange their MPI ranks and create a communicator. */
#include "engine.h"
#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDENTITY_MAX = 200 };

/* A member's rank in MPI_COMM_WORLD, its size, and the name of the job. */
struct identity {
    int rank, size;
    char job[IDENTITY_MAX];
};

/*
 * Checks saved MPI_Init that all ranks use the same MPI and job: MPI_Init would wait forever for ranks that
 * use another. Rank 0 publishes its own, the others compare.
 */
static mst_status check_same_mpi(const mst_backend_host *host) {
    char mine[IDENTITY_MAX], line[3 * IDENTITY_MAX];
    mst_bytes first = {NULL, 0};
    snprintf(mine, sizeof mine, MSM_FLAVOUR "%s%.100s",
             msm_launcher() == MSM_LAUNCHER_NONE ? " without a launcher of its own" : ", job ",
             msm_launcher_job());
    if (host->rank == 0) return host->set(host, "start", mine, strlen(mine));
    mst_status st = host->get(host, "start", host->deadline, &first);
    if (st != MST_OK) return st;
    bool same = first.len == strlen(mine) && !memcmp(first.data, mine, first.len);
    snprintf(line, sizeof line, "rank 0 of the group uses %.*s, but rank %d %s", (int)first.len, first.data,
             host->rank, mine);
    free(first.data);
    if (same) return MST_OK;
    return host->fail(host, MST_ERR_MISMATCH, 0, "start all ranks with one mpirun of the same MPI", line);
}

static mst_status set_identity(const mst_backend_host *host) {
    char key[32], text[IDENTITY_MAX + 32];
    int rank = 0, size = 0;
    msm_lock();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    msm_unlock();
    snprintf(key, sizeof key, "identity-%d", host->rank);
    snprintf(text, sizeof text, "%d %d job %.*s", rank, size, IDENTITY_MAX - 20, msm_job());
    return host->set(host, key, text, strlen(text));
}

static mst_status get_identity(const mst_backend_host *host, int r, struct identity *identity) {
    char key[32], text[IDENTITY_MAX + 32];
    mst_bytes value = {NULL, 0};
    snprintf(key, sizeof key, "identity-%d", r);
    mst_status st = host->get(host, key, host->deadline, &value);
    if (st != MST_OK) return st;
    int at = 0;
    snprintf(text, sizeof text, "%.*s", (int)value.len, value.data);
    free(value.data);
    if (sscanf(text, "%d %d %n", &identity->rank, &identity->size, &at) < 2 || !at)
        return host->fail(host, MST_ERR_PROTOCOL, r, NULL, "a rank has published a malformed MPI identity");
    snprintf(identity->job, sizeof identity->job, "%.*s", IDENTITY_MAX - 1, text + at);
    return MST_OK;
}

static mst_status fail_mismatch(const mst_backend_host *host, int r, const struct identity *mine,
                                const struct identity *other) {
    char line[3 * IDENTITY_MAX];
    snprintf(line, sizeof line,
             "ranks %d and %d of the group are not in one MPI job: %d of %d (%s) and %d of %d (%s)",
             host->rank, r, mine->rank, mine->size, mine->job, other->rank, other->size, other->job);
    return host->fail(host, MST_ERR_MISMATCH, r, "start all ranks with one mpirun of the same MPI", line);
}

/* Collects the MPI ranks of all members. */
static mst_status exchange_ranks(const mst_backend_host *host, int *ranks) {
    struct identity mine, other;
    mst_status st = set_identity(host);
    if (st == MST_OK) st = get_identity(host, host->rank, &mine);
    for (int r = 0; r < host->ranks && st == MST_OK; r++) {
        st = get_identity(host, r, &other);
        if (st != MST_OK) break;
        bool twice = r != host->rank && other.rank == mine.rank;
        if (twice || other.size != mine.size || strcmp(other.job, mine.job) != 0)
            return fail_mismatch(host, r, &mine, &other);
        ranks[r] = other.rank;
    }
    return st;
}

/* A hash, so that groups that threads create at the same time have different tags. */
static int tag_of(const char *name) {
    unsigned hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return (int)(hash & 32767); /* MPI guarantees no larger tag */
}

/*
 * The error handler of MPI_COMM_WORLD handles errors of MPI_Comm_create_group. It may be the program's, so it
 * is replaced during the call and restored by the last thread.
 */
static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static MPI_Errhandler saved;

static void return_errors(void) {
    pthread_mutex_lock(&handler_lock);
    if (users++ == 0) {
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &saved);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    pthread_mutex_unlock(&handler_lock);
}

static void restore_errors(void) {
    pthread_mutex_lock(&handler_lock);
    if (--users == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, saved);
        MPI_Errhandler_free(&saved);
    }
    pthread_mutex_unlock(&handler_lock);
}

struct creation {
    MPI_Comm comm, messages;
    int tag, n;
    int ranks[]; /* in MPI_COMM_WORLD, by group rank */
};

static int create_comm(void *given) {
    struct creation *m = given;
    MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    msm_lock();
    return_errors();
    int rc = MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (rc == MPI_SUCCESS) rc = MPI_Group_incl(world, m->n, m->ranks, &members);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_create_group(MPI_COMM_WORLD, members, m->tag, &m->comm);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_dup(m->comm, &m->messages);
    if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
    if (world != MPI_GROUP_NULL) MPI_Group_free(&world);
    restore_errors();
    msm_unlock();
    return rc;
}

static mst_status make_comms(const mst_backend_host *host, bool own_thread, mst_backend_engine *e) {
    struct creation *m = malloc(sizeof *m + (size_t)host->ranks * sizeof *m->ranks);
    int rc = MPI_SUCCESS;
    if (!m) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory for a group's MPI ranks");
    m->comm = m->messages = MPI_COMM_NULL;
    m->tag = tag_of(host->name);
    m->n = host->ranks;
    mst_status st = exchange_ranks(host, m->ranks);
    if (st == MST_OK && own_thread)
        rc = create_comm(m);
    else if (st == MST_OK) {
        st = msm_timed_call(
            host, create_comm, m, MSM_FLAVOUR ": MPI_Comm_create_group did not return before the deadline",
            "start all ranks of the group with one mpirun, and check that they are alive", &rc);
        if (st != MST_OK) return st; /* the call owns m */
    }
    if (st == MST_OK && rc != MPI_SUCCESS) st = msm_fail_mpi(host, "MPI_Comm_create_group", rc);
    e->comm = m->comm;
    e->messages = m->messages;
    free(m);
    return st;
}

static int largest_tag(void) {
    int *value = NULL, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
    return found ? *value : 32767;
}

static void free_engine(mst_backend_engine *e) {
    free(e->bytes);
    free(e);
}

static mst_backend_engine *new_engine(const mst_backend_host *host) {
    mst_backend_engine *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->host = host;
    e->rank = host->rank;
    e->ranks = host->ranks;
    e->bytes = malloc((size_t)host->ranks * sizeof *e->bytes);
    if (!e->bytes) {
        free(e);
        return NULL;
    }
    for (int r = 0; r < host->ranks; r++) e->bytes[r] = MPI_BYTE;
    return e;
}

mst_status msm_open(const mst_backend_host *host, mst_backend_engine **engine, mst_backend_traits *traits) {
    bool own_thread = false;
    mst_status st = check_same_mpi(host);
    if (st == MST_OK) st = msm_start(host, &own_thread);
    if (st == MST_OK) st = msm_check_usable(host);
    if (st != MST_OK) return st;
    mst_backend_engine *e = new_engine(host);
    if (!e) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory for an engine");
    st = make_comms(host, own_thread, e);
    if (st != MST_OK) {
        free_engine(e);
        return st;
    }
    e->tag_max = largest_tag();
    traits->own_thread = own_thread;
    *engine = e;
    return MST_OK;
}

/*
 * MPI_Comm_free is formally collective; neither MPI waits for other ranks in it. After a failure, the
 * communicators may have active requests, so they are not freed.
 */
void msm_close(mst_backend_engine *engine) {
    if (engine->active) msm_abort(engine);
    if (!engine->failed && msm_may_call()) {
        msm_lock();
        MPI_Comm_free(&engine->comm);
        MPI_Comm_free(&engine->messages);
        msm_unlock();
    }
    msm_requests_free(engine);
    free_engine(engine);
}
