/* engine.c - opening and closing a module's engine, and what it is offered. See module.h. */
#include "engine/module/module.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "comm/wait_reports.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 900, ABSENT_MS = 300, SET_MS = 10000, LOOK_MS = 200, LISTED_MOST = 8 };

static struct msi_str engine_key(const struct msi_engine *e, const char *name, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/%s", e->comm->key, name);
    return msi_cstr(out);
}

static struct msi_engine *engine_of(const mst_backend_host *host) {
    return host->context;
}

/* A server that is sent more than it takes ends the connection, and with it the world. */
static mst_status host_set(const mst_backend_host *host, const char *key, const void *value, size_t len) {
    struct msi_comm *comm = engine_of(host)->comm;
    if (len > engine_of(host)->value_max)
        return msi_fail(
            MST_ERR_LIMIT,
            "send less at a time, or raise MUSTER_STORE_MAX_VALUE here and where the store is hosted",
            "%s: a value of %zu bytes for the store, whose limit is %zu", engine_of(host)->table->name, len,
            engine_of(host)->value_max);
    char full[KEY_MAX];
    struct msi_wait wait = {msi_deadline(SET_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_SET,
                                      .key = engine_key(engine_of(host), key, full),
                                      .value = msi_str(value, len)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, &wait, &x, 1);
    if (st == MST_OK) st = x.status;
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status host_get(const mst_backend_host *host, const char *key, int64_t deadline,
                           mst_bytes *value) {
    struct msi_comm *comm = engine_of(host)->comm;
    char full[KEY_MAX];
    struct msi_str name = engine_key(engine_of(host), key, full);
    struct msi_wait wait = {deadline, NULL};
    /* Once it is open, whoever waits for the engine looks after lost ranks: then a request goes in company, which is not guarded. */
    bool open = engine_of(host)->made != NULL;
    struct msi_store_rpc both[] = {{.req = msi_read_request(name)},
                                   {.req = {.op = MSI_OP_WAIT_GET, .keys = &name, .n = 1}}};
    mst_status st = open ? comm->hooks.exec(comm->hooks.context, &wait, both, 2)
                         : comm->hooks.exec(comm->hooks.context, &wait, &both[1], 1);
    struct msi_store_rpc x = both[1];
    msi_store_rpc_free(both, 1);
    if (st == MST_OK) st = x.status;
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    struct msi_str found = st == MST_OK ? msi_read_str(&r) : msi_cstr("");
    char *data = st == MST_OK ? malloc(found.n + 1) : NULL;
    if (data) {
        if (found.n) memcpy(data, found.p, found.n);
        data[found.n] = '\0';
        *value = (mst_bytes){data, found.n};
    } else if (st == MST_OK) {
        st = msi_fail_memory();
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status host_fail(const mst_backend_host *host, mst_status status, int culprit, const char *remedy,
                            const char *what) {
    const struct msi_engine *e = engine_of(host);
    if (status <= MST_OK || status >= MST_STATUS_COUNT) status = MST_ERR_SYSTEM;
    char who[200];
    if (culprit < 0 || culprit >= host->ranks)
        return msi_fail(status, remedy, "%s: %s", e->table->name, what);
    msi_fail(status, remedy, "%s: %s: %s", e->table->name,
             e->comm->hooks.show(e->comm->hooks.context, culprit, who, sizeof who), what);
    return msi_blame(status, host->global[culprit]);
}

static void host_log(const mst_backend_host *host, char level, const char *line) {
    const char *name = engine_of(host)->table->name;
    if (level == 'W')
        msi_log(backend, WARN, "%s: %s", name, line);
    else if (level == 'I')
        msi_log(backend, INFO, "%s: %s", name, line);
    else
        msi_log(backend, DEBUG, "%s: %s", name, line);
}

static bool host_combine(mst_dtype dtype, mst_op op, void *out, const void *a, const void *b, size_t count) {
    const struct msi_reducer *reducer = msi_reducer_get(dtype, op);
    if (!reducer || op == MST_AVG || op == MST_PREMUL_SUM) return false;
    reducer->reduce_local(out, NULL, (const void *const[]){a, b}, 2, count, NULL);
    return true;
}

/* Who has not said that it is ready? */
static mst_status say_absent(struct msi_engine *e) {
    struct msi_comm *comm = e->comm;
    char list[600] = "", who[200], group[96], name[32], key[KEY_MAX];
    size_t used = 0;
    int late = 0, first = -1;
    for (int r = 0; r < comm->size; r++) {
        snprintf(name, sizeof name, "ready/%d", r);
        struct msi_wait wait = {msi_deadline(ABSENT_MS), NULL};
        struct msi_store_rpc x = {.req = msi_read_request(engine_key(e, name, key))};
        mst_status st = comm->hooks.exec(comm->hooks.context, &wait, &x, 1);
        struct msi_reader reader = msi_reader(x.reply.data, x.reply.len);
        bool there = st == MST_OK && msi_value_or_none(msi_read_str(&reader)).n > 0;
        msi_store_rpc_free(&x, 1);
        if (there) continue;
        if (first < 0) first = r;
        if (late++ < LISTED_MOST && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", late > 1 ? ", " : "",
                                     comm->hooks.show(comm->hooks.context, r, who, sizeof who));
    }
    mst_status st =
        msi_fail(MST_ERR_STALLED, "see where those ranks are; a longer wait is .timeout_ms",
                 "%d of %d ranks of %s came to open backend '%s' in time; missing: %s", comm->size - late,
                 comm->size, comm->hooks.show(comm->hooks.context, -1, group, sizeof group), e->table->name,
                 late ? list : "nobody any more");
    return first >= 0 ? msi_blame(st, comm->hooks.global(comm->hooks.context, first)) : st;
}

/* Waits for a while, or until somebody gives up; the number is positive for who arrives, and negative for who only waits. */
static mst_status wait_for_all(struct msi_engine *e, const struct msi_wait *wait, int64_t number) {
    struct msi_comm *comm = e->comm;
    char key[KEY_MAX];
    int culprit;
    int64_t moment = msi_deadline(LOOK_MS);
    struct msi_wait some = {moment < wait->deadline ? moment : wait->deadline, wait->cancel};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_BARRIER, .key = engine_key(e, "all", key), .number = number}};
    mst_status st = comm->hooks.exec(comm->hooks.context, &some, &x, 1);
    msi_store_rpc_free(&x, 1);
    if (st != MST_ERR_TIMEOUT && st != MST_ERR_PEER_LOST) return st;
    mst_status noted = msi_failure_report_read(comm, &culprit);
    if (noted != MST_OK) return msi_blame(noted, comm->hooks.global(comm->hooks.context, culprit));
    const struct msi_waiting at = {.comm = comm->key, .name = "the first operation", .seq = 1};
    noted = comm->hooks.look(comm->hooks.context, &at);
    return noted == MST_OK ? st : noted;
}

/* Rule 1. Engines cannot be called off while they open, so nobody begins before all are there. */
static mst_status gather(struct msi_engine *e, const struct msi_wait *wait) {
    struct msi_comm *comm = e->comm;
    char name[32], key[KEY_MAX];
    snprintf(name, sizeof name, "ready/%d", comm->rank);
    struct msi_store_rpc ready = {
        .req = {.op = MSI_OP_SET, .key = engine_key(e, name, key), .value = msi_cstr("1")}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &ready, 1);
    msi_store_rpc_free(&ready, 1);
    if (st != MST_OK || comm->size == 1) return st;
    st = MST_ERR_TIMEOUT;
    while (st == MST_ERR_TIMEOUT && msi_now() < wait->deadline) {
        st = wait_for_all(e, wait, comm->arrived ? -comm->size : comm->size);
        comm->arrived = true;
    }
    return st == MST_ERR_TIMEOUT ? say_absent(e) : st;
}

static mst_status read_limit(struct msi_engine *e) {
    struct msi_settings settings;
    mst_status st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) e->value_max = (size_t)settings.store_max_value;
    return st;
}

static void fill_host(struct msi_engine *e, const struct msi_wait *wait) {
    struct msi_comm *comm = e->comm;
    e->host = (mst_backend_host){
        .size = sizeof e->host,
        .context = e,
        .rank = comm->rank,
        .ranks = comm->size,
        .global = comm->globals,
        .world_rank = comm->globals[comm->rank],
        .world_size = comm->world_size,
        .local_rank = comm->local_rank,
        .name = comm->key,
        .deadline = wait->deadline,
        .address = comm->hooks.address(comm->hooks.context, comm->rank),
        .one_host = comm->hosts.n == 1,
        .set = host_set,
        .get = host_get,
        .fail = host_fail,
        .log = host_log,
        .combine = host_combine,
    };
}

/* Modules may forget to say why, and pass on words that mean nothing outside. */
static mst_status open_made(struct msi_engine *e) {
    msi_fail(MST_ERR_SYSTEM, NULL, "backend '%s' could not be opened, and does not say why", e->table->name);
    mst_status st = e->table->open(&e->host, &e->made, &e->traits);
    if (st != MST_ERR_TIMEOUT) return st;
    char why[300];
    snprintf(why, sizeof why, "%s", mst_last_error()->message);
    return msi_fail(MST_ERR_STALLED, "see where the other ranks are; a longer wait is .timeout_ms",
                    "backend '%s' was not opened in time: %s", e->table->name, why);
}

mst_status msi_engine_open(struct msi_comm *comm, const struct msi_wait *wait, struct msi_engine **engine) {
    struct msi_engine *e = calloc(1, sizeof *e);
    if (!e) return msi_fail_memory();
    e->comm = comm;
    e->table = comm->table;
    e->sources = malloc((size_t)comm->size * sizeof *e->sources);
    e->composer = (struct msi_composer){.table = comm->table,
                                        .forced = comm->forced,
                                        .stage = comm->stage,
                                        .rank = comm->rank,
                                        .ranks = comm->size,
                                        .scratch = msi_engine_scratch,
                                        .context = e};
    mst_status st = e->sources ? MST_OK : msi_fail_memory();
    if (comm->check) e->heads = malloc((size_t)comm->size * sizeof *e->heads);
    if (comm->check && !e->heads) st = msi_fail_memory();
    if (st == MST_OK) st = read_limit(e);
    if (st == MST_OK) fill_host(e, wait);
    if (st == MST_OK) st = gather(e, wait);
    if (st == MST_OK) st = open_made(e);
    if (st != MST_OK) {
        e->made = NULL;
        msi_engine_free(e);
        return st;
    }
    msi_log(backend, INFO, "backend '%s' opened for %d ranks", e->table->name, comm->size);
    *engine = e;
    return MST_OK;
}

void msi_engine_abort(struct msi_engine *e) {
    if (!e->aborted) e->table->abort(e->made);
    e->aborted = true;
}

static void free_scratch(struct msi_engine *e, int memory, void *base) {
    if (memory == MST_MEMORY_HOST)
        free(base);
    else if (base)
        e->table->release(e->made, base);
}

void msi_engine_free(struct msi_engine *e) {
    if (!e) return;
    if (e->composed) msi_engine_abort(e); /* before the memory that it uses goes */
    if (e->made) msi_engine_scratch_reset(e);
    for (int m = 0; m < MST_MEMORY_COUNT; m++) {
        free_scratch(e, m, e->scratch[m].base);
        free(e->scratch[m].more);
    }
    if (e->made) e->table->close(e->made);
    free(e->composer.steps);
    free(e->sources);
    free(e->heads);
    free(e);
}

static void *get_memory(struct msi_engine *e, mst_memory memory, size_t bytes) {
    if (memory != MST_MEMORY_HOST) return e->table->alloc ? e->table->alloc(e->made, bytes) : NULL;
    void *got = NULL;
    return posix_memalign(&got, 64, bytes) == 0 ? got : NULL;
}

void *msi_engine_scratch(void *engine, mst_memory memory, size_t bytes) {
    struct msi_engine *e = engine;
    struct msi_scratch *s = &e->scratch[memory];
    size_t rounded = (bytes + 63) & ~(size_t)63;
    s->wanted += rounded;
    if (rounded <= s->size - s->used) {
        s->used += rounded;
        return s->base + s->used - rounded;
    }
    void **more = realloc(s->more, (size_t)(s->n_more + 1) * sizeof *more);
    if (!more) return NULL;
    s->more = more;
    void *got = get_memory(e, memory, rounded);
    if (got) s->more[s->n_more++] = got;
    return got;
}

/* What did not fit this time shall fit the next. */
void msi_engine_scratch_reset(struct msi_engine *e) {
    for (int m = 0; m < MST_MEMORY_COUNT; m++) {
        struct msi_scratch *s = &e->scratch[m];
        for (int i = 0; i < s->n_more; i++) free_scratch(e, m, s->more[i]);
        if (s->n_more > 0 && !e->aborted) {
            free_scratch(e, m, s->base);
            s->base = get_memory(e, (mst_memory)m, s->wanted);
            s->size = s->base ? s->wanted : 0;
        }
        s->n_more = 0;
        s->used = s->wanted = 0;
    }
}

mst_status msi_engine_copy(struct msi_engine *e, void *to, const void *from, size_t bytes) {
    if (e->table->copy) return e->table->copy(e->made, to, from, bytes);
    memcpy(to, from, bytes);
    return MST_OK;
}
