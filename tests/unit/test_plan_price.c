/* test_plan_price.c - the formulas agree with the plans, and the selection uses the formulas. */
#include "plan_sim.h"

#include "coll/cost/select.h"

#include <math.h>

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Bytes of the busiest rank for elements of these sizes. */
static double busiest(const struct sim *sim, unsigned raw, unsigned acc) {
    uint64_t most = 0;
    for (int r = 0; r < sim->request.size; r++) {
        const struct sim_rank *k = &sim->ranks[r];
        most = max_u64(most, k->sent[0] * raw + k->sent[1] * acc);
        most = max_u64(most, k->received[0] * raw + k->received[1] * acc);
    }
    return (double)most;
}

static double busiest_host(const struct sim *sim, unsigned raw, unsigned acc) {
    uint64_t leave[64] = {0}, enter[64] = {0}, most = 0;
    for (int r = 0; r < sim->request.size; r++) {
        const struct sim_rank *k = &sim->ranks[r];
        leave[sim->request.hosts.of[r]] += k->leaves[0] * raw + k->leaves[1] * acc;
        enter[sim->request.hosts.of[r]] += k->enters[0] * raw + k->enters[1] * acc;
    }
    for (int h = 0; h < sim->request.hosts.n; h++) most = max_u64(most, max_u64(leave[h], enter[h]));
    return (double)most;
}

static void run(struct sim *sim, const struct msi_planner *planner) {
    const struct msi_request *q = &sim->request;
    snprintf(sim->what, sizeof sim->what, "%s:%s size %d root %d count %zu chunk %zu hosts %d",
             msi_coll_name(q->kind), planner->name, q->size, q->root, q->count, q->chunk, q->hosts.n);
    sim->op = SIM_SUM;
    sim_plan(sim, planner);
    sim_go(sim);
    sim_check(sim, false);
}

#define must_equal(sim, name, built, formula)                                                                \
    do {                                                                                                     \
        if (fabs((double)(built) - (double)(formula)) > 1e-6 * (1 + (double)(built)))                        \
            sim_fault(sim, "%s: plans %g, formula %g", name, (double)(built), (double)(formula));            \
    } while (0)

static void compare(struct sim *sim, const struct msi_formula *f) {
    uint64_t messages = 0, combined = 0, copied = 0;
    for (int r = 0; r < sim->request.size; r++) {
        const struct sim_rank *k = &sim->ranks[r];
        messages = max_u64(messages, max_u64(k->sends, k->receives));
        combined = max_u64(combined, k->combined);
        copied = max_u64(copied, k->copied);
    }
    if (!sim->request.chunk) must_equal(sim, "rounds", sim->depth, f->rounds);
    must_equal(sim, "messages", messages, f->messages);
    must_equal(sim, "elements", busiest(sim, 1, 1), f->raw + f->acc);
    must_equal(sim, "bytes", busiest(sim, 2, 4), 2 * f->raw + 4 * f->acc);
    must_equal(sim, "combined", combined, f->combined);
    must_equal(sim, "copied", copied, f->copied);
}

/* A count that every planner cuts into equal blocks. */
static size_t even_count(enum msi_kind kind, int size) {
    int p = 1 << msi_log2_floor(size);
    bool whole = kind == MSI_KIND_ALL_REDUCE || kind == MSI_KIND_REDUCE || kind == MSI_KIND_BROADCAST ||
                 kind == MSI_KIND_SCAN || kind == MSI_KIND_EXSCAN;
    return kind == MSI_KIND_BARRIER ? 0 : whole ? (size_t)size * (size_t)p * 2 : 6;
}

static void formulas_match_plans(void **state) {
    (void)state;
    struct sim sim = {0};
    int checked = 0, wrong = 0;
    for (size_t p = 0; p < msi_planner_count; p++)
        for (int size = 2; size <= 40; size++) {
            const struct msi_planner *planner = &msi_planners[p];
            struct msi_formula formula;
            sim.request = (struct msi_request){.kind = planner->kind, .size = size, .hosts = {1, size, NULL}};
            sim.request.count = even_count(planner->kind, size);
            if (msi_planner_unsupported_reason(planner, &sim.request)) continue;
            msi_planner_estimate(planner, &sim.request, &formula);
            run(&sim, planner);
            compare(&sim, &formula);
            sim_end_run(&sim);
            wrong += sim.failed;
            checked++;
        }
    sim_free(&sim);
    print_message("%d formulas compared with plans\n", checked);
    assert_int_equal(wrong, 0);
}

/* The maximum number of remote messages of a rank. */
static double busiest_caller(const struct sim *sim) {
    uint64_t most = 0;
    for (int r = 0; r < sim->request.size; r++)
        most = max_u64(most, max_u64(sim->ranks[r].far_sends, sim->ranks[r].far_receives));
    return (double)most;
}

/* The ratio of the larger to the smaller. */
static double apart(double a, double b) {
    return a == b ? 1 : a > b ? a / b : b / a;
}

/* Hosts of equal size; consecutive ranks share a host. */
static void formulas_know_hosts(void **state) {
    (void)state;
    static const int shapes[][2] = {{2, 2}, {2, 4}, {4, 2}, {4, 4}, {3, 4}, {2, 8}, {3, 3}, {5, 3}};
    struct sim sim = {0};
    int wrong = 0, of[64];
    for (size_t p = 0; p < msi_planner_count; p++)
        for (size_t i = 0; i < COUNT_OF(shapes); i++) {
            const struct msi_planner *planner = &msi_planners[p];
            struct msi_formula f;
            enum { FAR = 8 }; /* how many times as long a message between hosts takes */
            int hosts = shapes[i][0], local = shapes[i][1];
            for (int r = 0; r < hosts * local; r++) of[r] = r / local;
            sim.request = (struct msi_request){
                .kind = planner->kind, .size = hosts * local, .hosts = {hosts, local, of}};
            sim.request.count = even_count(planner->kind, hosts * local);
            if (msi_planner_unsupported_reason(planner, &sim.request)) continue;
            msi_planner_estimate(planner, &sim.request, &f);
            sim.far = FAR;
            sim.eager = true; /* as connections are */
            run(&sim, planner);
            bool power = !(hosts & (hosts - 1)) && !(local & (local - 1));
            double built = busiest_host(&sim, 2, 4), formula = 2 * f.host_raw + 4 * f.host_acc;
            /* Exact if all hosts and rounds are alike, else close enough for the selection. */
            double slack = power || !strcmp(planner->name, "hierarchical") ? 1.4 : 2.5;
            if (apart(formula, built) > slack)
                sim_fault(&sim, "%dx%d: %g leave a host, formula %g", hosts, local, built, formula);
            built = busiest_caller(&sim);
            if (apart(f.remote_messages, built) > slack)
                sim_fault(&sim, "%dx%d: %g messages leave, formula %g", hosts, local, built,
                          f.remote_messages);
            formula = f.rounds + (FAR - 1) * f.remote_rounds;
            if (apart(formula, sim.depth) > slack)
                sim_fault(&sim, "%dx%d: a way of %u, formula %g", hosts, local, sim.depth, formula);
            if (f.remote_rounds > f.rounds) sim_fault(&sim, "more rounds leave than there are");
            sim_end_run(&sim);
            wrong += sim.failed;
            if (!power || strcmp(planner->name, "hierarchical") != 0) continue;
            sim.far = 0;
            sim.eager = false;
            run(&sim, planner);
            compare(&sim, &f);
            sim_end_run(&sim);
            wrong += sim.failed;
        }
    sim_free(&sim);
    assert_int_equal(wrong, 0);
}

/* With a chunk, the messages of the busiest rank agree with the formula. */
static void formulas_count_pieces(void **state) {
    (void)state;
    struct sim sim = {0};
    int wrong = 0;
    for (size_t p = 0; p < msi_planner_count; p++)
        for (int size = 2; size <= 16; size *= 2) {
            const struct msi_planner *planner = &msi_planners[p];
            struct msi_formula formula;
            sim.request = (struct msi_request){
                .kind = planner->kind, .size = size, .chunk = 2, .hosts = {1, size, NULL}};
            sim.request.count = even_count(planner->kind, size) * 2;
            if (msi_planner_unsupported_reason(planner, &sim.request)) continue;
            if (!strcmp(planner->name, "bruck")) continue; /* an upper bound, where ranks wrap around */
            msi_planner_estimate(planner, &sim.request, &formula);
            run(&sim, planner);
            compare(&sim, &formula);
            sim_end_run(&sim);
            wrong += sim.failed;
        }
    sim_free(&sim);
    assert_int_equal(wrong, 0);
}

static const char *chosen(enum msi_kind kind, int size, size_t count, struct msi_hosts hosts,
                          bool deterministic, const char *spec) {
    struct msi_algo algo;
    assert_ok(msi_algo_parse(spec, &algo));
    struct msi_tuning tuning = {algo, msi_model_default};
    struct msi_cost_input input = {&tuning, 4, 4, deterministic};
    struct msi_request request = {.kind = kind, .size = size, .count = count, .hosts = hosts};
    struct msi_selection selection;
    msi_select(&input, &request, &selection);
    assert_non_null(selection.planner);
    return selection.planner->name;
}

static void the_selection_depends_on_the_size(void **state) {
    (void)state;
    struct msi_hosts one = {1, 16, NULL};
    const char *small = chosen(MSI_KIND_ALL_REDUCE, 16, 1, one, false, NULL);
    const char *large = chosen(MSI_KIND_ALL_REDUCE, 16, 64 << 20, one, false, NULL);
    assert_string_not_equal(small, large);
    assert_string_equal(chosen(MSI_KIND_BROADCAST, 16, 256 << 20, one, false, ""), "ring");
    assert_string_not_equal(chosen(MSI_KIND_BROADCAST, 16, 1, one, false, ""), "ring");
    for (int size = 1; size <= 1024; size = size * 2 + 1)
        for (int kind = 0; kind < MSI_KIND_COUNT; kind++)
            for (size_t count = 0; count < (size_t)1 << 40 && msi_planner_any((enum msi_kind)kind);
                 count = count * 32 + 1)
                chosen((enum msi_kind)kind, size, count, (struct msi_hosts){1, size, NULL}, false, NULL);
}

/* The root receives everything once, and sends nothing. */
static void two_ranks_reduce_in_one_round(void **state) {
    (void)state;
    static const int of[] = {0, 1};
    for (size_t count = 1; count < (size_t)1 << 28; count *= 16)
        assert_string_equal(
            chosen(MSI_KIND_REDUCE, 2, count, (struct msi_hosts){2, 1, of}, false, "reduce:direct"),
            "oneshot");
}

/* What is received is reduced soon: the scratch does not grow with the message. */
static void scratch_is_a_few_pieces(void **state) {
    (void)state;
    enum { SIZE = 3, CHUNK = 8, PIECES = 4 };
    static const struct {
        enum msi_kind kind;
        const char *name;
    } cases[] = {
        {MSI_KIND_REDUCE, "oneshot"}, {MSI_KIND_REDUCE_SCATTER, "direct"}, {MSI_KIND_ALL_REDUCE, "direct"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct msi_plan plan = {0};
        struct msi_request request = {
            .kind = cases[i].kind, .size = SIZE, .count = 30000, .chunk = CHUNK, .hosts = {1, SIZE, NULL}};
        assert_ok(msi_plan_make(&plan, msi_planner_find(request.kind, msi_cstr(cases[i].name)), &request));
        assert_int_equal(plan.scratch[MSI_RAW], (SIZE - 1) * PIECES * CHUNK);
        msi_plan_free(&plan);
    }
}

static void rank_order_is_kept_on_request(void **state) {
    (void)state;
    static const enum msi_kind kinds[] = {MSI_KIND_ALL_REDUCE, MSI_KIND_REDUCE, MSI_KIND_REDUCE_SCATTER};
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t count = 1; count < (size_t)1 << 32; count *= 64) {
            const char *name =
                chosen(kinds[k], 24, count, (struct msi_hosts){1, 24, NULL}, true, "all_reduce:ring");
            assert_true(msi_planner_find(kinds[k], msi_cstr(name))->rank_ordered);
        }
}

static void the_requested_algorithm_is_selected(void **state) {
    (void)state;
    struct msi_hosts one = {1, 6, NULL};
    const char *spec = " all_reduce:direct, broadcast : tree ,reduce_scatter:halving,";
    assert_string_equal(chosen(MSI_KIND_ALL_REDUCE, 6, 1 << 20, one, false, spec), "direct");
    assert_string_equal(chosen(MSI_KIND_BROADCAST, 6, 1 << 20, one, false, spec), "tree");
    assert_string_not_equal(chosen(MSI_KIND_REDUCE_SCATTER, 6, 1 << 20, one, false, spec), "halving");
}

static void a_bad_specification_is_explained(void **state) {
    (void)state;
    struct msi_algo algo = {{msi_planners}};
    assert_status(msi_algo_parse("all_reduce:rong", &algo), MST_ERR_CONFIG);
    assert_contains(mst_error(), "'rong'");
    assert_contains(mst_error(), "ring, halving, doubling");
    assert_status(msi_algo_parse("allreduce:ring", &algo), MST_ERR_CONFIG);
    assert_contains(mst_error(), "'allreduce'");
    assert_contains(mst_error(), "all_reduce, reduce, all_gather");
    assert_status(msi_algo_parse("ring", &algo), MST_ERR_CONFIG);
    assert_contains(mst_error(), "no colon");
    assert_status(msi_algo_parse("broadcast:", &algo), MST_ERR_CONFIG);
    assert_ptr_equal(algo.of[0], msi_planners); /* written on success only */
    assert_ok(msi_algo_parse(NULL, &algo));
    assert_null(algo.of[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_match_plans),
        cmocka_unit_test(formulas_know_hosts),
        cmocka_unit_test(formulas_count_pieces),
        cmocka_unit_test(the_selection_depends_on_the_size),
        cmocka_unit_test(two_ranks_reduce_in_one_round),
        cmocka_unit_test(scratch_is_a_few_pieces),
        cmocka_unit_test(rank_order_is_kept_on_request),
        cmocka_unit_test(the_requested_algorithm_is_selected),
        cmocka_unit_test(a_bad_specification_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
