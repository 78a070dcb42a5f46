/* module.c - opening and closing a backend's engine, and the services that it can call. See module.h. */
#include "engine/module/module.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rank_list.h"
#include "base/settings.h"
#include "comm/wait_reports.h"
#include "engine/engines.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 900, ABSENT_MS = 300, SET_MS = 10000, LOOK_MS = 200 };

static struct msi_str backend_key(const struct msi_module *m, const char *name, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/%s", m->comm->key, name);
    return msi_cstr(out);
}

static struct msi_module *module_of(const mst_backend_host *host) {
    return host->context;
}

/* A store server closes a connection that sends more than its limit, which would end the world. */
static mst_status host_set(const mst_backend_host *host, const char *key, const void *value, size_t len) {
    struct msi_comm *comm = module_of(host)->comm;
    if (len > module_of(host)->value_max)
        return msi_fail(
            MST_ERR_LIMIT,
            "send less at a time, or raise MUSTER_STORE_MAX_VALUE here and where the store is hosted",
            "backend '%s' puts a value of %zu bytes into the store; the limit is %zu",
            module_of(host)->table->name, len, module_of(host)->value_max);
    char full[KEY_MAX];
    struct msi_wait wait = {msi_deadline(SET_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_SET,
                                      .key = backend_key(module_of(host), key, full),
                                      .value = msi_str(value, len)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, &wait, &x, 1);
    if (st == MST_OK) st = x.status;
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status host_get(const mst_backend_host *host, const char *key, int64_t deadline,
                           mst_bytes *value) {
    struct msi_comm *comm = module_of(host)->comm;
    char full[KEY_MAX];
    struct msi_str name = backend_key(module_of(host), key, full);
    struct msi_wait wait = {deadline, NULL};
    /* A single request that waits ends when a rank is lost. Once the engine is open, waits find lost ranks
     * themselves: then two requests are sent, which are not guarded. The reply of the first one is short. */
    bool open = module_of(host)->made != NULL;
    struct msi_store_rpc both[] = {{.req = {.op = MSI_OP_CHECK, .keys = &name, .n = 1}},
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
    const struct msi_module *m = module_of(host);
    if (status <= MST_OK || status >= MST_STATUS_COUNT) status = MST_ERR_SYSTEM;
    char who[200];
    if (culprit < 0 || culprit >= host->ranks)
        return msi_fail(status, remedy, "%s: %s", m->table->name, what);
    msi_fail(status, remedy, "%s: %s: %s", m->table->name,
             m->comm->hooks.show(m->comm->hooks.context, culprit, who, sizeof who), what);
    return msi_blame(status, host->global[culprit]);
}

static void host_log(const mst_backend_host *host, char level, const char *line) {
    const char *name = module_of(host)->table->name;
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

/* Lists the ranks that have not arrived. */
static void find_absent(struct msi_module *m, struct msi_rank_list *absent) {
    struct msi_comm *comm = m->comm;
    char who[200], name[32], key[KEY_MAX];
    msi_rank_list_init(absent, MSI_RANKS_LISTED);
    for (int r = 0; r < comm->size; r++) {
        snprintf(name, sizeof name, "ready/%d", r);
        struct msi_wait wait = {msi_deadline(ABSENT_MS), NULL};
        struct msi_store_rpc x = {.req = msi_read_request(backend_key(m, name, key))};
        mst_status st = comm->hooks.exec(comm->hooks.context, &wait, &x, 1);
        struct msi_reader reader = msi_reader(x.reply.data, x.reply.len);
        bool there = st == MST_OK && msi_value_or_none(msi_read_str(&reader)).n > 0;
        msi_store_rpc_free(&x, 1);
        if (!there)
            msi_rank_list_add(absent, msi_comm_global(comm, r), msi_comm_show(comm, r, who, sizeof who));
    }
}

/* Fails, and names the ranks that have not arrived. */
static mst_status say_absent(struct msi_module *m) {
    struct msi_comm *comm = m->comm;
    struct msi_rank_list absent;
    char group[96];
    find_absent(m, &absent);
    mst_status st = msi_fail(MST_ERR_STALLED, "find out where those ranks are, or raise .timeout_ms",
                             "%d of %d ranks of %s reached the opening of backend '%s' in time; missing: %s",
                             comm->size - absent.n, comm->size, msi_comm_show(comm, -1, group, sizeof group),
                             m->table->name, absent.n ? absent.text : "none any more");
    return msi_blame_missing(st, &absent.ranks);
}

static void write_slow(struct msi_module *m, struct msi_slow *slow, int64_t deadline) {
    struct msi_rank_list absent;
    char group[96];
    find_absent(m, &absent);
    if (absent.n)
        msi_slow_write(slow, deadline, NULL, msi_comm_show(m->comm, -1, group, sizeof group), absent.text);
}

/* Waits for a while for all ranks, or until a rank reports a failure. number is positive if this rank arrives
 * now, and negative if it was counted before. */
static mst_status wait_for_all(struct msi_module *m, const struct msi_wait *wait, int64_t number) {
    struct msi_comm *comm = m->comm;
    char key[KEY_MAX];
    int culprit;
    int64_t moment = msi_deadline(LOOK_MS);
    struct msi_wait some = {moment < wait->deadline ? moment : wait->deadline, wait->cancel};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_BARRIER, .key = backend_key(m, "all", key), .number = number}};
    mst_status st = comm->hooks.exec(comm->hooks.context, &some, &x, 1);
    msi_store_rpc_free(&x, 1);
    if (st != MST_ERR_TIMEOUT && st != MST_ERR_PEER_LOST) return st;
    mst_status noted = msi_failure_report_read(comm, -1, &culprit);
    if (noted != MST_OK) return msi_blame(noted, msi_comm_global(comm, culprit));
    const struct msi_waiting at = {.comm = comm->key, .name = "the first operation", .seq = 1, .late = true};
    noted = comm->hooks.look(comm->hooks.context, &at);
    return noted == MST_OK ? st : noted;
}

/* Rule 1 of module.h. The opening of a backend cannot be cancelled, so no rank begins it before all have
 * arrived. */
static mst_status gather(struct msi_module *m, const struct msi_wait *wait) {
    struct msi_comm *comm = m->comm;
    char name[32], key[KEY_MAX];
    snprintf(name, sizeof name, "ready/%d", comm->rank);
    struct msi_store_rpc ready = {
        .req = {.op = MSI_OP_SET, .key = backend_key(m, name, key), .value = msi_cstr("1")}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &ready, 1);
    msi_store_rpc_free(&ready, 1);
    if (st != MST_OK || comm->size == 1) return st;
    struct msi_slow slow = msi_slow_begin(comm->config.slow_s, msi_now());
    st = MST_ERR_TIMEOUT;
    while (st == MST_ERR_TIMEOUT && msi_now() < wait->deadline) {
        st = msi_comm_check_own_abort(comm);
        if (st != MST_OK) return st;
        st = wait_for_all(m, wait, m->arrived ? -comm->size : comm->size);
        m->arrived = true;
        if (st == MST_ERR_TIMEOUT && msi_slow_is_due(&slow, wait->deadline))
            write_slow(m, &slow, wait->deadline);
    }
    if (st == MST_OK)
        return msi_comm_check_abort(comm); /* a rank that aborted after it came does not open it */
    return st == MST_ERR_TIMEOUT ? say_absent(m) : st;
}

static mst_status read_limit(struct msi_module *m) {
    struct msi_settings settings;
    mst_status st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) m->value_max = (size_t)settings.store_max_value;
    return st;
}

/* A buffer of the operation; NULL: it has none. */
static const void *find_buffer(const mst_backend_op *op) {
    if (op->in) return op->in;
    if (op->out) return op->out;
    return op->in_list ? op->in_list[0] : op->out_list ? op->out_list[0] : NULL;
}

static void fill_host(struct msi_module *m, const struct mst_work *first, const struct msi_wait *wait) {
    struct msi_comm *comm = m->comm;
    m->host = (mst_backend_host){
        .size = sizeof m->host,
        .context = m,
        .rank = comm->rank,
        .ranks = comm->size,
        .global = comm->ranks.globals,
        .world_rank = comm->ranks.globals[comm->rank],
        .world_size = comm->config.world_size,
        .local_rank = comm->config.local_rank,
        .name = comm->key,
        .deadline = wait->deadline,
        .address = comm->hooks.address(comm->hooks.context, comm->rank),
        .one_host = comm->ranks.hosts.n == 1,
        .set = host_set,
        .get = host_get,
        .fail = host_fail,
        .log = host_log,
        .combine = host_combine,
        .buffer = find_buffer(&first->op.desc),
    };
}

/* Modules may forget to say why they fail, or return MST_ERR_TIMEOUT, which has another meaning outside. */
static mst_status open_made(struct msi_module *m) {
    msi_fail(MST_ERR_SYSTEM, NULL, "backend '%s' could not be opened and gave no reason", m->table->name);
    mst_status st = m->table->open(&m->host, &m->made, &m->traits);
    m->host.buffer = NULL; /* it belongs to the program */
    if (st != MST_ERR_TIMEOUT) return st;
    char why[300];
    snprintf(why, sizeof why, "%s", mst_last_error()->message);
    return msi_fail(MST_ERR_STALLED, "find out where the other ranks are, or raise .timeout_ms",
                    "backend '%s' was not opened in time: %s", m->table->name, why);
}

/* Frees what open has created, so that it can be called again. */
static void free_module(struct msi_module *m);

static mst_status open_engine(struct msi_comm *comm, const struct mst_work *first,
                              const struct msi_wait *wait) {
    struct msi_module *m = msi_module(comm);
    bool check = comm->config.check;
    mst_status st = msi_comm_agree(comm, wait);
    if (st != MST_OK) return st;
    m->comm = comm;
    m->table = comm->config.backend;
    msi_list_init(&m->timed);
    m->sources = malloc((size_t)comm->size * sizeof *m->sources);
    m->targets = malloc((size_t)comm->size * sizeof *m->targets);
    m->composer = (struct msi_composer){.table = m->table,
                                        .forced = comm->config.forced,
                                        .stage = comm->config.stage,
                                        .rank = comm->rank,
                                        .ranks = comm->size,
                                        .scratch = msi_module_scratch,
                                        .context = m};
    if (check) m->headers = malloc((size_t)comm->size * sizeof *m->headers);
    st = m->sources && m->targets && (m->headers || !check) ? read_limit(m) : msi_fail_memory();
    if (st == MST_OK) fill_host(m, first, wait);
    if (st == MST_OK) st = gather(m, wait);
    if (st == MST_OK) st = open_made(m);
    if (st != MST_OK) {
        m->made = NULL;
        free_module(m);
        return st;
    }
    comm->traits = (struct msi_engine_traits){.max_fds = 1,
                                              .own_thread = m->traits.own_thread,
                                              .batches = m->table->group_begin != NULL,
                                              .by_clock = true,
                                              .pollable = m->traits.poll_fd > 0,
                                              .uses_store = true};
    msi_log(backend, INFO, "backend '%s' opened for %d ranks", m->table->name, comm->size);
    return MST_OK;
}

/* Did only the calls of ranks differ, and is nothing under way? Then the engine need not be aborted. */
static bool is_quiet_mismatch(const struct msi_module *m) {
    const struct msi_comm *comm = m->comm;
    bool one = comm->ops.messages.next == comm->ops.messages.prev; /* at most the message that has failed */
    return comm->failure.status == MST_ERR_MISMATCH && msi_list_empty(&comm->ops.queue) && one;
}

void msi_module_abort(struct msi_module *m) {
    if (m->aborted || is_quiet_mismatch(m)) return;
    m->table->abort(m->made);
    m->aborted = true;
}

static void free_scratch(struct msi_module *m, int memory, void *base) {
    if (memory == MST_MEMORY_HOST)
        free(base);
    else if (base)
        m->table->release(m->made, base);
}

static void free_module(struct msi_module *m) {
    if (m->made) msi_module_scratch_reset(m);
    for (int k = 0; k < MST_MEMORY_COUNT; k++) {
        free_scratch(m, k, m->scratch[k].base);
        free(m->scratch[k].more);
    }
    if (m->made) m->table->close(m->made);
    free(m->composer.steps);
    free(m->sources);
    free(m->targets);
    free(m->headers);
    bool arrived = m->arrived;
    *m = (struct msi_module){.arrived = arrived};
}

static void close_engine(struct msi_comm *comm) {
    struct msi_module *m = msi_module(comm);
    if (!m->made) return;
    msi_module_leave_streams(m);
    if (m->composed || msi_comm_check_own_abort(comm) != MST_OK)
        msi_module_abort(m); /* before the memory that it uses is freed */
    free_module(m);
}

static void *get_memory(struct msi_module *m, mst_memory memory, size_t bytes) {
    if (memory != MST_MEMORY_HOST) return m->table->alloc ? m->table->alloc(m->made, bytes) : NULL;
    void *got = NULL;
    return posix_memalign(&got, 64, bytes) == 0 ? got : NULL;
}

void *msi_module_scratch(void *context, mst_memory memory, size_t bytes) {
    struct msi_module *m = context;
    struct msi_scratch *s = &m->scratch[memory];
    size_t rounded = (bytes + 63) & ~(size_t)63;
    s->wanted += rounded;
    if (rounded <= s->size - s->used) {
        s->used += rounded;
        return s->base + s->used - rounded;
    }
    void **more = realloc(s->more, (size_t)(s->n_more + 1) * sizeof *more);
    if (!more) return NULL;
    s->more = more;
    void *got = get_memory(m, memory, rounded);
    if (got) s->more[s->n_more++] = got;
    return got;
}

/* The next composition gets one piece that is as large as all pieces of this one. */
void msi_module_scratch_reset(struct msi_module *m) {
    for (int k = 0; k < MST_MEMORY_COUNT; k++) {
        struct msi_scratch *s = &m->scratch[k];
        for (int i = 0; i < s->n_more; i++) free_scratch(m, k, s->more[i]);
        if (s->n_more > 0 && !m->aborted) {
            free_scratch(m, k, s->base);
            s->base = get_memory(m, (mst_memory)k, s->wanted);
            s->size = s->base ? s->wanted : 0;
        }
        s->n_more = 0;
        s->used = s->wanted = 0;
    }
}

mst_status msi_module_copy(struct msi_module *m, void *to, const void *from, size_t bytes) {
    if (m->table->copy) return m->table->copy(m->made, to, from, bytes);
    memcpy(to, from, bytes);
    return MST_OK;
}

static size_t state_bytes(const struct msi_comm *comm) {
    (void)comm;
    return sizeof(struct msi_module);
}

static size_t op_bytes(const struct msi_comm *comm) {
    (void)comm;
    return sizeof(struct msi_module_op);
}

static bool progress(struct msi_comm *comm) {
    bool moved = msi_module_advance(msi_module(comm));
    if (!msi_list_empty(&comm->ops.messages)) moved |= msi_module_advance_messages(msi_module(comm));
    return moved;
}

/* Backends do not tell which ranks they wait for. */
static bool waits_for(const struct mst_work *work, int rank) {
    (void)rank;
    return !work->done;
}

static int missing(const struct mst_work *work, int *ranks, int max) {
    (void)work;
    (void)ranks;
    (void)max;
    return 0;
}

static int poll_fds(struct msi_comm *comm, struct pollfd *fds) {
    int fd = msi_module(comm)->traits.poll_fd;
    fds[0] = (struct pollfd){fd, POLLIN, 0};
    return fd > 0;
}

static uint64_t elapsed(struct msi_module *m, const struct mst_work *work) {
    double seconds = 0;
    if (!work->op.desc.timed || work->failure.status != MST_OK) return 0;
    return m->table->elapsed(m->made, &work->op.desc, &seconds) == MST_OK ? (uint64_t)(seconds * 1e9) : 0;
}

static void describe(struct mst_work *work, struct msi_record *record) {
    struct msi_module *m = msi_module(work->comm);
    record->backend = m->table->name;
    record->device = elapsed(m, work);
    int sender = work->op.desc.sender;
    if (work->op.desc.kind == MST_KIND_RECV && work->begun && sender >= 0) work->source = sender;
}

static uint64_t count(const struct msi_comm *comm) {
    return msi_module(comm)->seq;
}

const struct msi_engine msi_module_engine = {
    .state_bytes = state_bytes,
    .op_bytes = op_bytes,
    .open = open_engine,
    .close = close_engine,
    .progress = progress,
    .waits_for = waits_for,
    .missing = missing,
    .poll_fds = poll_fds,
    .describe = describe,
    .count = count,
    .enqueue = msi_module_enqueue,
    .watch_streams = msi_module_watch_streams,
};
