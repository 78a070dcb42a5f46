/* cases.c - chooses a case, starts it, finishes it, checks it, and reports errors. */
#include "suite.h"

#include "os/clock.h"

#include <sched.h>
#include <stdarg.h>

static struct run *runs[BATCH_MAX];
static int n_runs;
static int
    in_batch; /* also counts cases of groups without this rank: all ranks end a batch at the same case */

static const char *const how_names[] = {"blocking", "non-blocking (mst_wait)", "non-blocking (mst_test)",
                                        "non-blocking (callback)"};
static const char *const memory_names[] = {"plain", "misaligned", "mst_alloc"};

void fail_case(const struct run *run, const char *format, ...) {
    const struct shape *s = &run->shape;
    char text[512], group[4 * RANKS_MAX] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (int r = 0; r < run->n; r++)
        snprintf(group + strlen(group), sizeof group - strlen(group), "%s%d", r ? "," : "",
                 run->layout->ranks[r]);
    fprintf(stderr,
            "collective: FAILED on rank %d, case %llu: %s %s %s, count %zu%s, root %d, group g%d of ranks %s "
            "(group rank %d), %s, %s buffers, %s%s: %s\n"
            "collective: again with --seed %llu --case %llu\n",
            suite.me, (unsigned long long)s->id, s->operation->name, mst_dtype_name(s->dtype),
            s->operation->traits & REDUCES ? mst_op_name(s->op) : "-", s->count, s->uneven ? " uneven" : "",
            s->root, s->layout, group, run->me, how_names[s->how], memory_names[s->memory],
            s->in_place ? "in place" : "out of place", s->rough ? ", rough numbers" : "", text,
            (unsigned long long)suite.seed, (unsigned long long)s->id);
    exit(1);
}

void expect_status(mst_status got, mst_status wanted, const char *what) {
    if (got == wanted) return;
    fprintf(stderr, "collective: FAILED on rank %d: %s: %s instead of %s: %s\ncollective: seed %llu\n",
            suite.me, what, mst_status_name(got), mst_status_name(wanted), mst_error(),
            (unsigned long long)suite.seed);
    exit(1);
}

struct shape shape_of(uint64_t id, const struct operation *operation, mst_dtype dtype, mst_op op) {
    static const size_t counts[] = {0, 1, 3, 17, 17, 100, 1024};
    static const double factors[] = {0, 0.5, 3, -2};
    uint64_t state = mix(suite.seed, id);
    if (operation->traits & SCANS && op == MST_AVG) op = MST_SUM;
    struct shape shape = {.operation = operation, .id = id, .dtype = dtype, .op = op};
    shape.count = counts[draw(&state, sizeof counts / sizeof *counts)];
    shape.layout = draw(&state, 2) ? 0 : (int)draw(&state, (uint64_t)n_layouts);
    shape.root = (int)draw(&state, (uint64_t)layouts[shape.layout].n);
    shape.how = (enum how)draw(&state, HOWS);
    shape.memory = (enum memory)draw(&state, MEMORIES);
    shape.in_place = draw(&state, 2) && operation->traits & IN_PLACE;
    shape.uneven = draw(&state, 2) && operation->traits & UNEVEN;
    shape.factor = factors[draw(&state, 4)];
    shape.rough = draw(&state, 4) == 0 && operation->traits & REDUCES && op == MST_SUM && is_float(dtype);
    shape.last = draw(&state, 4) == 0;
    if (operation->traits & BLOCKS_ONLY) shape.how = BLOCKING;
    return shape;
}

static void count_callback(mst_status status, void *arg) {
    struct run *run = arg;
    if (status != MST_OK) fail_case(run, "the callback got %s", mst_status_name(status));
    atomic_fetch_add_explicit(&run->called, 1, memory_order_release); /* acquired by finish_one */
}

static void begin(struct run *run) {
    const struct shape *shape = &run->shape;
    unsigned traits = shape->operation->traits;
    mst_call call = {
        .size = sizeof call, .site = MST_HERE, .group = run->layout->group, .timeout_ms = TIMEOUT_MS};
    if (traits & ROOTED) call.root = shape->root;
    if (traits & REDUCES) {
        call.op = shape->op;
        call.factor = shape->op == MST_PREMUL_SUM ? shape->factor : 0;
    }
    if (shape->how != BLOCKING && !(traits & (OWN_WORKS | BLOCKS_ONLY))) {
        call.work = &run->works[0];
        run->n_works = 1;
    }
    mst_status st = shape->operation->call(run, &call);
    if (st != MST_OK) fail_case(run, "%s: %s", mst_status_name(st), mst_error());
    for (int i = 0; i < run->n_works; i++) {
        if (!run->works[i]) fail_case(run, "the call returned no work");
        if (shape->how == CALLED_BACK) EXPECT_OK(mst_work_on_done(run->works[i], count_callback, run));
    }
}

static void test_until_done(struct run *run, mst_work *work) {
    int64_t deadline = msi_deadline(TIMEOUT_MS);
    for (bool done = false; !done;) {
        mst_status st = mst_test(work, &done);
        if (st != MST_OK) fail_case(run, "mst_test: %s: %s", mst_status_name(st), mst_error());
        if (msi_now() > deadline) fail_case(run, "mst_test is still false after %d ms", TIMEOUT_MS);
        if (!done) sched_yield();
    }
    mst_status st = mst_work_result(work);
    if (st != MST_OK) fail_case(run, "mst_work_result: %s: %s", mst_status_name(st), mst_error());
}

static void finish_works(struct run *run) {
    int64_t deadline = msi_deadline(TIMEOUT_MS);
    for (int i = run->n_works - 1; i >= 0; i--) {
        if (run->shape.how == TESTED) test_until_done(run, run->works[i]);
        mst_status st = mst_wait(run->works[i]);
        if (st != MST_OK) fail_case(run, "mst_wait: %s: %s", mst_status_name(st), mst_error());
    }
    while (run->shape.how == CALLED_BACK &&
           atomic_load_explicit(&run->called, memory_order_acquire) < run->n_works) {
        if (msi_now() > deadline) fail_case(run, "mst_wait returned, but the callback was not called");
        sched_yield();
    }
}

static void check_run(struct run *run) {
    if (run->shape.operation->settle) run->shape.operation->settle(run);
    check_buffers(run);
    int called = atomic_load_explicit(&run->called, memory_order_relaxed);
    if (run->shape.how == CALLED_BACK && called != run->n_works)
        fail_case(run, "%d callbacks for %d works", called, run->n_works);
}

/* Results that depend on the order of reduction must be the same on all ranks. */
static void check_alike(const struct run *run) {
    uint64_t sums[RANKS_MAX] = {0}, sum = 0;
    for (int b = 0; b < run->n_outs; b++)
        for (size_t i = 0; i < run->outs[b].bytes; i++) sum = mix(sum, (unsigned char)run->outs[b].data[i]);
    mst_status st = mst_all_gather_into_tensor(sums, &sum, 1, MST_U64, .group = run->layout->group,
                                               .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) fail_case(run, "comparing: %s: %s", mst_status_name(st), mst_error());
    for (int r = 0; r < run->n; r++)
        if (sums[r] != sum) fail_case(run, "the bits of group rank %d differ from those of this rank", r);
}

void end_batch(void) {
    uint64_t state = mix(suite.seed + suite.cases, (uint64_t)suite.me); /* a different order on each rank */
    struct run *order[BATCH_MAX];
    memcpy(order, runs, sizeof order);
    for (int i = n_runs - 1; i > 0; i--) {
        int j = (int)draw(&state, (uint64_t)i + 1);
        struct run *kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < n_runs; i++) finish_works(order[i]);
    for (int i = 0; i < n_runs; i++) check_run(runs[i]);
    for (int i = 0; i < n_runs; i++)
        if (runs[i]->shape.rough && runs[i]->shape.operation->traits & ALIKE) check_alike(runs[i]);
    for (int i = 0; i < n_runs; i++) {
        free_buffers(runs[i]);
        free(runs[i]);
    }
    if (suite.device) device_end_batch();
    n_runs = in_batch = 0;
}

static bool is_wanted(const struct shape *shape) {
    if (suite.only && strcmp(suite.only, shape->operation->name)) return false;
    if (suite.device && shape->operation->traits & TAGGED) return false;
    if (suite.dtype && strcmp(suite.dtype, mst_dtype_name(shape->dtype))) return false;
    if (suite.only_case >= 0 && (uint64_t)suite.only_case != shape->id) return false;
    return shape->count <= suite.max_count;
}

void run_case(const struct shape *shape) {
    const struct layout *layout = &layouts[shape->layout];
    if (!is_wanted(shape)) return;
    suite.cases++;
    if (layout->me >= 0) {
        struct run *run = calloc(1, sizeof *run);
        if (!run) abort();
        run->shape = *shape;
        run->layout = layout;
        run->me = layout->me;
        run->n = run->sources = layout->n;
        run->element = mst_dtype_size(shape->dtype);
        shape->operation->plan(run);
        place_buffers(run);
        if (suite.verbose)
            fprintf(stderr, "case %llu: %s %s %s count %zu g%d %s\n", (unsigned long long)shape->id,
                    shape->operation->name, mst_dtype_name(shape->dtype), mst_op_name(shape->op),
                    shape->count, shape->layout, how_names[shape->how]);
        begin(run);
        suite.calls++;
        runs[n_runs++] = run;
    }
    if (shape->last || ++in_batch == BATCH_MAX) end_batch();
}
