/*
 * engine_open.c - a group's communicator: its members tell one another who they are in MPI_COMM_WORLD, and make it by themselves.
 */
#include "engine.h"
#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CARD_MAX = 200 };

/* What a member tells: its rank and the size of its MPI_COMM_WORLD, and which job that is. */
struct card {
    int rank, size;
    char job[CARD_MAX];
};

/*
 * Before MPI is started, which cannot fail but only wait for ranks that never come: would all of them start the same? Rank 0 tells, the
 * others compare.
 */
static mst_status compare_start(const mst_backend_host *host) {
    char mine[CARD_MAX], line[3 * CARD_MAX];
    mst_bytes first = {NULL, 0};
    snprintf(mine, sizeof mine, MSM_FLAVOUR "%s%.100s",
             msm_launcher() == MSM_LAUNCHER_NONE ? " without a launcher of its own" : ", job ",
             msm_launcher_job());
    if (host->rank == 0) return host->set(host, "start", mine, strlen(mine));
    mst_status st = host->get(host, "start", host->deadline, &first);
    if (st != MST_OK) return st;
    bool same = first.len == strlen(mine) && !memcmp(first.data, mine, first.len);
    snprintf(line, sizeof line, "rank 0 of the group uses %.*s, and rank %d %s", (int)first.len, first.data,
             host->rank, mine);
    free(first.data);
    if (same) return MST_OK;
    return host->fail(host, MST_ERR_MISMATCH, 0, "start all ranks with one mpirun of the same MPI", line);
}

static mst_status put_card(const mst_backend_host *host) {
    char key[32], text[CARD_MAX + 32];
    int rank = 0, size = 0;
    msm_lock();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    msm_unlock();
    snprintf(key, sizeof key, "card-%d", host->rank);
    snprintf(text, sizeof text, "%d %d job %.*s", rank, size, CARD_MAX - 20, msm_job());
    return host->set(host, key, text, strlen(text));
}

static mst_status get_card(const mst_backend_host *host, int r, struct card *card) {
    char key[32], text[CARD_MAX + 32];
    mst_bytes value = {NULL, 0};
    snprintf(key, sizeof key, "card-%d", r);
    mst_status st = host->get(host, key, host->deadline, &value);
    if (st != MST_OK) return st;
    int at = 0;
    snprintf(text, sizeof text, "%.*s", (int)value.len, value.data);
    free(value.data);
    if (sscanf(text, "%d %d %n", &card->rank, &card->size, &at) < 2 || !at)
        return host->fail(host, MST_ERR_PROTOCOL, r, NULL,
                          "a rank has left something else than its MPI rank");
    snprintf(card->job, sizeof card->job, "%.*s", CARD_MAX - 1, text + at);
    return MST_OK;
}

static mst_status disagree(const mst_backend_host *host, int r, const struct card *mine,
                           const struct card *other) {
    char line[3 * CARD_MAX];
    snprintf(line, sizeof line,
             "ranks %d and %d of the group are not in one MPI job: %d of %d (%s) and %d of %d (%s)",
             host->rank, r, mine->rank, mine->size, mine->job, other->rank, other->size, other->job);
    return host->fail(host, MST_ERR_MISMATCH, r, "start all ranks with one mpirun of the same MPI", line);
}

/* Learns the MPI ranks of all members. */
static mst_status meet(const mst_backend_host *host, int *ranks) {
    struct card mine, other;
    mst_status st = put_card(host);
    if (st == MST_OK) st = get_card(host, host->rank, &mine);
    for (int r = 0; r < host->ranks && st == MST_OK; r++) {
        st = get_card(host, r, &other);
        if (st != MST_OK) break;
        bool twice = r != host->rank && other.rank == mine.rank;
        if (twice || other.size != mine.size || strcmp(other.job, mine.job) != 0)
            return disagree(host, r, &mine, &other);
        ranks[r] = other.rank;
    }
    return st;
}

/* Different for groups that are made at the same time by different threads, as far as a hash can tell. */
static int tag_of(const char *name) {
    unsigned hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return (int)(hash & 32767); /* MPI promises no more tags */
}

/*
 * Errors of making a communicator are those of its parent, MPI_COMM_WORLD, whose handler may be the program's: it gets it back when the
 * last thread is through.
 */
static pthread_mutex_t handling = PTHREAD_MUTEX_INITIALIZER;
static int handled;
static MPI_Errhandler before;

static void return_errors(void) {
    pthread_mutex_lock(&handling);
    if (handled++ == 0) {
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    pthread_mutex_unlock(&handling);
}

static void restore_errors(void) {
    pthread_mutex_lock(&handling);
    if (--handled == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
        MPI_Errhandler_free(&before);
    }
    pthread_mutex_unlock(&handling);
}

struct making {
    MPI_Comm comm;
    int tag, n;
    int ranks[]; /* in MPI_COMM_WORLD, by group rank */
};

static int make(void *given) {
    struct making *m = given;
    MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    msm_lock();
    return_errors();
    int rc = MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (rc == MPI_SUCCESS) rc = MPI_Group_incl(world, m->n, m->ranks, &members);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_create_group(MPI_COMM_WORLD, members, m->tag, &m->comm);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
    if (world != MPI_GROUP_NULL) MPI_Group_free(&world);
    restore_errors();
    msm_unlock();
    return rc;
}

static mst_status make_comm(const mst_backend_host *host, bool own_thread, MPI_Comm *comm) {
    struct making *m = malloc(sizeof *m + (size_t)host->ranks * sizeof *m->ranks);
    int rc = MPI_SUCCESS;
    if (!m) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "no memory for a group's MPI ranks");
    m->comm = MPI_COMM_NULL;
    m->tag = tag_of(host->name);
    m->n = host->ranks;
    mst_status st = meet(host, m->ranks);
    if (st == MST_OK && own_thread)
        rc = make(m);
    else if (st == MST_OK) {
        st =
            msm_errand(host, make, m, MSM_FLAVOUR ": MPI_Comm_create_group did not return in time",
                       "see that all ranks of the group were started by one mpirun and are still alive", &rc);
        if (st != MST_OK) return st; /* m is the errand's now */
    }
    if (st == MST_OK && rc != MPI_SUCCESS) st = msm_say(host, "MPI_Comm_create_group", rc);
    *comm = m->comm;
    free(m);
    return st;
}

static int largest_tag(void) {
    int *value = NULL, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
    return (found ? *value : 32767) - 1; /* the lowest is for muster's own messages */
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
    mst_status st = compare_start(host);
    if (st == MST_OK) st = msm_start(host, &own_thread);
    if (st != MST_OK) return st;
    mst_backend_engine *e = new_engine(host);
    if (!e) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "no memory for an engine");
    st = make_comm(host, own_thread, &e->comm);
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
 * MPI_Comm_free is collective in name; both MPIs wait for nobody in it. After a failure requests may be left in the communicator, and it
 * stays.
 */
void msm_close(mst_backend_engine *engine) {
    if (engine->active) msm_abort(engine);
    if (!engine->failed && msm_alive()) {
        msm_lock();
        MPI_Comm_free(&engine->comm);
        msm_unlock();
    }
    msm_flights_free(engine);
    free_engine(engine);
}
