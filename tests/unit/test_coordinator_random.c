/*
 * test_coordinator_random.c - thousands of random jobs of several nodes, from a fixed seed: nodes that follow
 * orders, nodes that leave or die, ranks that die, and notices that make no sense. The orders can always be
 * carried out, and once all nodes stop or die the coordinator ends the job.
 */
#include "coordinator_kit.h"

enum { JOBS = 20000, STEPS = 60, TICKETS = 12, ROUNDS_MOST = 200 };

/* What a node is, as far as anybody can see from outside. */
struct seen {
    bool joined, left, gone, refused, in, stopped;
    int node_rank;
};

static struct {
    uint64_t random;
    struct seen nodes[TICKETS];
    int generation;
    bool over;
    int n_goes; /* of all jobs, to see that it gets anywhere */
} sim;

static int draw(int n) {
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return (int)(sim.random >> 33) % n;
}

static bool has_ranks(const struct seen *node) {
    return node->in && !node->stopped && !node->gone && !node->refused;
}

/* The nodes of a generation are present and without ranks, their number and order are right. */
static void check_go(const struct order *go) {
    int before = -1;

    assert_int_equal(go->generation, sim.generation + 1);
    assert_in_range(go->nodes, job.options.min, job.options.max);
    for (int i = 0; i < TICKETS; i++) {
        assert_false(has_ranks(&sim.nodes[i]));
        sim.nodes[i].in = sim.nodes[i].stopped = false;
    }
    for (int i = 0; i < go->nodes; i++) {
        assert_in_range(go->ranks[i].ticket, 0, TICKETS - 1);
        struct seen *node = &sim.nodes[go->ranks[i].ticket];
        assert_true(node->joined && !node->left && !node->gone && !node->refused && !node->in);
        if (node->node_rank >= 0) assert_true(node->node_rank > before);
        before = node->node_rank;
        node->in = true;
    }
    sim.generation = go->generation;
    sim.n_goes++;
}

/* order_read sees to it that first ranks follow each other. */
static void check_order(void *arg, const struct order *given) {
    struct order read;
    char *line = order_write(given);
    (void)arg;

    assert_false(sim.over);
    assert_non_null(line);
    line[strcspn(line, "\n")] = '\0';
    assert_true(order_read(line, &read));
    if (read.kind == ORDER_START) check_go(&read);
    if (read.kind == ORDER_STOP) assert_int_equal(read.generation, sim.generation);
    if (read.kind == ORDER_REFUSE && read.ticket < TICKETS) sim.nodes[read.ticket].refused = true;
    if (read.kind == ORDER_END) sim.over = true;
    free(read.ranks);
    free(line);
}

static void be_quiet(void *arg, const char *text) {
    (void)arg;
    assert_true(strlen(text) > 0);
}

static void open_random_job(void) {
    int min = 1 + draw(3);

    meet(min, min + draw(3), draw(4));
    memset(sim.nodes, 0, sizeof sim.nodes);
    sim.generation = -1;
    sim.over = false;
    job.coordinator->options.order = check_order;
    job.coordinator->options.say = job.coordinator->options.report = be_quiet;
    job.now = job.coordinator->since = draw(1000000) / 1000.0; /* sums of such times are not exact */
    job.coordinator->options.join_seconds = draw(600) / 10.0 + 0.1;
    if (draw(2) == 0) job.coordinator->options.last_call_seconds = 0;
    if (draw(2) == 0) job.coordinator->options.progress_seconds = 1;
    job.coordinator->options.survive =
        (struct survive_options){.min = draw(4) == 0 ? draw(4) : 0, .replace = draw(5) - 1};
    job.coordinator->survivors.options = job.coordinator->options.survive;
    job.coordinator->progress = job.now + job.coordinator->options.progress_seconds;
}

/* Tickets are given once; who is gone does not come again, but may be there twice. */
static void random_join(int ticket, bool ranked) {
    struct seen *node = &sim.nodes[ticket];

    if (node->left || node->gone || node->refused) return;
    if (!node->joined) node->node_rank = (ranked != (draw(50) == 0)) ? draw(job.options.max) : -1;
    node->joined = true;
    joins_with(ticket, node->node_rank, job.options.min, draw(100) == 0 ? 9 : job.options.max);
}

static void random_stop(int ticket, int generation) {
    struct seen *node = &sim.nodes[ticket];
    int rank = draw(3) == 0 ? draw(12) : -1;

    if (generation == sim.generation) node->stopped = true;
    stops_blaming(ticket, generation, rank, draw(3) == 0 ? draw(12) : -1, draw(20) == 0);
}

static void random_event(int ticket, int generation) {
    hear((struct notice){.kind = NOTICE_RANK,
                         .ticket = ticket,
                         .generation = generation,
                         .serial = 1 + draw(8),
                         .rank = draw(12),
                         .event = draw(4),
                         .waited = draw(2),
                         .text = "a rank died"});
}

static void random_step(bool ranked) {
    static const int insistence[] = {SIGINT, SIGTERM, SIGKILL};
    int ticket = draw(TICKETS), generation = sim.generation >= 0 ? sim.generation : 0;

    if (draw(10) == 0) generation += draw(3) - (generation > 0);
    int what = draw(220);
    if (what < 70) {
        random_join(ticket, ranked);
    } else if (what < 75) {
        fails(ticket, generation);
    } else if (what < 150) {
        random_stop(ticket, generation);
    } else if (what < 160) {
        sim.nodes[ticket].gone |= sim.nodes[ticket].joined;
        dies(ticket);
    } else if (what < 170) {
        sim.nodes[ticket].left |= sim.nodes[ticket].joined;
        leaves(ticket);
    } else if (what < 190) {
        random_event(ticket, generation);
    } else if (what < 191) {
        interrupt(insistence[draw(3)]);
    } else {
        pass(draw(2) == 0 ? 0.5 : draw(40));
    }
}

/* All nodes end what they have, or are gone; time goes on. */
static void let_it_end(void) {
    for (int round = 0; !sim.over; round++) {
        assert_true(round < ROUNDS_MOST);
        for (int i = 0; i < TICKETS && !sim.over; i++) {
            sim.nodes[i].stopped = true;
            if (draw(4) > 0) {
                stops(i, sim.generation >= 0 ? sim.generation : 0);
            } else {
                sim.nodes[i].gone = true;
                dies(i);
            }
        }
        if (!sim.over) pass(100);
    }
}

static void whatever_comes(void **state) {
    (void)state;
    sim.random = 20240607;
    for (int i = 0; i < JOBS; i++) {
        bool ranked = draw(2) == 0;
        open_random_job();
        for (int step = draw(STEPS); step > 0; step--) random_step(ranked);
        let_it_end();
        for (int step = 0; step < 5; step++) random_step(ranked);
        coordinator_free(job.coordinator);
    }
    assert_true(sim.n_goes > JOBS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_comes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
