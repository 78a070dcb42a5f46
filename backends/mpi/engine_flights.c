/*
 * engine_flights.c - operations under way. See engine.h.
 *
 * What MPI allows of ending them: a receive that nobody has answered can be cancelled, and its buffer is free then. Neither sends nor
 * collectives can. abort leaves their requests in MPI, never to be tested again; MPI moves their data only inside of calls
 * of this process, so from then on this process calls MPI no more: its other groups on MPI fail, too.
 */
#include "engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANCEL_TRIES = 10000 };

static void link_flight(struct msm_flight **list, struct msm_flight *f) {
    f->next = *list;
    f->back = list;
    if (f->next) f->next->back = &f->next;
    *list = f;
}

static void unlink_flight(struct msm_flight *f) {
    *f->back = f->next;
    if (f->next) f->next->back = f->back;
}

static struct msm_flight *take(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_flight *f = engine->spare;
    if (f)
        unlink_flight(f);
    else
        f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->op = op;
    f->n = f->over = 0;
    f->requests = &f->one;
    f->one = MPI_REQUEST_NULL;
    f->blocking = false;
    f->scratch_used = 0;
    link_flight(&engine->active, f);
    return f;
}

static void free_types(struct msm_flight *f) {
    for (int i = 0; i < f->n_types; i++)
        if (f->types[i] != MPI_DATATYPE_NULL) MPI_Type_free(&f->types[i]);
    free(f->types);
    f->types = NULL;
    f->n_types = 0;
}

static void give_back(mst_backend_engine *engine, struct msm_flight *f) {
    if (f->types) free_types(f);
    if (f->requests != &f->one) free(f->requests);
    unlink_flight(f);
    link_flight(&engine->spare, f);
}

bool msm_flight_ints(mst_backend_engine *engine, struct msm_flight *f) {
    if (!f->ints) f->ints = malloc(4 * (size_t)engine->ranks * sizeof *f->ints);
    return f->ints;
}

bool msm_flight_requests(struct msm_flight *f, size_t n) {
    if (n <= 1) return true;
    MPI_Request *requests = malloc(n * sizeof *requests);
    if (!requests) return false;
    for (size_t i = 0; i < n; i++) requests[i] = MPI_REQUEST_NULL;
    f->requests = requests;
    return true;
}

bool msm_flight_types(struct msm_flight *f, size_t n) {
    f->types = malloc(n * sizeof *f->types);
    if (!f->types) return false;
    for (size_t i = 0; i < n; i++) f->types[i] = MPI_DATATYPE_NULL;
    f->n_types = (int)n;
    return true;
}

bool msm_flight_scratch(struct msm_flight *f, size_t bytes) {
    if (bytes > f->scratch_size) {
        free(f->scratch);
        f->scratch = malloc(bytes);
        f->scratch_size = f->scratch ? bytes : 0;
    }
    f->scratch_used = bytes;
    return f->scratch || !bytes;
}

static mst_status fail(mst_backend_engine *engine, const mst_backend_op *op, int rc) {
    static const char *const names[] = {
#define NAME(number, name, text) [number] = (text),
        MST_KIND_TABLE(NAME)};
    engine->failed = true;
    msm_leave_unfinalised();
    return msm_say(engine->host, names[op->kind], rc);
}

static mst_status check_tag(mst_backend_engine *engine, const mst_backend_op *op) {
    char line[120];
    if (op->tag <= engine->tag_max) return MST_OK;
    snprintf(line, sizeof line, "tag %d: " MSM_FLAVOUR " takes tags up to %d", op->tag, engine->tag_max);
    return engine->host->fail(engine->host, MST_ERR_UNSUPPORTED, -1, "use smaller tags", line);
}

/* Operations were given up that MPI would go on with, and write into their buffers, in any call of it. So none is made any more. */
static atomic_bool given_up; /* never taken back; nothing is ordered by it */

mst_status msm_check_usable(const mst_backend_host *host) {
    if (atomic_load(&given_up))
        return host->fail(host, MST_ERR_STATE, -1, "use native from here on, or start the processes anew",
                          "an operation was given up, which MPI cannot take back: MPI is not called any more "
                          "in this process");
    if (!msm_alive())
        return host->fail(host, MST_ERR_STATE, -1, "finalise MPI after mst_destroy_process_group",
                          "MPI_Finalize was called");
    return MST_OK;
}

static mst_status begin(mst_backend_engine *engine, mst_backend_op *op, bool blocking,
                        struct msm_flight **flight) {
    bool message = op->kind == MST_KIND_SEND || op->kind == MST_KIND_RECV;
    mst_status st = message ? check_tag(engine, op) : MST_OK;
    if (st != MST_OK) return st;
    struct msm_flight *f = take(engine, op);
    if (!f) return engine->host->fail(engine->host, MST_ERR_MEMORY, -1, NULL, "no memory for an operation");
    bool large = msm_is_large(engine, op);
    f->blocking = blocking && !large;
    msm_lock();
    int rc = large ? msm_begin_large(engine, f) : msm_begin(engine, f);
    msm_unlock();
    *flight = f;
    if (rc == MPI_SUCCESS) return MST_OK;
    *flight = NULL;
    unlink_flight(f); /* some of its requests may be under way, so it stays in memory */
    return fail(engine, op, rc);
}

mst_status msm_submit(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_flight *f = NULL;
    mst_status st = msm_check_usable(engine->host);
    if (st == MST_OK) st = begin(engine, op, false, &f);
    op->request = f;
    return st;
}

/* MPI takes a shorter message than the one that was asked for, muster does not. */
static mst_status check_message(mst_backend_engine *engine, mst_backend_op *op, int rc,
                                const MPI_Status *got) {
    char line[200];
    MPI_Count bytes = 0;
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS) MPI_Error_class(rc, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) return fail(engine, op, rc);
    op->sender = got->MPI_SOURCE;
    MPI_Get_elements_x(got, MPI_BYTE, &bytes);
    size_t want = op->count * op->element;
    if (class == MPI_SUCCESS && (size_t)bytes == want) return MST_OK;
    if (class == MPI_ERR_TRUNCATE)
        snprintf(line, sizeof line,
                 "rank %d sent more than the %zu bytes that were to be received with tag %d", op->sender,
                 want, op->tag);
    else
        snprintf(line, sizeof line, "rank %d sent %lld bytes where %zu were to be received with tag %d",
                 op->sender, (long long)bytes, want, op->tag);
    return engine->host->fail(engine->host, MST_ERR_MISMATCH, op->sender, "send and receive the same count",
                              line);
}

/* A rank alone combines nothing, but its bools become 0 or 1 all the same. */
static void settle_bools(mst_backend_engine *engine, const mst_backend_op *op) {
    bool reduces =
        op->kind == MST_KIND_ALL_REDUCE || op->kind == MST_KIND_REDUCE || op->kind == MST_KIND_REDUCE_SCATTER;
    if (engine->ranks > 1 || !reduces || op->dtype != MST_BOOL) return;
    engine->host->combine(MST_BOOL, MST_MAX, op->out, op->out, op->out,
                          msm_count(op->in_counts, op->count, 0));
}

static mst_status finish(mst_backend_engine *engine, struct msm_flight *f, int rc, const MPI_Status *got) {
    mst_backend_op *op = f->op;
    mst_status st = MST_OK;
    if (op->kind == MST_KIND_RECV)
        st = check_message(engine, op, rc, got);
    else if (rc != MPI_SUCCESS)
        st = fail(engine, op, rc);
    else if (f->scratch_used)
        memcpy(op->out, f->scratch, f->scratch_used);
    if (st == MST_OK) settle_bools(engine, op);
    give_back(engine, f);
    op->request = NULL;
    return st;
}

/* Looks whether all requests are over, in their order. */
static int test(struct msm_flight *f, bool *over, MPI_Status *got) {
    int rc = MPI_SUCCESS, one = 1;
    while (f->over < f->n && one && rc == MPI_SUCCESS) {
        rc = MPI_Test(&f->requests[f->over], &one, got);
        f->over += one;
    }
    *over = f->over == f->n;
    return rc;
}

mst_status msm_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    struct msm_flight *f = op->request;
    MPI_Status got;
    bool over = false;
    *done = false;
    mst_status st = msm_check_usable(engine->host);
    if (st != MST_OK) return st;
    memset(&got, 0, sizeof got);
    msm_lock();
    int rc = test(f, &over, &got);
    msm_unlock();
    if (rc == MPI_SUCCESS && !over) {
        *done = false;
        return MST_OK;
    }
    *done = true;
    return finish(engine, f, rc, &got);
}

mst_status msm_run(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_flight *f = NULL;
    bool done = false;
    mst_status st = begin(engine, op, true, &f);
    op->request = f;
    for (unsigned i = 1; st == MST_OK && !done; i++) {
        st = msm_progress(engine, op, &done);
        if (i % 1024 == 0 && !done && op->deadline && msm_now() > op->deadline)
            return engine->host->fail(engine->host, MST_ERR_TIMEOUT, -1, NULL, "the deadline passed");
    }
    return st;
}

/* A cancelled receive ends by itself; whether it was cancelled or has met its message is known then. */
static bool cancel_receive(struct msm_flight *f) {
    MPI_Status got;
    int over = 0, cancelled = 0;
    if (MPI_Cancel(&f->requests[0]) != MPI_SUCCESS) return false;
    for (int i = 0; i < CANCEL_TRIES && !over; i++)
        if (MPI_Test(&f->requests[0], &over, &got) != MPI_SUCCESS) return false;
    if (over) MPI_Test_cancelled(&got, &cancelled);
    return cancelled;
}

bool msm_cancel(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_flight *f = op->request;
    if (op->kind != MST_KIND_RECV || !f) return false;
    msm_lock();
    bool cancelled = cancel_receive(f);
    msm_unlock();
    if (!cancelled) return false;
    give_back(engine, f);
    op->request = NULL;
    return true;
}

void msm_abort(mst_backend_engine *engine) {
    if (engine->active) {
        engine->failed = true;
        msm_leave_unfinalised();
        atomic_store(&given_up, true);
    }
    while (engine->active) {
        struct msm_flight *f = engine->active;
        msm_lock();
        if (f->op->kind == MST_KIND_RECV && f->n == 1 && msm_alive()) cancel_receive(f);
        msm_unlock();
        f->op->request = NULL;
        /* MPI may still read its arrays and write its scratch, so what the flight owns stays. */
        unlink_flight(f);
    }
}

void msm_flights_free(mst_backend_engine *engine) {
    while (engine->spare) {
        struct msm_flight *f = engine->spare;
        unlink_flight(f);
        free(f->ints);
        free(f->scratch);
        free(f);
    }
}
