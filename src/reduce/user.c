/*
 * user.c - user-defined operations: a table of those that exist, and the reducer that calls their functions.
 * Any thread may look an operation up.
 */
#include "reduce/user.h"
#include "base/error.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

enum { SLOTS = 64, NUMBERS = 1 << 16, BLOCK_BYTES = 8 << 10 };
_Static_assert(BLOCK_BYTES >= MSI_UNIT_MOST * MSI_ELEMENT_MOST, "a block has at least one unit");

static struct msi_user_op slots[SLOTS];
/* The operation of each slot, 0: none. Stored with release after the slot, loaded with acquire. */
static _Atomic unsigned ops[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of changes */
static unsigned created;

static int find(mst_op op) {
    for (int i = 0; i < SLOTS; i++)
        if (op >= MST_OP_USER && atomic_load_explicit(&ops[i], memory_order_acquire) == (unsigned)op)
            return i;
    return -1;
}

/* The next number; after the last one they begin again, without those that exist. */
static unsigned next_number(void) {
    unsigned number;
    do number = (unsigned)MST_OP_USER + created++ % NUMBERS;
    while (find((mst_op)number) >= 0);
    return number;
}

mst_status msi_user_op_add(const struct msi_user_op *user, mst_op *op) {
    int at = 0;
    pthread_mutex_lock(&lock);
    while (at < SLOTS && atomic_load_explicit(&ops[at], memory_order_relaxed)) at++;
    if (at < SLOTS) {
        unsigned number = next_number();
        slots[at] = *user;
        atomic_store_explicit(&ops[at], number, memory_order_release);
        *op = (mst_op)number;
    }
    pthread_mutex_unlock(&lock);
    if (at < SLOTS) return MST_OK;
    return msi_fail(MST_ERR_LIMIT, "free those that are not needed with mst_op_free",
                    "there are %d user-defined operations, which is the most", SLOTS);
}

const struct msi_user_op *msi_user_op_find(mst_op op) {
    int at = find(op);
    return at < 0 ? NULL : &slots[at];
}

bool msi_user_op_remove(mst_op op) {
    pthread_mutex_lock(&lock);
    int at = find(op);
    if (at >= 0) atomic_store_explicit(&ops[at], 0, memory_order_release);
    pthread_mutex_unlock(&lock);
    return at >= 0;
}

/* Elements of a block: whole units. */
static size_t block_of(const struct msi_reduce_scale *scale) {
    size_t most = BLOCK_BYTES / mst_dtype_size(scale->dtype);
    return most - most % scale->user->unit;
}

static void call(const struct msi_reduce_scale *scale, void *inout, const void *in, size_t count) {
    scale->user->fn(inout, in, count, scale->dtype, scale->user->arg);
}

/* Begins with the last array: the function puts an array of lower ranks before its result. */
static void reduce_local(void *out, void *copy, const void *const *in, int n, size_t count,
                         const struct msi_reduce_scale *scale) {
    alignas(64) char result[BLOCK_BYTES];
    size_t element = mst_dtype_size(scale->dtype), block = block_of(scale);
    for (size_t i = 0; i < count; i += block) {
        size_t here = count - i < block ? count - i : block, at = i * element;
        memcpy(result, (const char *)in[n - 1] + at, here * element);
        for (int k = n - 2; k >= 0; k--) call(scale, result, (const char *)in[k] + at, here);
        memcpy((char *)out + at, result, here * element);
        if (copy) memcpy((char *)copy + at, result, here * element);
    }
}

static void begin(void *acc, const void *in, size_t count, const struct msi_reduce_scale *scale) {
    memmove(acc, in, count * mst_dtype_size(scale->dtype));
}

static void add(void *acc, const void *in, size_t count, const struct msi_reduce_scale *scale) {
    reduce_local(acc, NULL, (const void *const[]){acc, in}, 2, count, scale);
}

#define REDUCER(bytes)                                                                                       \
    { reduce_local, begin, add, NULL, begin, bytes }
static const struct msi_reducer reducers[] = {REDUCER(1), REDUCER(2), REDUCER(4), REDUCER(8), REDUCER(16)};

const struct msi_reducer *msi_user_reducer(mst_dtype dtype) {
    return &reducers[__builtin_ctzll(mst_dtype_size(dtype))];
}
