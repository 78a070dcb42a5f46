/*
 * buckets.c - reducers of many tensors.
 *
 *   buckets train|threads|sum|two|mismatch|misuse|die|late [SEED]
 *
 * train, threads and sum run several iterations. Each rank marks the tensors in its own random order, and the
 * results are compared with exact ones: the inputs are small integers. Prints "done" at the end.
 */
#include <muster/muster.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TENSORS = 60, ITERATIONS = 5, THREADS = 4, BUCKET = 64 << 10, FIRST = 4 << 10 };

static int rank, size;
static unsigned long long seed = 1;

static void fail(int line, const char *what) {
    fprintf(stderr, "buckets: rank %d, line %d: %s: %s\n", rank, line, what, mst_error());
    _exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define OK(call)         CHECK((call) == MST_OK)
/* The call fails with the status, and its message contains text. */
#define FAILS(call, wanted, text)                                                                            \
    CHECK((call) == (wanted) && (strstr(mst_error(), text) || (fprintf(stderr, "no '%s' in ", text), 0)))

static unsigned long long draw(unsigned long long *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

/* bf16 holds these integers exactly. */
static void put(const mst_tensor *t, size_t i, double value) {
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    switch (t->dtype) {
    case MST_F64:
        ((double *)t->data)[i] = value;
        break;
    case MST_F32:
        ((float *)t->data)[i] = f;
        break;
    case MST_BF16:
        ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
        break;
    case MST_I32:
        ((int32_t *)t->data)[i] = (int32_t)value;
        break;
    default:
        ((uint8_t *)t->data)[i] = (uint8_t)(int)value; /* modulo 256 */
        break;
    }
}

static double get(const mst_tensor *t, size_t i) {
    float f;
    uint32_t bits;
    switch (t->dtype) {
    case MST_F64:
        return ((const double *)t->data)[i];
    case MST_F32:
        return (double)((const float *)t->data)[i];
    case MST_BF16:
        bits = (uint32_t)((const uint16_t *)t->data)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case MST_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

/* The input of rank r. The sum over the ranks is a multiple of size, and all numbers are small. */
static double input(int r, size_t tensor, size_t i, int iteration) {
    double base = (double)((tensor * 7 + i * 3 + (size_t)iteration) % 16);
    return r == 0 ? base * size - (double)(size - 1) * 2 : 2;
}
static double output(size_t tensor, size_t i, int iteration, bool sum) {
    double base = (double)((tensor * 7 + i * 3 + (size_t)iteration) % 16);
    return sum ? base * size : base;
}

static size_t bytes_of(const mst_tensor *t) {
    return t->count * mst_dtype_size(t->dtype);
}

/*
 * Tensors of several dtypes and sizes, the same on all ranks. Some follow each other in memory, which differs
 * between the ranks.
 */
static void make(mst_tensor *tensors, char (*names)[16], const mst_dtype *dtypes, size_t n_dtypes) {
    unsigned long long same = seed, own = seed * 31 + (unsigned)rank;
    char *end = NULL, *limit = NULL;
    for (size_t i = 0; i < TENSORS; i++) {
        mst_tensor *t = &tensors[i];
        size_t longest = draw(&same) % 10 == 0 ? 40000 : 3000;
        *t = (mst_tensor){.count = draw(&same) % longest, .dtype = dtypes[draw(&same) / 8 % n_dtypes]};
        snprintf(names[i], sizeof names[i], "layer%zu", i);
        if (draw(&same) % 4) t->name = names[i];
        bool follow = draw(&own) % 2;
        if (!follow || !end || (uintptr_t)end % 8 || bytes_of(t) > (size_t)(limit - end)) {
            size_t bytes = bytes_of(t) + (draw(&own) % 3 ? 64 : 200000);
            if (draw(&own) % 2)
                OK(mst_alloc(bytes, &end)); /* freed at exit */
            else
                CHECK((end = malloc(bytes)));
            limit = end + bytes;
        }
        t->data = end;
        end += bytes_of(t);
    }
}

static void shuffle(size_t *order, unsigned long long *state) {
    for (size_t i = 0; i < TENSORS; i++) order[i] = i;
    for (size_t i = TENSORS - 1; i > 0; i--) {
        size_t j = draw(state) % (i + 1), was = order[i];
        order[i] = order[j];
        order[j] = was;
    }
}

struct share {
    mst_bucket_reducer *reducer;
    const size_t *order;
    size_t begin, end;
};

static void *mark(void *arg) {
    const struct share *s = arg;
    for (size_t i = s->begin; i < s->end; i++) OK(mst_bucket_ready(s->reducer, s->order[i]));
    return NULL;
}

static void mark_all(mst_bucket_reducer *reducer, const size_t *order, int threads) {
    struct share shares[THREADS];
    pthread_t ids[THREADS];
    for (int t = 0; t < threads; t++) {
        shares[t] = (struct share){reducer, order, (size_t)t * TENSORS / (size_t)threads,
                                   (size_t)(t + 1) * TENSORS / (size_t)threads};
        CHECK(pthread_create(&ids[t], NULL, mark, &shares[t]) == 0);
    }
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
}

static void train(const mst_dtype *dtypes, size_t n_dtypes, bool sum, int threads) {
    static mst_tensor tensors[TENSORS];
    static char names[TENSORS][16];
    unsigned long long own = seed * 77 + (unsigned)rank;
    size_t order[TENSORS];
    mst_bucket_reducer *reducer;
    make(tensors, names, dtypes, n_dtypes);
    OK(mst_bucket_create(tensors, TENSORS, &reducer, .bucket_bytes = BUCKET, .first_bucket_bytes = FIRST,
                         .sum = sum, .deterministic = seed % 2));
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        for (size_t t = 0; t < TENSORS; t++)
            for (size_t i = 0; i < tensors[t].count; i++) put(&tensors[t], i, input(rank, t, i, iteration));
        shuffle(order, &own);
        mark_all(reducer, order, threads);
        FAILS(mst_bucket_ready(reducer, 3), MST_ERR_STATE, "already marked");
        OK(mst_bucket_wait(reducer));
        for (size_t t = 0; t < TENSORS; t++)
            for (size_t i = 0; i < tensors[t].count; i++)
                CHECK(get(&tensors[t], i) == output(t, i, iteration, sum));
    }
    OK(mst_bucket_free(reducer));
}

/* Two reducers and other calls on the group, in different orders on the ranks. */
static void two(void) {
    float a[100], b[100], other = 1;
    mst_tensor tensors[] = {{a, 50, MST_F32, "a0"}, {a + 50, 50, MST_F32, "a1"}};
    mst_tensor more[] = {{b, 50, MST_F32, "b0"}, {b + 60, 40, MST_F32, "b1"}};
    mst_bucket_reducer *reducers[2];
    OK(mst_bucket_create(tensors, 2, &reducers[0], .sum = true));
    OK(mst_bucket_create(more, 2, &reducers[1], .sum = true));
    for (int iteration = 0; iteration < 20; iteration++) {
        for (int i = 0; i < 100; i++) a[i] = b[i] = 1;
        other = 1;
        for (int k = 0; k < 4; k++) {
            int at = rank % 2 ? k : 3 - k;
            OK(mst_bucket_ready(reducers[at % 2], (size_t)at / 2));
            if (k == rank % 3) OK(mst_all_reduce(&other, 1, MST_F32));
        }
        OK(mst_bucket_wait(reducers[rank % 2]));
        OK(mst_bucket_wait(reducers[!(rank % 2)]));
        CHECK(other == (float)size);
        for (int i = 0; i < 100; i++) CHECK(a[i] == (float)size && (b[i] == (float)size || i / 10 == 5));
    }
    OK(mst_bucket_free(reducers[0]));
    OK(mst_bucket_free(reducers[1]));
}

/* The last rank registers something else; the error names both ranks and the tensor on all ranks. */
static void mismatch(void) {
    float data[40];
    bool last = rank == size - 1;
    mst_tensor t[] = {{data, 10, MST_F32, "a"}, {data + 10, 10, MST_F32, "b"}, {data + 20, 5, MST_F32, "c"}};
    mst_bucket_reducer *reducer = NULL;
    if (last) t[1].count = 9;
    FAILS(mst_bucket_create(t, 3, &reducer), MST_ERR_MISMATCH, "tensor 1 is 'b' of ");
    CHECK(strstr(mst_error(), "9 f32 on rank ") && strstr(mst_error(), "10 f32 on rank "));
    CHECK(mst_last_error()->culprit >= 0 && !reducer);
    t[1].count = 10;
    if (last) t[2].dtype = MST_I32;
    FAILS(mst_bucket_create(t, 3, &reducer, .sum = true), MST_ERR_MISMATCH, "tensor 2 is 'c' of 5 ");
    t[2].dtype = MST_F32;
    if (last) t[0].name = "z";
    FAILS(mst_bucket_create(t, 3, &reducer), MST_ERR_MISMATCH, "tensor 0 is '");
    t[0].name = "a";
    FAILS(mst_bucket_create(t, last ? 2 : 3, &reducer), MST_ERR_MISMATCH, "missing on rank ");
    FAILS(mst_bucket_create(t, 3, &reducer, .bucket_bytes = last ? 10 : 20), MST_ERR_MISMATCH, "of 10 bytes");
    t[1].data = last ? NULL : data + 10;
    FAILS(mst_bucket_create(t, 3, &reducer), MST_ERR_INVALID, "the data of tensor 1 is NULL");
    t[1].data = data + 10;
    FAILS(mst_bucket_create(t, 3, last ? NULL : &reducer), MST_ERR_INVALID, "reducer is NULL");
    FAILS(mst_bucket_create(t, 3, &reducer, .timeout_ms = last ? -1 : 0), MST_ERR_INVALID, "timeout_ms");
    OK(mst_bucket_create(t, 3, &reducer));
    OK(mst_bucket_free(reducer));
}

static void late_ready(mst_status status, void *arg) {
    (void)status;
    for (size_t i = 0; i < 3; i++) OK(mst_bucket_ready(arg, i));
    FAILS(mst_bucket_wait(arg), MST_ERR_STATE, "a callback of a work cannot");
    FAILS(mst_bucket_free(arg), MST_ERR_STATE, "a callback of a work cannot");
}

static void misuse(void) {
    float data[40] = {0};
    mst_tensor t[] = {{data, 10, MST_F32, "a"}, {data + 10, 10, MST_F32, NULL}, {data + 20, 5, MST_F32, "c"}};
    mst_tensor bad[3];
    mst_bucket_reducer *reducer = NULL;
    mst_group *group;
    mst_work *work;
    FAILS(mst_bucket_create(NULL, 3, &reducer), MST_ERR_INVALID, "tensors is NULL");
    FAILS(mst_bucket_create(t, 0, &reducer), MST_ERR_INVALID, "n is 0");
    FAILS(mst_bucket_create(t, 3, NULL), MST_ERR_INVALID, "reducer is NULL");
    FAILS(mst_bucket_create(t, 3, &reducer, .timeout_ms = -1), MST_ERR_INVALID, "timeout_ms");
    memcpy(bad, t, sizeof bad);
    bad[2].data = data + 19;
    FAILS(mst_bucket_create(bad, 3, &reducer), MST_ERR_INVALID, "tensors 1 and 2 overlap");
    memcpy(bad, t, sizeof bad);
    bad[1].dtype = (mst_dtype)99;
    FAILS(mst_bucket_create(bad, 3, &reducer), MST_ERR_INVALID, "tensor 1 has dtype 99");
    bad[1].dtype = MST_BOOL;
    FAILS(mst_bucket_create(bad, 3, &reducer), MST_ERR_INVALID, "tensor 1: AVG is not defined for bool");
    bad[1].dtype = MST_I32;
    bad[1].count = SIZE_MAX / 2;
    FAILS(mst_bucket_create(bad, 3, &reducer, .sum = true), MST_ERR_INVALID, "more than memory can hold");
    CHECK(!reducer);
    FAILS(mst_bucket_ready(NULL, 0), MST_ERR_INVALID, "reducer is NULL");
    FAILS(mst_bucket_wait(NULL), MST_ERR_INVALID, "reducer is NULL");
    OK(mst_bucket_free(NULL));

    OK(mst_new_group((int[]){0}, 1, &group));
    if (rank) FAILS(mst_bucket_create(t, 3, &reducer, .group = group), MST_ERR_NOT_MEMBER, "is not in");
    OK(mst_destroy_process_group(group));
    FAILS(mst_bucket_create(t, 3, &reducer, .group = group), MST_ERR_STATE, "destroyed");

    OK(mst_bucket_create(t, 3, &reducer));
    FAILS(mst_bucket_ready(reducer, 3), MST_ERR_INVALID, "index is 3, but the reducer has 3 tensors");
    FAILS(mst_bucket_wait(reducer), MST_ERR_STATE,
          "3 of 3 tensors are not ready: tensor 0 ('a'), tensor 1, tensor 2 ('c')");
    OK(mst_bucket_ready(reducer, 2));
    OK(mst_bucket_ready(reducer, 0));
    FAILS(mst_bucket_ready(reducer, 2), MST_ERR_STATE, "tensor 2 ('c') is already marked");
    FAILS(mst_bucket_wait(reducer), MST_ERR_STATE, "1 of 3 tensors are not ready: tensor 1;");
    OK(mst_bucket_ready(reducer, 1));
    OK(mst_bucket_wait(reducer));
    FAILS(mst_bucket_wait(reducer), MST_ERR_STATE, "3 of 3");

    float x = 1;
    OK(mst_all_reduce(&x, 1, MST_F32, .work = &work));
    OK(mst_work_on_done(work, late_ready, reducer));
    OK(mst_wait(work));
    OK(mst_bucket_wait(reducer));
    OK(mst_bucket_free(reducer));
    FAILS(mst_bucket_ready(reducer, 0), MST_ERR_STATE, "the reducer was freed");
    FAILS(mst_bucket_free(reducer), MST_ERR_STATE, "the reducer was freed");

    /* It does not need the group that it was created from, but its world. */
    int all[64];
    for (int i = 0; i < size; i++) all[i] = i;
    OK(mst_new_group(all, size, &group));
    OK(mst_bucket_create(t, 3, &reducer, .group = group));
    OK(mst_destroy_process_group(group));
    for (size_t i = 0; i < 3; i++) OK(mst_bucket_ready(reducer, i));
    OK(mst_bucket_wait(reducer));
    OK(mst_barrier());
    OK(mst_destroy_process_group(NULL));
    FAILS(mst_bucket_ready(reducer, 0), MST_ERR_STATE, "the world of the reducer has ended");
    FAILS(mst_bucket_wait(reducer), MST_ERR_STATE, "the world of the reducer has ended");
    OK(mst_bucket_free(reducer));
}

/* The last rank dies in the third iteration, after some of its buckets have started. */
static void die(void) {
    static float data[30][5000];
    mst_tensor tensors[30];
    mst_bucket_reducer *reducer;
    mst_status st = MST_OK;
    for (int i = 0; i < 30; i++) tensors[i] = (mst_tensor){data[i], 4000, MST_F32, NULL};
    OK(mst_bucket_create(tensors, 30, &reducer, .bucket_bytes = BUCKET));
    for (int iteration = 0; iteration < 4 && st == MST_OK; iteration++) {
        for (size_t i = 30; i-- > 0 && st == MST_OK;) {
            if (iteration == 2 && i == 12 && rank == size - 1) raise(SIGKILL);
            st = mst_bucket_ready(reducer, i);
        }
        if (st == MST_OK) st = mst_bucket_wait(reducer);
    }
    CHECK(st == MST_ERR_PEER_LOST && mst_last_error()->culprit == size - 1);
    CHECK(mst_bucket_wait(reducer) == MST_ERR_PEER_LOST && mst_last_error()->culprit == size - 1);
    CHECK(mst_bucket_ready(reducer, 0) == MST_ERR_PEER_LOST);
    OK(mst_bucket_free(reducer));
}

/* Rank 0 marks its last tensor only after the waits of the others have timed out and been cancelled. */
static void late(void) {
    float data[2] = {(float)rank, 1};
    mst_tensor tensors[] = {{data, 1, MST_F32, NULL}, {data + 1, 1, MST_F32, NULL}};
    mst_bucket_reducer *reducer;
    mst_cancel *cancel;
    OK(mst_bucket_create(tensors, 2, &reducer, .first_bucket_bytes = 4, .bucket_bytes = 4));
    OK(mst_bucket_ready(reducer, 1));
    if (rank == 0) OK(mst_barrier());
    OK(mst_bucket_ready(reducer, 0));
    if (rank) {
        OK(mst_cancel_new(&cancel));
        mst_cancel_fire(cancel);
        CHECK(mst_bucket_wait(reducer, .timeout_ms = 50) == MST_ERR_TIMEOUT);
        CHECK(mst_bucket_wait(reducer, .cancel = cancel) == MST_ERR_CANCELLED);
        mst_cancel_free(cancel);
        OK(mst_barrier());
    }
    OK(mst_bucket_wait(reducer));
    CHECK(data[0] == (float)(size - 1) / 2 && data[1] == 1);
    OK(mst_bucket_free(reducer));
}

int main(int argc, char **argv) {
    static const mst_dtype floats[] = {MST_F32, MST_BF16, MST_F64}, numbers[] = {MST_I32, MST_F32, MST_U8};
    if (argc < 2) return 2;
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    OK(mst_init(.timeout_ms = 60000));
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (!strcmp(argv[1], "train"))
        train(floats, 3, false, 1);
    else if (!strcmp(argv[1], "threads"))
        train(floats, 3, false, THREADS);
    else if (!strcmp(argv[1], "sum"))
        train(numbers, 3, true, 2);
    else if (!strcmp(argv[1], "two"))
        two();
    else if (!strcmp(argv[1], "mismatch"))
        mismatch();
    else if (!strcmp(argv[1], "misuse"))
        misuse();
    else if (!strcmp(argv[1], "die"))
        die();
    else
        late();
    if (mst_is_initialized()) OK(mst_destroy_process_group(NULL));
    printf("done\n");
    return 0;
}
