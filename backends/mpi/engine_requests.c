/*
 * engine_requests.c - operations in progress. See engine.h.
 *
 * MPI can cancel a receive without a matching message, but neither sends nor collectives. abort leaves their
 * requests in MPI and never tests them again. MPI moves their data only inside calls of this process, so
 * after an abort the process makes no MPI call: its other groups on MPI fail, too.
 */
#include "engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANCEL_TRIES = 10000 };

static void link_request(struct msm_request **list, struct msm_request *f) {
    f->next = *list;
    f->back = list;
    if (f->next) f->next->back = &f->next;
    *list = f;
}

static void unlink_request(struct msm_request *f) {
    *f->back = f->next;
    if (f->next) f->next->back = f->back;
}

static struct msm_request *alloc_request(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_request *f = engine->spare;
    if (f)
        unlink_request(f);
    else
        f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->op = op;
    f->n = f->over = 0;
    f->requests = &f->one;
    f->one = MPI_REQUEST_NULL;
    f->blocking = false;
    f->scratch_used = 0;
    link_request(&engine->active, f);
    return f;
}

static void free_types(struct msm_request *f) {
    for (int i = 0; i < f->n_types; i++)
        if (f->types[i] != MPI_DATATYPE_NULL) MPI_Type_free(&f->types[i]);
    free(f->types);
    f->types = NULL;
    f->n_types = 0;
}

static void release_request(mst_backend_engine *engine, struct msm_request *f) {
    if (f->types) free_types(f);
    if (f->requests != &f->one) free(f->requests);
    unlink_request(f);
    link_request(&engine->spare, f);
}

bool msm_request_ints(mst_backend_engine *engine, struct msm_request *f) {
    if (!f->ints) f->ints = malloc(4 * (size_t)engine->ranks * sizeof *f->ints);
    return f->ints;
}

bool msm_request_array(struct msm_request *f, size_t n) {
    if (n <= 1) return true;
    MPI_Request *requests = malloc(n * sizeof *requests);
    if (!requests) return false;
    for (size_t i = 0; i < n; i++) requests[i] = MPI_REQUEST_NULL;
    f->requests = requests;
    return true;
}

bool msm_request_types(struct msm_request *f, size_t n) {
    f->types = malloc(n * sizeof *f->types);
    if (!f->types) return false;
    for (size_t i = 0; i < n; i++) f->types[i] = MPI_DATATYPE_NULL;
    f->n_types = (int)n;
    return true;
}

bool msm_request_scratch(struct msm_request *f, size_t bytes) {
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
    return msm_fail_mpi(engine->host, names[op->kind], rc);
}

static mst_status check_tag(mst_backend_engine *engine, const mst_backend_op *op) {
    char line[120];
    if (op->tag <= engine->tag_max) return MST_OK;
    snprintf(line, sizeof line, "tag %d: " MSM_FLAVOUR " supports tags up to %d", op->tag, engine->tag_max);
    return engine->host->fail(engine->host, MST_ERR_UNSUPPORTED, -1, "use smaller tags", line);
}

/* MPI would continue aborted operations, and write into their buffers, in any later call. */
static atomic_bool aborted; /* stays true; orders nothing */

bool msm_may_call(void) {
    return msm_alive() && !atomic_load(&aborted);
}

mst_status msm_check_usable(const mst_backend_host *host) {
    if (atomic_load(&aborted))
        return host->fail(host, MST_ERR_STATE, -1, "use the native backend, or restart the processes",
                          "an MPI operation was aborted, and MPI cannot cancel it: this process makes no MPI "
                          "calls any more");
    if (!msm_alive())
        return host->fail(host, MST_ERR_STATE, -1, "call MPI_Finalize after mst_destroy_process_group",
                          "MPI_Finalize was called");
    return MST_OK;
}

static mst_status begin(mst_backend_engine *engine, mst_backend_op *op, bool blocking,
                        struct msm_request **request) {
    bool message = op->kind == MST_KIND_SEND || op->kind == MST_KIND_RECV;
    mst_status st = msm_check_usable(engine->host);
    if (st == MST_OK && message) st = check_tag(engine, op);
    if (st != MST_OK) return st;
    struct msm_request *f = alloc_request(engine, op);
    if (!f)
        return engine->host->fail(engine->host, MST_ERR_MEMORY, -1, NULL, "out of memory for an operation");
    f->large = msm_is_large(engine, op);
    f->blocking = blocking && !f->large;
    msm_lock();
    int rc = msm_start_request(engine, f);
    msm_unlock();
    *request = f;
    if (rc == MPI_SUCCESS) return MST_OK;
    *request = NULL;
    unlink_request(f); /* not freed: some of its MPI requests may be active */
    return fail(engine, op, rc);
}

mst_status msm_submit(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_request *f = NULL;
    mst_status st = begin(engine, op, false, &f);
    op->request = f;
    return st;
}

/* MPI accepts a message shorter than the receive. muster reports a mismatch. */
static mst_status check_message(mst_backend_engine *engine, mst_backend_op *op, int rc,
                                const MPI_Status *got) {
    char line[200];
    MPI_Count bytes = 0;
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS) MPI_Error_class(rc, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) return fail(engine, op, rc);
    op->sender = got->MPI_SOURCE;
    if (op->tag == MST_ANY_TAG) op->tag = got->MPI_TAG;
    MPI_Get_elements_x(got, MPI_BYTE, &bytes);
    size_t want = op->count * op->element;
    if (class == MPI_SUCCESS && (size_t)bytes == want) return MST_OK;
    if (class == MPI_ERR_TRUNCATE)
        snprintf(line, sizeof line, "rank %d sent more than the %zu bytes of the receive with tag %d",
                 op->sender, want, op->tag);
    else
        snprintf(line, sizeof line, "rank %d sent %lld bytes to a receive of %zu bytes with tag %d",
                 op->sender, (long long)bytes, want, op->tag);
    return engine->host->fail(engine->host, MST_ERR_MISMATCH, op->sender, "send and receive the same count",
                              line);
}

/* In a group of one rank MPI reduces nothing, but a bool result must be 0 or 1. */
static void normalize_bools(mst_backend_engine *engine, const mst_backend_op *op) {
    if (engine->ranks > 1 || !msm_reduces(op) || op->dtype != MST_BOOL) return;
    engine->host->combine(MST_BOOL, MST_MAX, op->out, op->out, op->out,
                          msm_count(op->in_counts, op->count, 0));
}

static mst_status finish(mst_backend_engine *engine, struct msm_request *f, int rc, const MPI_Status *got) {
    mst_backend_op *op = f->op;
    mst_status st = MST_OK;
    if (op->kind == MST_KIND_RECV)
        st = check_message(engine, op, rc, got);
    else if (rc != MPI_SUCCESS)
        st = fail(engine, op, rc);
    else if (f->scratch_used)
        memcpy(op->out, f->scratch, f->scratch_used);
    if (st == MST_OK) normalize_bools(engine, op);
    release_request(engine, f);
    op->request = NULL;
    return st;
}

/* Tests the MPI requests in order. */
static int test(struct msm_request *f, bool *over, MPI_Status *got) {
    int rc = MPI_SUCCESS, one = 1;
    while (f->over < f->n && one && rc == MPI_SUCCESS) {
        rc = MPI_Test(&f->requests[f->over], &one, got);
        f->over += one;
    }
    *over = f->over == f->n;
    return rc;
}

mst_status msm_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    struct msm_request *f = op->request;
    MPI_Status got;
    *done = false;
    mst_status st = msm_check_usable(engine->host);
    if (st != MST_OK) return st;
    memset(&got, 0, sizeof got);
    msm_lock();
    int rc = test(f, done, &got);
    msm_unlock();
    if (rc == MPI_SUCCESS && !*done) return MST_OK;
    *done = true;
    return finish(engine, f, rc, &got);
}

mst_status msm_run(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_request *f = NULL;
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

/* A cancelled receive completes; its status says whether it was cancelled or has received its message. */
static bool cancel_receive(struct msm_request *f) {
    MPI_Status got;
    int over = 0, cancelled = 0;
    if (MPI_Cancel(&f->requests[0]) != MPI_SUCCESS) return false;
    for (int i = 0; i < CANCEL_TRIES && !over; i++)
        if (MPI_Test(&f->requests[0], &over, &got) != MPI_SUCCESS) return false;
    if (over) MPI_Test_cancelled(&got, &cancelled);
    return cancelled;
}

bool msm_cancel(mst_backend_engine *engine, mst_backend_op *op) {
    struct msm_request *f = op->request;
    if (op->kind != MST_KIND_RECV || !f || !msm_may_call()) return false;
    msm_lock();
    bool cancelled = cancel_receive(f);
    msm_unlock();
    if (!cancelled) return false;
    release_request(engine, f);
    op->request = NULL;
    return true;
}

mst_status msm_find(mst_backend_engine *engine, mst_backend_op *op, bool *found) {
    MPI_Status got;
    MPI_Count bytes = 0;
    int there = 0;
    mst_status st = msm_check_usable(engine->host);
    if (st == MST_OK) st = check_tag(engine, op);
    if (st != MST_OK) return st;
    msm_lock();
    int rc = MPI_Iprobe(msm_source(op), msm_tag(op), engine->messages, &there, &got);
    if (rc == MPI_SUCCESS && there) rc = MPI_Get_elements_x(&got, MPI_BYTE, &bytes);
    msm_unlock();
    if (rc != MPI_SUCCESS) return fail(engine, op, rc);
    *found = there;
    if (!there) return MST_OK;
    op->sender = got.MPI_SOURCE;
    op->tag = got.MPI_TAG;
    op->count = (size_t)bytes;
    return MST_OK;
}

void msm_abort(mst_backend_engine *engine) {
    engine->failed = true;
    msm_leave_unfinalised(); /* other ranks may have aborted operations, and do not finalize */
    if (engine->active) atomic_store(&aborted, true);
    while (engine->active) {
        struct msm_request *f = engine->active;
        msm_lock();
        if (f->op->kind == MST_KIND_RECV && f->n == 1 && msm_alive()) cancel_receive(f);
        msm_unlock();
        f->op->request = NULL;
        /* Not freed: MPI may still read its arrays and write its scratch. */
        unlink_request(f);
    }
}

void msm_requests_free(mst_backend_engine *engine) {
    while (engine->spare) {
        struct msm_request *f = engine->spare;
        unlink_request(f);
        free(f->ints);
        free(f->scratch);
        free(f);
    }
}
