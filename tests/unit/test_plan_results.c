/*
 * test_plan_results.c - every planner gives the right result for every number of ranks and any order of its
 * steps.
 */
#include "plan_sim.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { EVERY_SIZE = 20, LARGEST = 128 };
#else
enum { EVERY_SIZE = 64, LARGEST = 1024 };
#endif

static uint64_t choices = 1;
static size_t triples, runs;

static size_t choose(size_t n) {
    return sim_below(&choices, n);
}

/* Host maps: equal, uneven, round-robin, random. */
static void choose_hosts(struct msi_hosts *hosts, int *of, int size) {
    *hosts = (struct msi_hosts){1, size, NULL};
    if (size < 2) return;
    int n = 2 + (int)choose((size_t)(size > 8 ? 6 : size - 1)), shape = (int)choose(4);
    int count[16] = {0};
    if (n > size) n = size;
    for (int r = 0; r < size; r++) {
        of[r] = shape == 0 ? (int)((int64_t)r * n / size) : shape == 1 ? r % n : (int)choose((size_t)n);
        if (shape == 2) of[r] = r < size / 2 ? 0 : 1 + (r - size / 2) % (n - 1);
    }
    for (int r = 0; r < n; r++) of[r] = shape == 3 ? r : of[r]; /* every host has a rank */
    *hosts = (struct msi_hosts){.n = n, .of = of};
    for (int r = 0; r < size; r++) count[of[r]]++;
    for (int h = 0; h < n; h++) {
        if (count[h] == 0) *hosts = (struct msi_hosts){1, size, NULL};
        if (hosts->n > 1 && count[h] > hosts->largest) hosts->largest = count[h];
    }
}

static bool has_root(enum msi_kind kind) {
    return kind == MSI_KIND_REDUCE || kind == MSI_KIND_BROADCAST || kind == MSI_KIND_GATHER ||
           kind == MSI_KIND_SCATTER;
}

static bool can_differ(enum msi_kind kind) {
    return kind == MSI_KIND_ALL_GATHER || kind == MSI_KIND_GATHER || kind == MSI_KIND_SCATTER ||
           kind == MSI_KIND_REDUCE_SCATTER;
}

static void run(struct sim *sim, const struct msi_planner *planner, bool results) {
    const struct msi_request *q = &sim->request;
    uint64_t seed = sim->seed;
    snprintf(sim->what, sizeof sim->what,
             "%s:%s size %d root %d count %zu%s chunk %zu%s hosts %d%s seed %#llx", msi_coll_name(q->kind),
             planner->name, q->size, q->root, q->count, q->counts || sim->splits ? " (uneven)" : "", q->chunk,
             q->in_place ? " in place" : "", q->hosts.n, sim->eager ? " eager" : "",
             (unsigned long long)seed);
    sim_plan(sim, planner);
    if (!sim->failed) sim_go(sim);
    sim_check(sim, results);
    runs++;
}

/* Counts that do not divide evenly. */
static size_t odd_count(int size, size_t which) {
    const size_t n = (size_t)size, counts[] = {0, 1, 3, n - 1, n + 1, 2 * n, 37, 101};
    return counts[which % COUNT_OF(counts)];
}

static void vary(struct sim *sim, const struct msi_planner *planner, size_t *lists, int *of, size_t which) {
    struct msi_request *q = &sim->request;
    size_t n = (size_t)q->size, chunks[] = {0, 0, 1, 2, 5, 16};
    bool shares = can_differ(q->kind), blocks = q->kind == MSI_KIND_ALL_TO_ALL;
    q->count = odd_count(q->size, which);
    if ((shares && n > 12) || blocks) q->count %= n > 64 ? 3 : 11;
    q->chunk = chunks[choose(COUNT_OF(chunks))];
    size_t most = shares || blocks ? n * q->count : q->count;
    if (n > 24 && q->chunk && q->chunk < most / 8) q->chunk = most / 8 + 1;
    q->in_place = !blocks && choose(2);
    q->radix = choose(4) ? 0 : 2 + (int)choose(4);
    q->counts = NULL;
    sim->splits = NULL;
    bool uneven = choose(2);
    if (shares && uneven) {
        for (size_t r = 0; r < n; r++) lists[r] = choose(4) ? choose(2 * q->count + 2) : 0;
        q->counts = lists;
    }
    if (blocks && uneven && !planner->unsupported_reason) {
        for (size_t i = 0; i < n * n; i++) lists[i] = choose(4) ? choose(q->count + 2) : 0;
        sim->splits = lists;
    }
    choose_hosts(&q->hosts, of, q->size);
    q->quantize = !strcmp(planner->name, "quantized");
    if (q->quantize && n <= 16 && choose(2)) q->count = q->count * 7 + choose(200); /* several blocks each */
    sim->seed = sim_random(&choices);
    sim->eager = choose(3) == 0;
}

/* One planner and size: all or some roots, several counts each. */
static void check_size(struct sim *sim, const struct msi_planner *planner, int size, int roots,
                       size_t rounds) {
    size_t *lists = malloc((size_t)size * (size_t)size * sizeof *lists);
    int *of = malloc((size_t)size * sizeof *of);
    assert_true(lists && of);
    for (int i = 0; i < roots; i++) {
        size_t first = choose(8), before = runs;
        for (size_t k = 0; k < rounds; k++) {
            sim->request = (struct msi_request){.kind = planner->kind, .size = size};
            if (has_root(planner->kind)) sim->request.root = roots == size ? i : (int)choose((size_t)size);
            vary(sim, planner, lists, of, first + k);
            sim->op = planner->rank_ordered ? SIM_ORDERED : SIM_SUM;
            if (size > 1 && msi_planner_unsupported_reason(planner, &sim->request)) {
                if (planner->kind == MSI_KIND_REDUCE_SCATTER && sim->request.hosts.n > 1)
                    break; /* never supports this size */
                continue;
            }
            run(sim, planner, true);
            sim_end_run(sim);
            assert_false(sim->failed);
        }
        triples += runs > before;
    }
    free(lists);
    free(of);
}

static void every_size(void **state) {
    (void)state;
    struct sim sim = {0};
    int64_t start = msi_now();
    for (size_t p = 0; p < msi_planner_count; p++)
        for (int size = 1; size <= EVERY_SIZE; size++) {
            bool root = has_root(msi_planners[p].kind);
            check_size(&sim, &msi_planners[p], size, !root ? 1 : size <= 20 ? size : 6, root ? 2 : 6);
        }
    sim_free(&sim);
    print_message("%zu (algorithm, size, root) triples up to %d ranks, %zu runs, %lld ms\n", triples,
                  EVERY_SIZE, runs, (long long)ms_since(start));
}

/* Does it send n messages per rank, so that all plans together grow quadratically? */
static bool has_square(const struct msi_planner *planner) {
    static const char *const frugal[] = {"doubling",      "halving", "bruck",
                                         "dissemination", "tree",    "wide_tree"};
    if (planner->kind == MSI_KIND_BROADCAST || planner->kind == MSI_KIND_GATHER ||
        planner->kind == MSI_KIND_SCATTER)
        return false;
    for (size_t i = 0; i < COUNT_OF(frugal); i++)
        if (!strcmp(planner->name, frugal[i])) return false;
    return true;
}

static void large_sizes(void **state) {
    (void)state;
    static const int sizes[] = {65, 100, 127, 128, 200, 257, 509, 512, 1000, 1024};
    struct sim sim = {0};
    int64_t start = msi_now();
    for (size_t p = 0; p < msi_planner_count; p++)
        for (size_t i = 0; i < COUNT_OF(sizes) && sizes[i] <= LARGEST; i++) {
            if (has_square(&msi_planners[p]) && sizes[i] > 260) continue;
            check_size(&sim, &msi_planners[p], sizes[i], has_root(msi_planners[p].kind) ? 2 : 1, 1);
        }
    sim_free(&sim);
    print_message("%zu (algorithm, size, root) triples in all, up to %d ranks, %zu runs, %lld ms\n", triples,
                  LARGEST, runs, (long long)ms_since(start));
}

/* All ranks get the same bits, also for an operation that depends on the order. */
static void all_ranks_get_the_same_bits(void **state) {
    (void)state;
    struct sim sim = {0};
    int of[64];
    size_t unused[64];
    for (size_t p = 0; p < msi_planner_count; p++)
        for (int size = 2; size <= 40 && msi_planners[p].kind == MSI_KIND_ALL_REDUCE; size++) {
            sim.request = (struct msi_request){.kind = MSI_KIND_ALL_REDUCE, .size = size};
            vary(&sim, &msi_planners[p], unused, of, (size_t)size);
            sim.op = SIM_ORDERED;
            if (msi_planner_unsupported_reason(&msi_planners[p], &sim.request)) continue;
            run(&sim, &msi_planners[p], false);
            for (int r = 1; r < size && !sim.failed; r++)
                for (size_t i = 0; i < sim.request.count; i++)
                    if (sim.ranks[r].memory[MSI_OUT][i] != sim.ranks[0].memory[MSI_OUT][i]) {
                        sim_fault(&sim, "ranks 0 and %d differ at %zu", r, i);
                        break;
                    }
            sim_end_run(&sim);
            assert_false(sim.failed);
        }
    sim_free(&sim);
}

/* No rank leaves the barrier before the last rank has entered. */
static void a_barrier_waits_for_all(void **state) {
    (void)state;
    struct sim sim = {0};
    const struct msi_planner *planner = msi_planner_find(MSI_KIND_BARRIER, msi_cstr("dissemination"));
    for (int size = 2; size <= 40; size++)
        for (int late = 0; late < size; late++) {
            sim.request =
                (struct msi_request){.kind = MSI_KIND_BARRIER, .size = size, .hosts = {1, size, NULL}};
            sim.eager = late % 2;
            sim.seed = sim_random(&choices);
            snprintf(sim.what, sizeof sim.what, "barrier of %d, rank %d late", size, late);
            sim_plan(&sim, planner);
            sim.ranks[late].held = true;
            sim_go(&sim);
            for (int r = 0; r < size; r++)
                if (!sim.ranks[r].left) sim_fault(&sim, "rank %d did not wait", r);
            sim.ranks[late].held = false;
            for (uint32_t i = 0; i < sim.ranks[late].plan.n; i++) sim_release(&sim, late, i, 0);
            while (sim.n_events && !sim.failed) sim_step(&sim);
            sim_check(&sim, false);
            sim_end_run(&sim);
            assert_false(sim.failed);
        }
    sim_free(&sim);
}

/* Makes plans repeatedly in the same memory. */
static void making_it_again_allocates_nothing(void **state) {
    (void)state;
    struct msi_plan plan = {0};
    int of[24];
    for (int r = 0; r < 24; r++) of[r] = r / 6;
    for (size_t p = 0; p < msi_planner_count; p++) {
        struct msi_request request = {
            .kind = msi_planners[p].kind, .size = 24, .rank = 5, .count = 480, .chunk = 7};
        request.hosts = (struct msi_hosts){4, 6, of};
        if (msi_planner_unsupported_reason(&msi_planners[p], &request)) continue;
        assert_ok(msi_plan_make(&plan, &msi_planners[p], &request));
        uint32_t steps = plan.n, edges = plan.n_edges;
        struct msi_plan before = plan;
        for (int i = 0; i < 3; i++) assert_ok(msi_plan_make(&plan, &msi_planners[p], &request));
        assert_int_equal(plan.n, steps);
        assert_int_equal(plan.n_edges, edges);
        assert_ptr_equal(plan.steps, before.steps);
        assert_ptr_equal(plan.after, before.after);
        assert_ptr_equal(plan.edges, before.edges);
        assert_ptr_equal(plan.sources, before.sources);
        assert_memory_equal(plan.hazards.cap, before.hazards.cap, sizeof plan.hazards.cap);
        assert_int_equal(plan.hazards.readers_cap, before.hazards.readers_cap);
    }
    msi_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(large_sizes),
        cmocka_unit_test(all_ranks_get_the_same_bits),
        cmocka_unit_test(a_barrier_waits_for_all),
        cmocka_unit_test(making_it_again_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
