/* test_copies.c - the trials that decide how large blocks are copied come to an end. */
#include "harness.h"

#include "engine/shm/shm_coll.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, MIB = 1 << 20, US = 1000 };

/* Rank 0 of two ranks that make the same choices. */
struct world {
    struct msi_comm comm;
    struct mst_work work;
    struct msi_shm_region region;
    struct msi_shm_coll coll;
    bool cma_is_faster;
};

static struct world *open_world(mst_kind kind, enum msi_copy_mode cma) {
    struct world *w = calloc(1, sizeof *w);
    struct msi_area *areas = aligned_alloc(_Alignof(struct msi_area), RANKS * sizeof *areas);
    memset(areas, 0, RANKS * sizeof *areas);
    for (int r = 0; r < RANKS; r++) atomic_store(&areas[r].cma.can_read, 1);
    w->comm.size = RANKS;
    w->comm.config.cma = cma;
    w->comm.config.nt_stores = MSI_COPY_AUTO;
    w->comm.state = calloc(1, sizeof(struct msi_shm));
    w->region = (struct msi_shm_region){.areas = areas, .size = RANKS};
    w->work.comm = &w->comm;
    w->work.op.desc.kind = kind;
    w->work.op.desc.element = 1;
    w->coll = (struct msi_shm_coll){.work = &w->work, .region = &w->region, .src_rank = -1, .dst_rank = -1};
    return w;
}

static void close_world(struct world *w) {
    struct msi_shm *shm = w->comm.state;
    msi_shm_free_copies(shm->copies);
    free(shm);
    free(w->region.areas);
    free(w);
}

/* One operation; direct: from memory that is mapped. Returns whether it was a trial. */
static bool run(struct world *w, size_t bytes, bool direct) {
    struct msi_shm_coll *coll = &w->coll;
    mst_kind kind = w->work.op.desc.kind;
    w->work.op.desc.count = bytes;
    coll->in_where.number = direct;
    bool by_cma = msi_shm_plan_copies(coll) && !direct;
    coll->mode = direct ? MSI_SLOT_DIRECT : by_cma ? MSI_SLOT_CMA : MSI_SLOT_BIG;
    coll->by_direct = direct;
    coll->by_cma = by_cma;
    coll->by_cells = !direct && !by_cma;
    coll->drained = 1;
    coll->read_from = msi_now() - (by_cma == w->cma_is_faster ? US : 1000 * US);
    msi_shm_end_copies(coll);
    int class = coll->copy_class;
    atomic_store(&w->region.areas[1].cma.results[kind][class],
                 atomic_load(&w->region.areas[0].cma.results[kind][class]));
    return coll->measured;
}

static void check_ends(struct world *w, size_t bytes, bool first_direct, bool then_direct) {
    enum { LONG_ENOUGH = 100 };
    bool trial = true;
    for (int i = 0; i < LONG_ENOUGH; i++) trial = run(w, bytes, i % 2 ? then_direct : first_direct);
    assert_false(trial);
    assert_false(run(w, bytes, first_direct));
}

static void trials_end_after_those_of_other_memory(void **state) {
    (void)state;
    for (int first_direct = 0; first_direct < 2; first_direct++) {
        struct world *w = open_world(MST_KIND_ALL_GATHER, MSI_COPY_NEVER);
        check_ends(w, 64 * MIB, first_direct, first_direct);
        check_ends(w, 64 * MIB, !first_direct, !first_direct);
        close_world(w);
    }
}

/* NT stores are not tried for the smaller one. */
static void trials_end_for_two_sizes_of_a_class(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world *w = open_world(MST_KIND_ALL_GATHER, i ? MSI_COPY_AUTO : MSI_COPY_NEVER);
        w->cma_is_faster = i == 2;
        check_ends(w, 16 * MIB, false, false);
        check_ends(w, 32 * MIB, false, false);
        assert_int_equal(w->coll.by_cma, w->cma_is_faster);
        close_world(w);
    }
}

static void trials_end_if_memory_alternates(void **state) {
    (void)state;
    static const size_t sizes[] = {MIB, 64 * MIB};
    for (size_t i = 0; i < 4; i++) {
        struct world *w = open_world(MST_KIND_ALL_GATHER, MSI_COPY_AUTO);
        w->cma_is_faster = i / 2;
        check_ends(w, sizes[i % 2], false, true);
        close_world(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_end_after_those_of_other_memory),
        cmocka_unit_test(trials_end_for_two_sizes_of_a_class),
        cmocka_unit_test(trials_end_if_memory_alternates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
