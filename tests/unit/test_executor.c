/* test_executor.c - runs plans of all kinds over real links; the ranks run alternately in one thread. */
#include "exec_kit.h"

#include "fault_link.h"

#include <fcntl.h>
#include <sys/socket.h>

static void open_links(struct world *world, int size, bool faults) {
    world->size = size;
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) {
            int fds[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
            assert_ok(msi_link_open_tcp((struct msi_stream){.fd = fds[0]}, &world->links[a][b]));
            assert_ok(msi_link_open_tcp((struct msi_stream){.fd = fds[1]}, &world->links[b][a]));
            if (!faults) continue;
            struct link_faults fault = {
                .seed = (uint64_t)(a * size + b), .most_bytes = 700, .stall_percent = 20, .stall_calls = 5};
            assert_ok(open_fault_link(world->links[a][b], &fault, &world->links[a][b]));
        }
}

static void run_all(bool faults) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    for (int size = 1; size <= MOST_RANKS; size++) {
        open_links(world, size, faults);
        for (size_t p = 0; p < msi_planner_count; p++)
            for (size_t chunk = 0; chunk < 200; chunk = chunk * 12 + 7) {
                struct msi_request request;
                if (!make_request(&msi_planners[p], size, chunk ? 500 : 13, chunk, &request)) continue;
                begin(world, &msi_planners[p], request);
                assert_true(take_turns(world));
                check(world, &request, msi_planners[p].name);
            }
        close_links(world);
    }
    free_world(world);
}

static void every_planner_over_sockets(void **state) {
    (void)state;
    run_all(false);
}

static void over_links_that_stutter(void **state) {
    (void)state;
    run_all(true);
}

/* Partial sums of 16-bit floats are sent as f32, so the result is rounded once. */
static void small_floats_are_rounded_once(void **state) {
    (void)state;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    open_links(world, 4, false);
    static uint16_t in[4][64], out[4][64];
    /*
     * 256 + 1 + 1 + 1 in bf16, whose neighbours are 256, 258, 260: rounded at every step it would stay 256.
     */
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 64; i++) in[r][i] = r == 0 ? 0x4380 : 0x3f80;
    const char *names[] = {"ring", "doubling", "halving", "direct", "oneshot"};
    for (size_t k = 0; k < COUNT_OF(names); k++) {
        memset(out, 0, sizeof out);
        for (int r = 0; r < 4; r++) {
            struct msi_request request = {
                .kind = MSI_KIND_ALL_REDUCE, .rank = r, .size = 4, .count = 64, .hosts = {1, 4, NULL}};
            assert_ok(msi_plan_make(&world->plans[r],
                                    msi_planner_find(MSI_KIND_ALL_REDUCE, msi_cstr(names[k])), &request));
            struct msi_exec_run run = {.plan = &world->plans[r],
                                       .links = world->links[r],
                                       .in = in[r],
                                       .out = out[r],
                                       .raw_size = 2,
                                       .reducer = msi_reducer_get(MST_BF16, MST_SUM),
                                       .scale = {.ranks = 4}};
            assert_ok(msi_exec_begin(&world->execs[r], &run));
        }
        assert_true(take_turns(world));
        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 64; i++)
                assert_int_equal(out[r][i], 0x4382); /* 259 is halfway: to even, 260 */
    }
    free_world(world);
}

static void a_lost_peer_ends_the_run(void **state) {
    (void)state;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    open_links(world, 3, false);
    struct msi_request request = {
        .kind = MSI_KIND_ALL_REDUCE, .size = 3, .count = 3000, .hosts = {1, 3, NULL}};
    begin(world, msi_planner_find(MSI_KIND_ALL_REDUCE, msi_cstr("direct")), request);
    for (int b = 0; b < 2; b++) {
        world->links[2][b]->ops->close(world->links[2][b]);
        world->links[2][b] = NULL;
    }
    world->size = 2;
    assert_true(take_turns(world));
    for (int r = 0; r < 2; r++) {
        assert_status(world->execs[r].status, MST_ERR_PEER_LOST);
        assert_int_equal(world->execs[r].culprit, 2);
    }
    world->size = 3;
    free_world(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planner_over_sockets),
        cmocka_unit_test(over_links_that_stutter),
        cmocka_unit_test(small_floats_are_rounded_once),
        cmocka_unit_test(a_lost_peer_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
