/*
 * test_executor_faults.c - every algorithm over shm and tcp links with injected faults: short transfers,
 * delays, stalls, reordering between links, and lost links.
 */
#include "conform/link_kit.h"
#include "exec_kit.h"

enum { SEEDS = 4, LOSSES = 6, LARGE = MOST_ELEMENTS / MOST_RANKS };

static const struct link_base *const bases[] = {&link_bases[1], &link_bases[2]};

/* The links of all ranks, and the shared memory of the shm links by their lower rank. */
struct mesh {
    struct world world;
    void *memory[MOST_RANKS][MOST_RANKS];
};

/* Opens the links of all ranks. The link of the pair lost, if any, fails after some bytes. */
static void open_mesh(struct mesh *mesh, int size, const struct link_base *base, struct link_faults faults,
                      const int lost[2], uint64_t after) {
    mesh->world.size = size;
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) {
            struct ends ends = {.memory = NULL};
            struct link_faults these = faults;
            if (lost && lost[0] == a && lost[1] == b) these.lose_after = after;
            assert_true(base->open(&ends));
            faults.seed += 1000;
            wrap(&ends, true, &these);
            mesh->world.links[a][b] = ends.end[0];
            mesh->world.links[b][a] = ends.end[1];
            mesh->memory[a][b] = ends.memory;
        }
}

static void close_mesh(struct mesh *mesh) {
    close_links(&mesh->world);
    for (int a = 0; a < MOST_RANKS; a++)
        for (int b = 0; b < MOST_RANKS; b++) {
            if (mesh->memory[a][b]) munmap(mesh->memory[a][b], msi_link_shm_bytes());
            mesh->memory[a][b] = NULL;
        }
}

static struct mesh *new_mesh(void) {
    struct mesh *mesh = calloc(1, sizeof *mesh);
    assert_non_null(mesh);
    return mesh;
}

static void free_mesh(struct mesh *mesh) {
    close_mesh(mesh);
    for (int r = 0; r < MOST_RANKS; r++) {
        msi_plan_free(&mesh->world.plans[r]);
        msi_exec_free(&mesh->world.execs[r]);
    }
    free(mesh);
}

static void run_planner(struct mesh *mesh, const struct msi_planner *planner, int size, size_t count,
                        size_t chunk) {
    struct msi_request request;
    if (!make_request(planner, size, count, chunk, &request)) return;
    begin(&mesh->world, planner, request);
    assert_true(take_turns(&mesh->world));
    check(&mesh->world, &request, planner->name);
}

/* All algorithms use the same links in sequence, so unread bytes of one break the next. */
static void every_planner_over_every_fault(void **state) {
    (void)state;
    struct mesh *mesh = new_mesh();
    for (size_t base = 0; base < COUNT_OF(bases); base++)
        for (int size = 2; size <= MOST_RANKS; size += SLOWER > 1 ? 2 : 1)
            for (int seed = 0; seed < (SLOWER > 1 ? 1 : SEEDS); seed++) {
                struct link_faults faults = faults_of(1 + (seed + size) % (PLAIN_AND_FAULTS - 1));
                if (faults.most_bytes && faults.most_bytes < 50) faults.most_bytes = 50;
                faults.seed += (uint64_t)(seed * 7919 + size);
                open_mesh(mesh, size, bases[base], faults, NULL, 0);
                for (size_t p = 0; p < msi_planner_count; p++) {
                    run_planner(mesh, &msi_planners[p], size, 13, 0);
                    run_planner(mesh, &msi_planners[p], size, LARGE, seed % 2 ? 64 : 0);
                }
                close_mesh(mesh);
            }
    free_mesh(mesh);
}

/* A failed rank closes its links, so that ranks that wait for it fail. */
static void leave(struct world *world, int rank) {
    for (int peer = 0; peer < world->size; peer++) {
        struct msi_link *link = world->links[rank][peer];
        if (link && link->status == MST_OK) msi_link_fail(link, MST_ERR_CANCELLED, "left");
        if (link) link->ops->close(link);
        world->links[rank][peer] = NULL;
    }
}

/* Runs all ranks until they end; records which failed. */
static unsigned run_to_the_end(struct world *world) {
    unsigned failed = 0, over = 0, all = (1u << world->size) - 1;
    for (int64_t start = msi_now(); over != all;) {
        if (ms_since(start) > 20000) fail_msg("ranks %x of %x have not ended", all & ~over, all);
        for (int r = 0; r < world->size; r++) {
            if (over >> r & 1) continue;
            poll_exec(&world->execs[r]);
            if (!msi_exec_over(&world->execs[r])) continue;
            over |= 1u << r;
            if (world->execs[r].status == MST_OK) continue;
            failed |= 1u << r;
            leave(world, r);
        }
    }
    return failed;
}

/*
 * Loses one link during the run. A rank that fails names a rank whose link is lost, or that failed before;
 * other ranks have the right result. Returns true if any rank failed: some plans do not use the link.
 */
static bool lose_a_link(struct mesh *mesh, const struct msi_planner *planner, int size,
                        const struct link_base *base, uint64_t seed) {
    struct msi_request request;
    struct dice dice = {seed};
    int a = (int)roll(&dice, (uint64_t)size - 1), b = a + 1 + (int)roll(&dice, (uint64_t)(size - 1 - a));
    struct link_faults faults = {.seed = seed, .most_bytes = 300, .stall_percent = 10, .stall_calls = 4};
    if (!make_request(planner, size, 200, seed % 2 ? 32 : 0, &request)) return false;
    open_mesh(mesh, size, base, faults, (int[]){a, b}, 1 + roll(&dice, 900));
    begin(&mesh->world, planner, request);
    unsigned failed = run_to_the_end(&mesh->world);
    for (int r = 0; r < size; r++) {
        const struct msi_exec *exec = &mesh->world.execs[r];
        if (!(failed >> r & 1)) continue;
        assert_status(exec->status, MST_ERR_PEER_LOST);
        assert_true(exec->culprit >= 0 && exec->culprit < size && exec->culprit != r);
        bool cut = (r == a && exec->culprit == b) || (r == b && exec->culprit == a);
        if (!cut && !(failed >> exec->culprit & 1))
            fail_msg("%s:%s of %d ranks, seed %d: rank %d blames rank %d, which is well",
                     msi_coll_name(request.kind), planner->name, size, (int)seed, r, exec->culprit);
    }
    if (!failed) check(&mesh->world, &request, planner->name);
    close_mesh(mesh);
    return failed;
}

static void a_lost_link_ends_the_run_everywhere(void **state) {
    (void)state;
    struct mesh *mesh = new_mesh();
    int losses = SLOWER > 1 ? 2 : LOSSES, failed = 0;
    for (size_t base = 0; base < COUNT_OF(bases); base++)
        for (size_t p = 0; p < msi_planner_count; p++)
            for (int i = 0; i < losses; i++)
                failed += lose_a_link(mesh, &msi_planners[p], 2 + (int)(p + (size_t)i) % (MOST_RANKS - 1),
                                      bases[base], (uint64_t)(i * 100) + p);
    assert_true(failed > (int)msi_planner_count);
    free_mesh(mesh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planner_over_every_fault),
        cmocka_unit_test(a_lost_link_ends_the_run_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
