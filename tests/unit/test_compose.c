/*
 * test_compose.c - whatever an engine lacks is made of what it has: on random tables, with random operations,
 * for up to six ranks, and in whatever order things come to pass. What no composition serves is refused, by
 * all ranks, and nothing else is.
 */
#include "compose_check.h"
#include "compose_sim.h"

#include <muster/status.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { TABLES = 2000 };
#else
enum { TABLES = 12000 };
#endif
enum { PER_TABLE = 4, MOST_ROWS = 6, MOST_WORDS = 64 };

#define BIT(kind) (1u << MST_KIND_##kind)
#define MESSAGES  (BIT(SEND) | BIT(RECV))
#define ALL_OPS   ((1u << MST_OP_COUNT) - 1)
#define ALL_KINDS ((1u << MST_KIND_COUNT) - 1)
#define ALL_FORMS ((1u << MST_FORM_COUNT) - 1)

static mst_backend_capability rows[MOST_ROWS + 1];

static const mst_backend_capability *give_rows(void) {
    return rows;
}

static const mst_backend table = {.name = "simulated", .rows = give_rows};
static const mst_dtype dtypes[] = {MST_F32, MST_I32, MST_U8, MST_BF16};
static const mst_op ops[] = {MST_SUM, MST_AVG, MST_MAX, MST_PREMUL_SUM};
static uint64_t choices = 1;

static size_t choose(size_t n) {
    return below(&choices, n);
}

/* Each bit with the chance of one in n. */
static uint32_t some_bits(uint32_t of, size_t n) {
    uint32_t bits = 0;
    for (uint32_t b = 1; b && b <= of; b <<= 1)
        if (of & b && choose(n) == 0) bits |= b;
    return bits;
}

/* An engine that knows of the host's memory, or of the device's alone. */
static void choose_table(void) {
    size_t n = 1 + choose(MOST_ROWS), rare = 1 + choose(6);
    uint32_t memories = choose(4) ? 0 : 1u << MST_MEMORY_CUDA;
    memset(rows, 0, sizeof rows);
    for (size_t i = 0; i < n; i++)
        rows[i] =
            (mst_backend_capability){.kinds = some_bits(ALL_KINDS, rare + 1) | 1u << choose(MST_KIND_COUNT),
                                     .dtypes = choose(2) ? 0 : some_bits(0xffff, 2),
                                     .ops = choose(2) ? ALL_OPS : some_bits(ALL_OPS, 2),
                                     .memories = memories,
                                     .forms = some_bits(ALL_FORMS, 2)};
}

static void choose_counts(struct world *w) {
    for (int a = 0; a < w->ranks; a++) {
        w->counts[a] = choose(4) ? choose(2 * w->count + 2) : 0;
        for (int b = 0; b < w->ranks; b++) w->pairs[a][b] = choose(4) ? choose(w->count + 2) : 0;
    }
}

static void choose_operation(struct world *w, int ranks) {
    static const size_t counts[] = {0, 1, 3, 17, 60, 5000};
    w->ranks = ranks;
    w->kind = (mst_kind)choose(MST_KIND_SEND);
    w->dtype = dtypes[choose(COUNT_OF(dtypes))];
    w->op = ops[choose(is_float(w->dtype) ? 4 : 3)];
    w->root = (int)choose((size_t)ranks);
    w->count = counts[choose(COUNT_OF(counts) - (choose(8) != 0))]; /* long ones take long */
    w->deterministic = choose(3) == 0;
    bool varies = w->kind == MST_KIND_ALL_GATHER || w->kind == MST_KIND_REDUCE_SCATTER ||
                  w->kind == MST_KIND_ALL_TO_ALL;
    w->uneven = varies && choose(3) == 0;
    w->lists = varies && choose(3) == 0;
    w->seed = choices;
    bool device = rows[0].memories != 0;
    for (int r = 0; r < ranks; r++) {
        w->in_place[r] = choose(2);
        w->of[r].memory =
            device && (w->kind == MST_KIND_BARRIER || choose(2)) ? MST_MEMORY_CUDA : MST_MEMORY_HOST;
    }
    choose_counts(w);
    snprintf(w->what, sizeof w->what, "%s of %zu %s (%s) on %d ranks, root %d%s%s%s%s",
             msi_kind_text(w->kind), w->count, mst_dtype_name(w->dtype), mst_op_name(w->op), ranks, w->root,
             w->uneven ? ", uneven" : "", w->lists ? ", lists" : "",
             w->deterministic ? ", deterministic" : "", device ? ", device" : "");
}

/* All ranks compose; they agree on whether that can be done. */
static mst_status compose_all(struct sim *sim, uint32_t forced) {
    struct world *w = &sim->world;
    mst_status first = MST_OK;
    world_begin(w);
    for (int r = 0; r < w->ranks; r++) {
        struct msi_composer *c = &sim->ranks[r].composer;
        c->table = &table;
        c->forced = forced;
        c->stage = true;
        c->rank = r;
        c->ranks = w->ranks;
        c->scratch = sim_scratch;
        c->context = &w->of[r];
        mst_status st = msi_compose(c, &w->of[r].op, w->deterministic);
        if (r > 0 && st != first) fail_msg("%s: rank 0 gets %d, rank %d gets %d", w->what, first, r, st);
        first = st;
    }
    return first;
}

/* Composes an operation and runs it; false: it cannot be composed. */
static bool run(struct sim *sim, uint32_t forced) {
    mst_status st = compose_all(sim, forced);
    if (st == MST_OK) {
        sim->seed = sim->world.seed;
        sim_run(sim);
        world_check(&sim->world);
    } else if (st != MST_ERR_UNSUPPORTED) {
        fail_msg("%s: %s", sim->world.what, mst_error());
    }
    world_end(&sim->world);
    return st == MST_OK;
}

static bool can(const struct world *w, uint32_t forced, mst_kind kind, mst_op op, unsigned forms) {
    mst_memory memory = rows[0].memories ? MST_MEMORY_CUDA : MST_MEMORY_HOST;
    return !(forced >> kind & 1) && msi_rows_have(rows, kind, w->dtype, op, memory, forms);
}

static bool any_all_reduce(struct world w, uint32_t forced) {
    for (int d = 1; d < MST_DTYPE_COUNT; d++)
        for (int o = 0; o < MST_PREMUL_SUM; o++) {
            w.dtype = (mst_dtype)d;
            if (msi_reducer_get(w.dtype, (mst_op)o) && can(&w, forced, MST_KIND_ALL_REDUCE, (mst_op)o, 0))
                return true;
        }
    return false;
}

static bool has_reduction(const struct world *w, uint32_t forced) {
    unsigned uneven = w->uneven ? (unsigned)MST_FORM_UNEVEN : 0;
    bool loose = !w->deterministic, narrow = mst_dtype_size(w->dtype) < 4;
    bool sums = (w->op == MST_AVG || w->op == MST_PREMUL_SUM) && !narrow;
    bool gathers = can(w, forced, MST_KIND_ALL_GATHER, w->op, 0);
    bool broadcasts = can(w, forced, MST_KIND_BROADCAST, w->op, 0);
    bool messages = can(w, forced, MST_KIND_SEND, w->op, 0) && can(w, forced, MST_KIND_RECV, w->op, 0);
    if (loose && sums && can(w, forced, w->kind, MST_SUM, uneven)) return true;
    if (w->kind == MST_KIND_ALL_REDUCE) {
        if (loose && can(w, forced, MST_KIND_REDUCE, w->op, 0) && broadcasts) return true;
        return gathers || broadcasts || messages;
    }
    if (loose && can(w, forced, MST_KIND_ALL_REDUCE, w->op, 0)) return true;
    if (w->kind == MST_KIND_REDUCE) return can(w, forced, MST_KIND_GATHER, w->op, 0) || gathers || messages;
    return can(w, forced, MST_KIND_ALL_TO_ALL, w->op, uneven) || messages || gathers || broadcasts;
}

/* Can it be made of what the table has? As the head of compose.h says. */
static bool is_possible(struct world *w, uint32_t forced) {
    unsigned forms = w->uneven ? (unsigned)MST_FORM_UNEVEN : 0;
    bool reduces = msi_kind_reduces(w->kind);
    if (w->kind == MST_KIND_BARRIER) w->dtype = MST_U8;
    bool gathers = can(w, forced, MST_KIND_ALL_GATHER, w->op, 0);
    bool broadcasts = can(w, forced, MST_KIND_BROADCAST, w->op, 0);
    bool messages = can(w, forced, MST_KIND_SEND, w->op, 0) && can(w, forced, MST_KIND_RECV, w->op, 0);
    if (can(w, forced, w->kind, w->op,
            forms | (reduces && w->deterministic ? (unsigned)MST_FORM_DETERMINISTIC : 0)))
        return true;
    if (reduces) return has_reduction(w, forced);
    switch (w->kind) {
    case MST_KIND_BARRIER:
        return any_all_reduce(*w, forced) || gathers || messages;
    case MST_KIND_ALL_TO_ALL:
        return messages || (gathers && !w->uneven);
    case MST_KIND_ALL_GATHER:
    case MST_KIND_SCATTER:
        return gathers || broadcasts || messages;
    default:
        return gathers || messages;
    }
}

/* The different compositions that were seen. */
static const char *words[MOST_WORDS];
static size_t n_words;

static void remember(const char *what) {
    for (size_t i = 0; i < n_words; i++)
        if (!strcmp(words[i], what)) return;
    assert_true(n_words < MOST_WORDS);
    words[n_words++] = what;
}

static void random_tables(void **state) {
    (void)state;
    static struct sim sim;
    size_t cases = 0, composed = 0, refused = 0;
    int64_t start = msi_now();
    for (int t = 0; t < TABLES; t++) {
        choose_table();
        uint32_t forced = choose(3) ? 0 : some_bits(ALL_KINDS, 3);
        for (int i = 0; i < PER_TABLE; i++, cases++) {
            choose_operation(&sim.world, 1 + (t + i) % MOST_RANKS);
            bool possible = is_possible(&sim.world, forced), ran = run(&sim, forced);
            if (possible != ran)
                fail_msg("table %d: %s %s", t, sim.world.what, ran ? "was composed of what?" : "was refused");
            refused += !ran;
            if (!ran || !sim.ranks[0].composer.composed) continue;
            composed++;
            if (sim.ranks[0].composer.description) remember(sim.ranks[0].composer.description);
        }
    }
    print_message(
        "%zu operations on %d tables: %zu composed in %zu ways, %zu refused; %zu steps of engines, %lld ms\n",
        cases, TABLES, composed, n_words, refused, sim.operations, (long long)ms_since(start));
    sim_free(&sim);
}

/* A table with these kinds in all forms, or in none. */
static void set_table(uint32_t kinds, uint32_t forms) {
    memset(rows, 0, sizeof rows);
    rows[0] = (mst_backend_capability){.kinds = kinds, .ops = ALL_OPS, .forms = forms};
}

static void set_world(struct world *w, mst_kind kind, int ranks, int root, size_t count) {
    *w = (struct world){.kind = kind,
                        .ranks = ranks,
                        .root = root,
                        .count = count,
                        .dtype = MST_F32,
                        .op = MST_SUM,
                        .seed = 1};
    snprintf(w->what, sizeof w->what, "%s of %zu on %d ranks, root %d", msi_kind_text(kind), count, ranks,
             root);
}

/* Messages, or an all_gather, make everything; the latter alone no all_to_all of blocks that differ. */
static void what_is_enough(void **state) {
    (void)state;
    static struct sim sim;
    static const uint32_t enough[] = {MESSAGES, BIT(ALL_GATHER)};
    for (size_t t = 0; t < COUNT_OF(enough); t++) {
        set_table(enough[t], 0);
        for (int i = 0; i < 600; i++) {
            choose_operation(&sim.world, 1 + i % MOST_RANKS);
            bool exception =
                enough[t] == BIT(ALL_GATHER) && sim.world.kind == MST_KIND_ALL_TO_ALL && sim.world.uneven;
            if (run(&sim, 0) == exception)
                fail_msg("%s, of %s", sim.world.what, t == 0 ? "messages" : "all_gather");
        }
    }
    sim_free(&sim);
}

/* Without these two there is less, but never something else. */
static void what_is_not_enough(void **state) {
    (void)state;
    static struct sim sim;
    static const struct {
        uint32_t has, makes;
    } cases[] = {
        {BIT(BARRIER), 0},
        {BIT(BROADCAST), BIT(ALL_REDUCE) | BIT(ALL_GATHER) | BIT(REDUCE_SCATTER) | BIT(SCATTER)},
        {BIT(ALL_REDUCE), BIT(BARRIER) | BIT(REDUCE) | BIT(REDUCE_SCATTER)},
        {BIT(REDUCE), 0},
        {BIT(REDUCE_SCATTER), 0},
        {BIT(ALL_TO_ALL), BIT(REDUCE_SCATTER)},
        {BIT(GATHER), BIT(REDUCE)},
        {BIT(SCATTER), 0},
        {BIT(SEND), 0},
        {BIT(RECV), 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int kind = 0; kind < MST_KIND_SEND; kind++) {
            set_table(cases[i].has, 0);
            set_world(&sim.world, (mst_kind)kind, 3, 1, 7);
            bool wanted = (cases[i].has | cases[i].makes) >> kind & 1;
            if (run(&sim, 0) != wanted) fail_msg("%s, case %zu", sim.world.what, i);
        }
    sim_free(&sim);
}

/* What each rank sends, with S bytes of a whole tensor on n ranks, is what the head of compose.h says. */
struct cost {
    mst_kind missing;
    uint32_t has;
    size_t parts; /* 1: the count of the call is S; 0: S / n */
    size_t (*bytes)(size_t n, size_t all, bool root);
};

static size_t twice_but_own(size_t n, size_t all, bool root) {
    (void)root;
    return 2 * (n - 1) * all / n;
}

static size_t all_but_own(size_t n, size_t all, bool root) {
    (void)root;
    return (n - 1) * all / n;
}

static size_t all_to_others(size_t n, size_t all, bool root) {
    (void)root;
    return (n - 1) * all;
}

static size_t share_to_root(size_t n, size_t all, bool root) {
    return root ? 0 : all / n;
}

static size_t all_to_root(size_t n, size_t all, bool root) {
    (void)n;
    return root ? 0 : all;
}

static size_t shares_of_root(size_t n, size_t all, bool root) {
    return root ? (n - 1) * all / n : 0;
}

static const struct cost costs[] = {
    {MST_KIND_ALL_REDUCE, BIT(ALL_TO_ALL) | BIT(ALL_GATHER), 1, twice_but_own},
    {MST_KIND_ALL_REDUCE, BIT(ALL_GATHER), 1, all_to_others},
    {MST_KIND_REDUCE, BIT(GATHER), 1, all_to_root},
    {MST_KIND_REDUCE, MESSAGES, 1, all_to_root},
    {MST_KIND_REDUCE_SCATTER, BIT(ALL_TO_ALL), 0, all_but_own},
    {MST_KIND_REDUCE_SCATTER, MESSAGES, 0, all_but_own},
    {MST_KIND_REDUCE_SCATTER, BIT(ALL_GATHER), 0, all_to_others},
    {MST_KIND_ALL_GATHER, MESSAGES, 0, all_but_own},
    {MST_KIND_ALL_TO_ALL, MESSAGES, 0, all_but_own},
    {MST_KIND_ALL_TO_ALL, BIT(ALL_GATHER), 0, all_to_others},
    {MST_KIND_GATHER, MESSAGES, 0, share_to_root},
    {MST_KIND_GATHER, BIT(ALL_GATHER), 0, all_but_own},
    {MST_KIND_SCATTER, MESSAGES, 0, shares_of_root},
    {MST_KIND_BROADCAST, BIT(ALL_GATHER), 1, all_to_others},
};

static void bytes_are_as_told(void **state) {
    (void)state;
    static struct sim sim;
    for (size_t i = 0; i < COUNT_OF(costs); i++)
        for (int n = 1; n <= MOST_RANKS; n++) {
            size_t elements = 3600 * (size_t)n; /* more than an all_gather is best for */
            set_table(costs[i].has, 0);
            set_world(&sim.world, costs[i].missing, n, n / 2,
                      costs[i].parts ? elements : elements / (size_t)n);
            assert_true(run(&sim, 0));
            for (int r = 0; r < n; r++)
                if (sim.ranks[r].sent != costs[i].bytes((size_t)n, 4 * elements, r == n / 2))
                    fail_msg("%s, case %zu: rank %d sends %zu", sim.world.what, i, r, sim.ranks[r].sent);
        }
    sim_free(&sim);
}

/* Along a tree nobody sends more than log2(n) times, and all together once to each but the root. */
static void trees_are_shallow(void **state) {
    (void)state;
    static struct sim sim;
    for (int n = 1; n <= MOST_RANKS; n++)
        for (int root = 0; root < n; root++) {
            size_t depth = n > 4 ? 3 : n > 2 ? 2 : n > 1, sum = 0;
            set_table(MESSAGES, 0);
            set_world(&sim.world, MST_KIND_BROADCAST, n, root, 10);
            assert_true(run(&sim, 0));
            for (int r = 0; r < n; r++) {
                assert_in_range(sim.ranks[r].sent, 0, depth * 40);
                sum += sim.ranks[r].sent;
            }
            assert_int_equal(sum, (size_t)(n - 1) * 40);
            set_world(&sim.world, MST_KIND_BARRIER, n, 0, 0);
            assert_true(run(&sim, 0));
            for (int r = 0; r < n; r++) assert_int_equal(sim.ranks[r].sent, depth);
        }
    sim_free(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tables),      cmocka_unit_test(what_is_enough),
        cmocka_unit_test(what_is_not_enough), cmocka_unit_test(bytes_are_as_told),
        cmocka_unit_test(trees_are_shallow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
