/* scenarios.c - what no single case tests: hundreds of works, freed works, threads, order, memory. */
#include "suite.h"

#include "os/clock.h"
#include "os/wait.h"

#include <pthread.h>
#include <unistd.h>

enum { MANY = 100, ROUNDS = 50, VECTOR = 3000 };

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "collective: FAILED on rank %d: false: %s\ncollective: seed %llu\n", suite.me, what,
            (unsigned long long)suite.seed);
    exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

/* Hundreds of works over all groups; each rank waits in its own order. */
static void many_works(void) {
    static mst_work *works[MANY];
    static int64_t values[MANY], wanted[MANY];
    uint64_t state = mix(suite.seed, (uint64_t)suite.me);
    int order[MANY], n = 0;
    for (int i = 0; i < MANY; i++) {
        const struct layout *at = &layouts[i % n_layouts];
        if (at->me < 0) continue;
        values[n] = at->me + i;
        wanted[n] = (int64_t)at->n * (at->n - 1) / 2 + (int64_t)at->n * i;
        EXPECT_OK(mst_all_reduce(&values[n], 1, MST_I64, .group = at->group, .work = &works[n],
                                 .timeout_ms = TIMEOUT_MS));
        order[n] = n;
        n++;
    }
    for (int i = n - 1; i > 0; i--) {
        int j = (int)draw(&state, (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < n; i++) EXPECT_OK(mst_wait(works[order[i]]));
    for (int i = 0; i < n; i++) REQUIRE(values[i] == wanted[i]);
}

static void note(mst_status status, void *arg) {
    REQUIRE(status == MST_OK);
    atomic_store_explicit((_Atomic int *)arg, 1, memory_order_release); /* acquired by freed_works */
}

/* Works that are freed before they are done complete while the group is in use. */
static void freed_works(void) {
    static _Atomic int done;
    static double sums[VECTOR];
    mst_work *work;
    int all = 0;
    atomic_store_explicit(&done, 0, memory_order_relaxed);
    for (int i = 0; i < VECTOR; i++) sums[i] = i + suite.me;
    EXPECT_OK(mst_all_reduce(sums, VECTOR, MST_F64, .work = &work, .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_work_on_done(work, note, &done));
    mst_work_free(work);
    for (int64_t deadline = msi_deadline(TIMEOUT_MS); !all;) {
        all = atomic_load_explicit(&done, memory_order_acquire);
        REQUIRE(msi_now() < deadline);
        EXPECT_OK(mst_all_reduce(&all, 1, MST_I32, .op = MST_MIN, .timeout_ms = TIMEOUT_MS));
    }
    for (int i = 0; i < VECTOR; i++)
        REQUIRE(sums[i] == (double)i * suite.size + (double)suite.size * (suite.size - 1) / 2);
}

enum { LINKS = 20 };
static struct chain {
    mst_work *work; /* of the last link so far */
    int n, values[LINKS];
    _Atomic int done; /* stored (release) by the last callback, loaded (acquire) by callbacks_call */
} chain;

static void begin_link(void (*callback)(mst_status, void *)) {
    EXPECT_OK(
        mst_all_reduce(&chain.values[chain.n], 1, MST_I32, .work = &chain.work, .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_work_on_done(chain.work, callback, NULL));
}

/* Frees its own work and starts the next; calls that would block fail. */
static void next_link(mst_status status, void *arg) {
    mst_work *work = chain.work;
    bool done = false;
    int value = 0;
    (void)arg;
    REQUIRE(status == MST_OK);
    EXPECT_OK(mst_test(work, &done));
    REQUIRE(done);
    EXPECT_OK(mst_work_result(work));
    if (chain.n % 2)
        EXPECT_OK(mst_wait_all(&work, 1));
    else
        mst_work_free(work);
    expect_status(mst_recv(&value, 1, MST_I32, 0, .timeout_ms = TIMEOUT_MS), MST_ERR_STATE,
                  "a receive in a callback");
    expect_status(mst_destroy_process_group(NULL), MST_ERR_STATE, "mst_destroy_process_group in a callback");
    if (++chain.n < LINKS)
        begin_link(next_link);
    else
        atomic_store_explicit(&chain.done, 1, memory_order_release);
}

/*
 * Callbacks that call muster: each starts the next operation of the group. The first runs while others wait
 * for it.
 */
static void callbacks_call(void) {
    for (int i = 0; i < LINKS; i++) chain.values[i] = suite.me + i;
    chain.n = 0;
    atomic_store_explicit(&chain.done, 0, memory_order_relaxed);
    EXPECT_OK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    struct msi_wait late = {INT64_MAX, NULL};
    if (suite.me == 0) msi_wait_pause(&late, 5, "");
    begin_link(next_link);
    int64_t deadline = msi_deadline(TIMEOUT_MS);
    while (!atomic_load_explicit(&chain.done, memory_order_acquire)) {
        msi_wait_pause(&late, 1, "");
        REQUIRE(msi_now() < deadline);
    }
    for (int i = 0; i < LINKS; i++)
        REQUIRE(chain.values[i] == i * suite.size + suite.size * (suite.size - 1) / 2);
}

/* A wait that times out does not end the work. */
static void wait_twice(void) {
    int last = suite.size - 1, value = 0, sent = 41 + suite.size;
    mst_work *receive = NULL, *send = NULL;
    if (suite.me == 0) {
        EXPECT_OK(mst_irecv(&value, 1, MST_I32, last, .tag = 7, .work = &receive, .timeout_ms = TIMEOUT_MS));
        expect_status(mst_work_result(receive), MST_ERR_STATE, "the result of a work in flight");
        expect_status(mst_wait(receive, .timeout_ms = 30), MST_ERR_TIMEOUT,
                      "a wait for what was not sent yet");
    }
    EXPECT_OK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    if (suite.me == last) EXPECT_OK(mst_isend(&sent, 1, MST_I32, 0, .tag = 7, .work = &send));
    if (suite.me == 0) {
        EXPECT_OK(mst_wait(receive));
        REQUIRE(value == sent);
    }
    if (send) EXPECT_OK(mst_wait(send));
}

/* Works of all groups in one array, with gaps, are waited for by one call. */
static void wait_for_all(void) {
    static int64_t values[MANY];
    mst_work *works[MANY] = {NULL};
    bool done = false;
    for (int i = 0; i < MANY; i++) {
        const struct layout *at = &layouts[i % n_layouts];
        values[i] = i;
        if (at->me < 0 || i % 5 == 4) continue;
        EXPECT_OK(mst_all_reduce(&values[i], 1, MST_I64, .group = at->group, .work = &works[i],
                                 .timeout_ms = TIMEOUT_MS));
    }
    if (suite.me % 2) {
        int64_t deadline = msi_deadline(TIMEOUT_MS);
        while (!done) {
            EXPECT_OK(mst_test_all(works, MANY, &done));
            REQUIRE(msi_now() < deadline);
        }
        for (int i = 0; i < MANY; i++) REQUIRE(!works[i] || mst_work_result(works[i]) == MST_OK);
    }
    EXPECT_OK(mst_wait_all(works, MANY));
    for (int i = 0; i < MANY; i++) {
        const struct layout *at = &layouts[i % n_layouts];
        REQUIRE(!works[i]);
        REQUIRE(values[i] == (at->me < 0 || i % 5 == 4 ? i : (int64_t)i * at->n));
    }
    EXPECT_OK(mst_wait_all(works, MANY));
    EXPECT_OK(mst_wait_all((mst_work **)NULL, 0));
    done = false;
    EXPECT_OK(mst_test_all(works, MANY, &done));
    REQUIRE(done);
}

/* Rank 0 gets messages in the order in which they are sent, not in the order of the array. Until then a wait
 * times out or is cancelled, and releases nothing. */
static void wait_for_any(void) {
    enum { MESSAGES = 4 };
    int last = suite.size - 1, values[MESSAGES] = {0}, at = 77;
    mst_work *works[MESSAGES + 1] = {NULL}, *sent;
    bool done = true;
    if (suite.size == 1) return;
    for (int i = 0; i < MESSAGES && suite.me == 0; i++)
        EXPECT_OK(mst_irecv(&values[i], 1, MST_I32, last, .tag = 20 + i, .work = &works[i + 1],
                            .timeout_ms = TIMEOUT_MS));
    if (suite.me == 0) {
        mst_cancel *cancel;
        EXPECT_OK(mst_cancel_new(&cancel));
        mst_cancel_fire(cancel);
        expect_status(mst_wait_any(works, MESSAGES + 1, &at, .timeout_ms = 30), MST_ERR_TIMEOUT,
                      "mst_wait_any for what was not sent yet");
        expect_status(mst_wait_all(works, MESSAGES + 1, .timeout_ms = 30), MST_ERR_TIMEOUT,
                      "mst_wait_all for what was not sent yet");
        expect_status(mst_wait_any(works, MESSAGES + 1, &at, .cancel = cancel), MST_ERR_CANCELLED,
                      "mst_wait_any that was cancelled");
        expect_status(mst_wait_all(works, MESSAGES + 1, .cancel = cancel), MST_ERR_CANCELLED,
                      "mst_wait_all that was cancelled");
        mst_cancel_free(cancel);
        EXPECT_OK(mst_test_all(works, MESSAGES + 1, &done));
        REQUIRE(!done && at == 77);
    }
    EXPECT_OK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    for (int i = MESSAGES - 1; i > 0; i--) {
        int value = 100 + i;
        if (suite.me == last)
            EXPECT_OK(mst_send(&value, 1, MST_I32, 0, .tag = 20 + i, .timeout_ms = TIMEOUT_MS));
        if (suite.me == 0) {
            EXPECT_OK(mst_wait_any(works, MESSAGES + 1, &at));
            REQUIRE(at == i + 1 && !works[at] && values[i] == value);
        }
        EXPECT_OK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    }
    if (suite.me == last)
        EXPECT_OK(mst_isend(&last, 1, MST_I32, 0, .tag = 20, .work = &sent, .timeout_ms = TIMEOUT_MS));
    if (suite.me == last) EXPECT_OK(mst_wait_all(&sent, 1));
    if (suite.me == 0) EXPECT_OK(mst_wait_all(works, MESSAGES + 1));
    REQUIRE(suite.me > 0 || values[0] == last);
    EXPECT_OK(mst_wait_any(works, MESSAGES + 1, &at));
    REQUIRE(at == -1);
}

/* With .deterministic the bits depend only on the inputs, not on the count and the call. */
static void deterministic(void) {
    static float whole[VECTOR], part[VECTOR], shares[VECTOR];
    const int counts[] = {1, 17, VECTOR / 2};
    uint64_t state = mix(suite.seed, 4242 + (uint64_t)suite.me);
    float inputs[VECTOR];
    for (int i = 0; i < VECTOR; i++)
        inputs[i] = (float)draw(&state, 1 << 30) / (float)(1 + draw(&state, 1000));
    EXPECT_OK(mst_all_reduce(whole, VECTOR, MST_F32, .in = inputs, .deterministic = true,
                             .timeout_ms = TIMEOUT_MS));
    for (int c = 0; c < 3; c++) {
        EXPECT_OK(mst_all_reduce(part, (size_t)counts[c], MST_F32, .in = inputs, .deterministic = true,
                                 .timeout_ms = TIMEOUT_MS));
        REQUIRE(!memcmp(part, whole, (size_t)counts[c] * sizeof *part));
    }
    EXPECT_OK(mst_inference_all_reduce(part, VECTOR, MST_F32, .in = inputs, .deterministic = true,
                                       .timeout_ms = TIMEOUT_MS));
    REQUIRE(!memcmp(part, whole, sizeof whole));
    size_t share = VECTOR / (size_t)suite.size;
    EXPECT_OK(mst_reduce_scatter_tensor(shares, inputs, share, MST_F32, .deterministic = true,
                                        .timeout_ms = TIMEOUT_MS));
    REQUIRE(!memcmp(shares, whole + (size_t)suite.me * share, share * sizeof *shares));
}

static void *use_group(void *group) {
    for (int round = 0; round < ROUNDS; round++) {
        int64_t value = suite.me + round;
        EXPECT_OK(mst_all_reduce(&value, 1, MST_I64, .group = group, .timeout_ms = TIMEOUT_MS));
        REQUIRE(value == (int64_t)suite.size * (suite.size - 1) / 2 + (int64_t)suite.size * round);
    }
    return NULL;
}

/* Threads use different groups at the same time. */
static void threads(void) {
    enum { THREADS = 3 };
    pthread_t ids[THREADS];
    mst_group *groups[THREADS];
    for (int i = 0; i < THREADS; i++) EXPECT_OK(mst_new_group(layouts[0].ranks, suite.size, &groups[i]));
    for (int i = 0; i < THREADS; i++) REQUIRE(!pthread_create(&ids[i], NULL, use_group, groups[i]));
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < THREADS; i++) EXPECT_OK(mst_destroy_process_group(groups[i]));
}

/* Blocking calls while works of the same group are in flight. */
static void mixed(void) {
    int32_t first = suite.me, second[RANKS_MAX], third = suite.me == 0 ? 99 : 0;
    mst_work *works[2];
    EXPECT_OK(mst_all_reduce(&first, 1, MST_I32, .op = MST_MAX, .work = &works[0], .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_broadcast(&third, 1, MST_I32, .work = &works[1], .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_all_gather_into_tensor(second, &suite.me, 1, MST_I32, .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_wait(works[1]));
    EXPECT_OK(mst_wait(works[0]));
    REQUIRE(first == suite.size - 1 && third == 99);
    for (int r = 0; r < suite.size; r++) REQUIRE(second[r] == r);
}

static void barriers(void) {
    for (int i = 0; i < n_layouts; i++) {
        if (layouts[i].me < 0) continue;
        EXPECT_OK(mst_barrier(.group = layouts[i].group, .timeout_ms = TIMEOUT_MS));
        EXPECT_OK(mst_monitored_barrier(.group = layouts[i].group, .timeout_ms = TIMEOUT_MS));
        EXPECT_OK(mst_monitored_barrier(.group = layouts[i].group, .timeout_ms = TIMEOUT_MS,
                                        .wait_all_ranks = true));
    }
}

static void memory(void) {
    const size_t sizes[] = {1, 4096, 100000};
    for (int i = 0; i < 3; i++) {
        void *block = NULL;
        EXPECT_OK(mst_alloc(sizes[i], &block));
        REQUIRE((uintptr_t)block % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
        for (size_t b = 0; b < sizes[i]; b++) REQUIRE(((char *)block)[b] == 0);
        memset(block, 1, sizes[i]);
        mst_free(block);
    }
    mst_free(NULL);
    mst_work_free(NULL);
}

static void names(void) {
    REQUIRE(mst_dtype_size(MST_BF16) == 2 && mst_dtype_size((mst_dtype)0) == 0);
    REQUIRE(mst_dtype_size(MST_DTYPE_COUNT) == 0 && mst_dtype_size((mst_dtype)1000) == 0);
    REQUIRE(!strcmp(mst_dtype_name(MST_F8E4M3), "f8e4m3") && !strcmp(mst_dtype_name((mst_dtype)99), "?"));
    REQUIRE(!strcmp(mst_op_name(MST_PREMUL_SUM), "PREMUL_SUM") && !strcmp(mst_op_name(MST_OP_COUNT), "?"));
    mst_has_reduce_scatter_tensor();
    mst_has_all_gather_into_tensor();
    mst_has_all_reduce_coalesced();
}

/* A rank is early with a block that may be read in place, after a call with blocks of different lengths. */
static void early_after_uneven(void) {
    enum { MOST = 64, BLOCK = 12 << 10 };
    int n = mst_get_world_size(NULL), me = mst_get_rank(NULL), ranks[MOST];
    size_t counts[MOST];
    void *outs[MOST], *in = NULL, *out = NULL;
    mst_group *group;
    if (n > MOST) return;
    EXPECT_OK(mst_alloc(BLOCK, &in));
    EXPECT_OK(mst_alloc((size_t)n * BLOCK, &out));
    for (int r = 0; r < n; r++) {
        ranks[r] = r;
        counts[r] = (size_t)r + 1;
        outs[r] = (char *)out + (size_t)r * BLOCK;
    }
    memset(in, me + 1, BLOCK);
    EXPECT_OK(mst_new_group(ranks, n, &group));
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(mst_all_gather(outs, in, 0, MST_U8, .counts = counts, .group = group));
        if (me != round % n) usleep(20000); /* late */
        EXPECT_OK(
            mst_all_gather_into_tensor(out, in, BLOCK, MST_U8, .group = group, .timeout_ms = TIMEOUT_MS));
        for (int r = 0; r < n; r++) REQUIRE(((char *)out)[(size_t)(r + 1) * BLOCK - 1] == r + 1);
        EXPECT_OK(mst_barrier(.group = group, .timeout_ms = TIMEOUT_MS));
    }
    EXPECT_OK(mst_destroy_process_group(group));
    mst_free(in);
    mst_free(out);
}

/* Some ranks call all_to_all in place and others do not. Each block has several rounds. */
static void places(void) {
    enum { MOST = 8, COUNT = 40000, ROUNDS_OF_EACH = 6 };
    size_t n = (size_t)suite.size, me = (size_t)suite.me;
    if (n > MOST) return;
    int32_t *out = malloc(n * COUNT * sizeof *out), *in = malloc(n * COUNT * sizeof *in);
    REQUIRE(out && in);
    for (size_t round = 0; round < ROUNDS_OF_EACH; round++) {
        int32_t *from = (me + round) % 2 ? in : out;
        for (size_t i = 0; i < n * COUNT; i++) from[i] = (int32_t)(me * n * COUNT + i);
        EXPECT_OK(mst_all_to_all_single(out, from, COUNT, MST_I32, .timeout_ms = TIMEOUT_MS));
        for (size_t i = 0; i < n * COUNT; i++)
            REQUIRE(out[i] == (int32_t)(i / COUNT * n * COUNT + me * COUNT + i % COUNT));
    }
    free(in);
    free(out);
}

static const struct {
    const char *name;
    void (*body)(void);
} scenarios[] = {{"names", names},
                 {"memory", memory},
                 {"early_after_uneven", early_after_uneven},
                 {"places", places},
                 {"barriers", barriers},
                 {"mixed", mixed},
                 {"many", many_works},
                 {"freed", freed_works},
                 {"callbacks", callbacks_call},
                 {"wait_twice", wait_twice},
                 {"wait_all", wait_for_all},
                 {"wait_any", wait_for_any},
                 {"threads", threads},
                 {"deterministic", deterministic},
                 {"quantized", quantized}};

bool is_scenario(const char *name) {
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(scenarios[i].name, name)) return true;
    return false;
}

void run_scenarios(void) {
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (suite.only && strcmp(suite.only, scenarios[i].name)) continue;
        if (suite.verbose) fprintf(stderr, "scenario %s\n", scenarios[i].name);
        scenarios[i].body();
    }
}
