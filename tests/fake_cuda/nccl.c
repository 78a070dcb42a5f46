/*
 * nccl.c - an NCCL without a GPU, for ranks that are processes of one host. The ranks of a communicator share
 * a file, the region. It has a slot for each rank, for collectives, and a cell for each pair, for messages.
 *
 * It is as strict as the real NCCL where callers depend on it. A nonblocking communicator returns "in
 * progress" at every launch and launches on its own thread. It rejects calls while a launch is in progress.
 * Enqueued work hangs until all ranks take part or the communicator is aborted. Sums of f16 and bf16 are
 * rounded at each step. An abort frees memory, which waits for the work of all communicators of the process.
 *
 *   FAKE_NCCL_VERSION   the result of ncclGetVersion (default 22809)
 *   FAKE_NCCL_BREAK     "RANK N": communicators in which this process is that rank fail after N launches,
 *                       with ncclRemoteError
 *   FAKE_NCCL_STUCK     "1": ncclCommFinalize never returns
 */
#include "fake_cuda.h"
#include "float_kit.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { RANKS_MAX = 8, SLOT = 1 << 16, CELL = 1 << 14, OPS_MAX = 64, FIRST_PREMUL = 5 };

struct cell {
    atomic_uint full; /* stored (release) by one side, loaded (acquire) by the other */
    char data[CELL];
};

struct region {
    atomic_uint changes; /* of the fields below; a futex for waits */
    atomic_uint joined;
    atomic_ullong arrived; /* at barriers, the sum over all ranks */
    char slots[RANKS_MAX][SLOT];
    struct cell cells[RANKS_MAX][RANKS_MAX];
};

enum kind { BROADCAST, ALL_REDUCE, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };
struct call {
    enum kind kind;
    const char *in;
    char *out;
    size_t count;
    unsigned dtype, op;
    int root; /* of messages: the peer */
    mnc_stream stream;
    size_t at; /* messages: transferred bytes */
};

struct ncclComm {
    struct region *region;
    int rank, ranks;
    bool blocking;
    unsigned long long barriers;
    atomic_uint state;      /* the result of ncclCommGetAsyncError */
    atomic_int in_progress; /* jobs and joins */
    atomic_int aborted;
    int launches, n_scalars;
    double scalars[OPS_MAX];
    char path[64];
    struct call calls[OPS_MAX]; /* of the open group */
    int n_calls;
    /* During ncclCommSplit: where the caller expects the new communicator; the two communicators. */
    struct ncclComm **result, *parent;
    _Atomic(struct ncclComm *) child;
};

#define DECLARE(result, name, parameters) EXPORT result nccl##name parameters;
MNC_NCCL_CALLS(DECLARE, mnc_id, mnc_config)

static _Thread_local int depth;
static _Thread_local struct ncclComm *grouped[OPS_MAX];
static _Thread_local int n_grouped;

static bool in_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument)) return false;
    pthread_detach(thread);
    return true;
}

/* Wakes the ranks that wait for a change of the region. */
static void notify(struct region *region) {
    atomic_fetch_add(&region->changes, 1);
    syscall(SYS_futex, &region->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits for a change after the caller has read changes. */
static void await_change(struct region *region, unsigned changes) {
    syscall(SYS_futex, &region->changes, FUTEX_WAIT, changes, NULL, NULL, 0);
}

static bool barrier(struct ncclComm *comm) {
    struct region *region = comm->region;
    unsigned long long wanted = ++comm->barriers * (unsigned)comm->ranks;
    atomic_fetch_add(&region->arrived, 1);
    notify(region);
    for (;;) {
        unsigned changes = atomic_load(&region->changes);
        if (atomic_load(&region->arrived) >= wanted) return true;
        if (comm->aborted || (comm->parent && comm->parent->aborted)) return false;
        await_change(region, changes);
    }
}

/* The lock of state and in_progress of all communicators of this process. */
static pthread_mutex_t comms_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t comm_changed = PTHREAD_COND_INITIALIZER;

static atomic_int all_in_progress; /* of all communicators */

static void set_state(struct ncclComm *comm, mnc_result state) {
    pthread_mutex_lock(&comms_lock);
    comm->state = state;
    pthread_cond_broadcast(&comm_changed);
    pthread_mutex_unlock(&comms_lock);
}

static void end_work(struct ncclComm *comm) {
    pthread_mutex_lock(&comms_lock);
    comm->in_progress--;
    all_in_progress--;
    pthread_cond_broadcast(&comm_changed);
    pthread_mutex_unlock(&comms_lock);
}

static void await_idle(struct ncclComm *comm) {
    pthread_mutex_lock(&comms_lock);
    while (comm->in_progress) pthread_cond_wait(&comm_changed, &comms_lock);
    pthread_mutex_unlock(&comms_lock);
}

static const mst_dtype types[] = {MST_I8,  MST_U8,  MST_I32, MST_U32,  MST_I64,    MST_U64,
                                  MST_F16, MST_F32, MST_F64, MST_BF16, MST_F8E4M3, MST_F8E5M2};
static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static bool is_float(unsigned dtype) {
    return dtype >= MNC_FLOAT16;
}

static double read_float(unsigned dtype, const char *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, sizes[dtype]);
    return kit_decode(types[dtype], bits);
}

static void write_float(unsigned dtype, double value, char *at) {
    uint64_t bits = kit_encode(types[dtype], dtype == MNC_FLOAT64 ? value : (double)(float)value);
    memcpy(at, &bits, sizes[dtype]);
}

static int64_t read_integer(unsigned dtype, const char *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, sizes[dtype]);
    bool sign = dtype == MNC_INT8 || dtype == MNC_INT32;
    if (sign && bits >> (8 * sizes[dtype] - 1)) bits |= ~(uint64_t)0 << (8 * sizes[dtype] - 1);
    return (int64_t)bits;
}

static double reduce_float(unsigned op, double a, double b) {
    return op == MNC_PROD ? a * b : op == MNC_MAX ? fmax(a, b) : op == MNC_MIN ? fmin(a, b) : a + b;
}

static uint64_t reduce_integer(unsigned op, bool sign, int64_t a, int64_t b) {
    bool less = sign ? a < b : (uint64_t)a < (uint64_t)b;
    if (op == MNC_PROD) return (uint64_t)a * (uint64_t)b;
    if (op == MNC_MAX || op == MNC_MIN) return (uint64_t)(less == (op == MNC_MIN) ? a : b);
    return (uint64_t)a + (uint64_t)b;
}

/* Reduces one element, which is at the same place in the slot of each rank. */
static void reduce_slots(struct ncclComm *comm, unsigned dtype, unsigned op, size_t at, char *out) {
    bool premul = op >= FIRST_PREMUL, sign = dtype == MNC_INT8 || dtype == MNC_INT32 || dtype == MNC_INT64;
    for (int r = 0; r < comm->ranks; r++) {
        char value[8];
        memcpy(value, comm->region->slots[r] + at, sizes[dtype]);
        if (premul) write_float(dtype, read_float(dtype, value) * comm->scalars[op - FIRST_PREMUL], value);
        if (!r) {
            memcpy(out, value, sizes[dtype]);
        } else if (is_float(dtype)) {
            write_float(dtype, reduce_float(op, read_float(dtype, out), read_float(dtype, value)), out);
        } else {
            uint64_t sum = reduce_integer(op, sign, read_integer(dtype, out), read_integer(dtype, value));
            memcpy(out, &sum, sizes[dtype]);
        }
    }
    if (op != MNC_AVG) return;
    if (is_float(dtype)) {
        write_float(dtype, read_float(dtype, out) / comm->ranks, out);
    } else {
        int64_t sum = read_integer(dtype, out);
        if (sign)
            sum /= comm->ranks;
        else
            sum = (int64_t)((uint64_t)sum / (unsigned)comm->ranks);
        memcpy(out, &sum, sizes[dtype]);
    }
}

/* Each rank writes its part to its slot. The root, or with -1 all ranks, reads all slots. */
static bool exchange(struct ncclComm *comm, const struct call *call, const char *in, char *out, int root) {
    size_t element = call->kind == BROADCAST ? 1 : sizes[call->dtype], step = SLOT / element;
    for (size_t from = 0; from < call->count; from += step) {
        size_t n = call->count - from < step ? call->count - from : step;
        if (call->kind != BROADCAST || comm->rank == root)
            memcpy(comm->region->slots[comm->rank], in + from * element, n * element);
        if (!barrier(comm)) return false;
        if (call->kind == BROADCAST)
            memcpy(out + from, comm->region->slots[root], n);
        else if (root < 0 || root == comm->rank)
            for (size_t i = 0; i < n; i++)
                reduce_slots(comm, call->dtype, call->op, i * element, out + (from + i) * element);
        if (!barrier(comm)) return false;
    }
    return true;
}

static bool run_collective(struct ncclComm *comm, const struct call *call) {
    struct call one = *call;
    size_t bytes = call->count * sizes[call->dtype];
    if (call->kind == BROADCAST || call->kind == ALL_GATHER) one.count = bytes;
    if (call->kind == ALL_GATHER) one.kind = BROADCAST;
    if (call->kind == ALL_REDUCE) return exchange(comm, &one, call->in, call->out, -1);
    if (call->kind == BROADCAST || call->kind == REDUCE)
        return exchange(comm, &one, call->in, call->out, call->root);
    for (int r = 0; r < comm->ranks; r++) {
        size_t start = (size_t)r * bytes;
        bool ok = call->kind == ALL_GATHER ? exchange(comm, &one, call->in, call->out + start, r)
                                           : exchange(comm, &one, call->in + start, call->out, r);
        if (!ok) return false;
    }
    return true;
}

/* Transfers the next cell of a message, if the cell is free or filled. */
static bool step_message(struct ncclComm *comm, struct call *call) {
    bool sends = call->kind == SEND;
    struct cell *cell =
        sends ? &comm->region->cells[comm->rank][call->root] : &comm->region->cells[call->root][comm->rank];
    size_t left = call->count - call->at, n = left < CELL ? left : CELL;
    if ((atomic_load_explicit(&cell->full, memory_order_acquire) != 0) == sends) return false;
    if (sends)
        memcpy(cell->data, call->in + call->at, n);
    else
        memcpy(call->out + call->at, cell->data, n);
    call->at += n;
    atomic_store_explicit(&cell->full, sends, memory_order_release);
    notify(comm->region);
    return true;
}

struct job {
    struct ncclComm *comm;
    int n;
    struct call calls[OPS_MAX];
};

/* Advances all messages of a group. Messages of one pair and direction are transferred in order. */
static void run_messages(struct job *job) {
    struct region *region = job->comm->region;
    for (bool left = true; left && !job->comm->aborted;) {
        unsigned changes = atomic_load(&region->changes);
        bool moved = left = false;
        for (int i = 0; i < job->n; i++) {
            struct call *call = &job->calls[i];
            bool behind = false;
            if (call->kind < SEND || call->at == call->count) continue;
            left = true;
            for (int j = 0; j < i; j++)
                behind |= job->calls[j].kind == call->kind && job->calls[j].root == call->root &&
                          job->calls[j].at < job->calls[j].count;
            if (!behind) moved |= step_message(job->comm, call);
        }
        if (left && !moved && !job->comm->aborted) await_change(region, changes);
    }
}

static void run_job(void *argument) {
    struct job *job = argument;
    bool ok = true;
    for (int i = 0; i < job->n && ok; i++)
        if (job->calls[i].kind < SEND) ok = run_collective(job->comm, &job->calls[i]);
    if (ok) run_messages(job);
    end_work(job->comm);
    free(job);
}

static void *launch_late(void *argument) {
    struct job *job = argument;
    struct ncclComm *comm = job->comm;
    usleep(200); /* so that callers see "in progress" */
    fake_enqueue(job->calls[0].stream, run_job, job);
    if (comm->state == MNC_IN_PROGRESS) set_state(comm, MNC_SUCCESS);
    return NULL;
}

static mnc_result launch(struct ncclComm *comm) {
    const char *breaks = getenv("FAKE_NCCL_BREAK");
    int rank, after;
    struct job *job = malloc(sizeof *job);
    if (!job) return MNC_SYSTEM_ERROR;
    job->comm = comm;
    job->n = comm->n_calls;
    memcpy(job->calls, comm->calls, sizeof job->calls);
    comm->n_calls = 0;
    atomic_fetch_add(&comm->in_progress, 1);
    all_in_progress++;
    if (breaks && sscanf(breaks, "%d %d", &rank, &after) == 2 && rank == comm->rank &&
        comm->launches++ >= after) {
        comm->state = MNC_REMOTE_ERROR;
        fake_enqueue(job->calls[0].stream, run_job, job);
        return comm->blocking ? MNC_SUCCESS : MNC_IN_PROGRESS;
    }
    if (comm->blocking) {
        fake_enqueue(job->calls[0].stream, run_job, job);
        return MNC_SUCCESS;
    }
    comm->state = MNC_IN_PROGRESS;
    return in_thread(launch_late, job) ? MNC_IN_PROGRESS : MNC_SYSTEM_ERROR;
}

static mnc_result add(struct ncclComm *comm, struct call call) {
    if (comm->state == MNC_IN_PROGRESS || comm->n_calls == OPS_MAX) return MNC_INVALID_USAGE;
    if (comm->state != MNC_SUCCESS) return comm->state;
    if (!depth) {
        comm->calls[comm->n_calls++] = call;
        return launch(comm);
    }
    if (!comm->n_calls) grouped[n_grouped++] = comm;
    comm->calls[comm->n_calls++] = call;
    return MNC_SUCCESS;
}

mnc_result ncclGroupStart(void) {
    depth++;
    return MNC_SUCCESS;
}

mnc_result ncclGroupEnd(void) {
    mnc_result result = MNC_SUCCESS;
    if (!depth) return MNC_INVALID_USAGE;
    if (--depth) return MNC_SUCCESS;
    for (int i = 0; i < n_grouped; i++) {
        if (grouped[i]->blocking != grouped[0]->blocking) return MNC_INVALID_ARGUMENT;
        mnc_result one = launch(grouped[i]);
        if (result == MNC_SUCCESS || result == MNC_IN_PROGRESS) result = one;
    }
    n_grouped = 0;
    return result;
}

mnc_result ncclBroadcast(const void *in, void *out, size_t count, unsigned dtype, int root, mnc_comm comm,
                         mnc_stream stream) {
    return add(comm, (struct call){BROADCAST, in, out, count, dtype, 0, root, stream, 0});
}

mnc_result ncclAllReduce(const void *in, void *out, size_t count, unsigned dtype, unsigned op, mnc_comm comm,
                         mnc_stream stream) {
    return add(comm, (struct call){ALL_REDUCE, in, out, count, dtype, op, -1, stream, 0});
}

mnc_result ncclReduce(const void *in, void *out, size_t count, unsigned dtype, unsigned op, int root,
                      mnc_comm comm, mnc_stream stream) {
    return add(comm, (struct call){REDUCE, in, out, count, dtype, op, root, stream, 0});
}

mnc_result ncclAllGather(const void *in, void *out, size_t count, unsigned dtype, mnc_comm comm,
                         mnc_stream stream) {
    return add(comm, (struct call){ALL_GATHER, in, out, count, dtype, 0, -1, stream, 0});
}

mnc_result ncclReduceScatter(const void *in, void *out, size_t count, unsigned dtype, unsigned op,
                             mnc_comm comm, mnc_stream stream) {
    return add(comm, (struct call){REDUCE_SCATTER, in, out, count, dtype, op, -1, stream, 0});
}

mnc_result ncclSend(const void *in, size_t count, unsigned dtype, int peer, mnc_comm comm,
                    mnc_stream stream) {
    return add(comm, (struct call){SEND, in, NULL, count * sizes[dtype], dtype, 0, peer, stream, 0});
}

mnc_result ncclRecv(void *out, size_t count, unsigned dtype, int peer, mnc_comm comm, mnc_stream stream) {
    return add(comm, (struct call){RECV, NULL, out, count * sizes[dtype], dtype, 0, peer, stream, 0});
}

mnc_result ncclGetVersion(int *version) {
    const char *given = getenv("FAKE_NCCL_VERSION");
    *version = given ? atoi(given) : 22809;
    return MNC_SUCCESS;
}

mnc_result ncclGetUniqueId(mnc_id *id) {
    static atomic_int number;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, 64, "/dev/shm/fake-nccl-%ld-%d", (long)getpid(), number++);
    int file = open(id->bytes, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct region))) return MNC_SYSTEM_ERROR;
    close(file);
    return MNC_SUCCESS;
}

/* The last rank removes the file name. */
static void *join_ranks(void *argument) {
    struct ncclComm *comm = argument;
    if (comm->parent) usleep(200); /* so that callers see "in progress" */
    if (atomic_fetch_add(&comm->region->joined, 1) + 1 == (unsigned)comm->ranks) unlink(comm->path);
    bool joined = barrier(comm);
    if (comm->result) *comm->result = comm;
    struct ncclComm *parent = comm->parent;
    comm->parent = NULL;
    set_state(comm, joined ? MNC_SUCCESS : MNC_SYSTEM_ERROR);
    if (parent) {
        parent->child = NULL;
        set_state(parent, joined ? MNC_SUCCESS : MNC_SYSTEM_ERROR);
    }
    end_work(comm);
    return NULL;
}

static struct ncclComm *new_comm(const char *path, int ranks, int rank, const mnc_config *config) {
    struct ncclComm *comm = calloc(1, sizeof *comm);
    int file = open(path, O_RDWR);
    if (!comm || file < 0 || ranks > RANKS_MAX || config->magic != MNC_CONFIG_MAGIC) return NULL;
    comm->region = mmap(NULL, sizeof *comm->region, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (comm->region == MAP_FAILED) return NULL;
    snprintf(comm->path, sizeof comm->path, "%.63s", path);
    comm->ranks = ranks;
    comm->rank = rank;
    comm->blocking = config->blocking;
    comm->in_progress = 1;
    all_in_progress++;
    return comm;
}

mnc_result ncclCommInitRankConfig(mnc_comm *made, int ranks, mnc_id id, int rank, mnc_config *config) {
    struct ncclComm *comm = new_comm(id.bytes, ranks, rank, config);
    if (!comm) return MNC_INVALID_ARGUMENT;
    comm->state = MNC_IN_PROGRESS;
    *made = comm;
    if (comm->blocking) join_ranks(comm);
    if (comm->blocking) return comm->state;
    return in_thread(join_ranks, comm) ? MNC_IN_PROGRESS : MNC_SYSTEM_ERROR;
}

/* All ranks call it in the same order, so they use the same path. */
mnc_result ncclCommSplit(mnc_comm parent, int color, int key, mnc_comm *made, mnc_config *config) {
    char path[sizeof parent->path + 8];
    if (parent->state == MNC_IN_PROGRESS || color != 0 || key != parent->rank) return MNC_INVALID_USAGE;
    snprintf(path, sizeof path, "%.60s-s", parent->path);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct region))) return MNC_SYSTEM_ERROR;
    close(file);
    struct ncclComm *comm = new_comm(path, parent->ranks, parent->rank, config);
    if (!comm) return MNC_SYSTEM_ERROR;
    *made = NULL;
    comm->result = made;
    comm->parent = parent;
    parent->child = comm;
    parent->state = MNC_IN_PROGRESS;
    return in_thread(join_ranks, comm) ? MNC_IN_PROGRESS : MNC_SYSTEM_ERROR;
}

static void end_comm(struct ncclComm *comm) {
    await_idle(comm);
    munmap(comm->region, sizeof *comm->region);
    free(comm);
}

mnc_result ncclCommFinalize(mnc_comm comm) {
    const char *stuck = getenv("FAKE_NCCL_STUCK");
    while (stuck && *stuck == '1') pause();
    await_idle(comm);
    return comm->blocking ? MNC_SUCCESS : MNC_IN_PROGRESS;
}

mnc_result ncclCommDestroy(mnc_comm comm) {
    end_comm(comm);
    return MNC_SUCCESS;
}

mnc_result ncclCommAbort(mnc_comm comm) {
    struct ncclComm *child = comm->child; /* only the thread that aborts could free it */
    comm->aborted = 1;
    notify(comm->region);
    if (child) notify(child->region);
    pthread_mutex_lock(&comms_lock);
    while (comm->state == MNC_IN_PROGRESS || all_in_progress) pthread_cond_wait(&comm_changed, &comms_lock);
    pthread_mutex_unlock(&comms_lock);
    unlink(comm->path);
    end_comm(comm);
    return MNC_SUCCESS;
}

mnc_result ncclCommGetAsyncError(mnc_comm comm, mnc_result *state) {
    *state = comm->state;
    return MNC_SUCCESS;
}

const char *ncclGetErrorString(mnc_result result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "operation in progress"};
    return texts[result & 7];
}

const char *ncclGetLastError(mnc_comm comm) {
    (void)comm;
    return "a fake error";
}

mnc_result ncclRedOpCreatePreMulSum(unsigned *op, void *scalar, unsigned dtype, unsigned residence,
                                    mnc_comm comm) {
    if (residence != MNC_SCALAR_HOST || comm->n_scalars == OPS_MAX) return MNC_INVALID_ARGUMENT;
    comm->scalars[comm->n_scalars] = read_float(dtype, scalar);
    *op = FIRST_PREMUL + (unsigned)comm->n_scalars++;
    return MNC_SUCCESS;
}

mnc_result ncclRedOpDestroy(unsigned op, mnc_comm comm) {
    return op >= FIRST_PREMUL && op < FIRST_PREMUL + (unsigned)comm->n_scalars ? MNC_SUCCESS
                                                                               : MNC_INVALID_ARGUMENT;
}
