/*
 * exec_kit.h - runs the plans of several ranks over links, alternately in one thread, and checks the results.
 */
#ifndef TESTS_EXEC_KIT_H
#define TESTS_EXEC_KIT_H

#include "harness.h"

#include "coll/algorithms/planners.h"
#include "coll/executor.h"

enum { MOST_RANKS = 7, MOST_ELEMENTS = 4000 };

struct world {
    int size;
    struct msi_link *links[MOST_RANKS][MOST_RANKS];
    struct msi_plan plans[MOST_RANKS];
    struct msi_exec execs[MOST_RANKS];
    int32_t in[MOST_RANKS][MOST_ELEMENTS], out[MOST_RANKS][MOST_ELEMENTS];
};

static inline void close_links(struct world *world) {
    for (int a = 0; a < world->size; a++)
        for (int b = 0; b < world->size; b++) {
            if (world->links[a][b]) world->links[a][b]->ops->close(world->links[a][b]);
            world->links[a][b] = NULL;
        }
}

static inline void free_world(struct world *world) {
    close_links(world);
    for (int r = 0; r < MOST_RANKS; r++) {
        msi_plan_free(&world->plans[r]);
        msi_exec_free(&world->execs[r]);
    }
    free(world);
}

static inline int32_t value(int rank, size_t i) {
    return (int32_t)((uint32_t)(rank + 1) * 2654435761u ^ (uint32_t)i * 40503u);
}

static inline void begin(struct world *world, const struct msi_planner *planner, struct msi_request request) {
    for (int r = 0; r < world->size; r++) {
        request.rank = r;
        assert_ok(msi_plan_make(&world->plans[r], planner, &request));
        for (size_t i = 0; i < MOST_ELEMENTS; i++) {
            world->in[r][i] = value(r, i);
            world->out[r][i] = -1;
        }
        struct msi_exec_run run = {.plan = &world->plans[r],
                                   .links = world->links[r],
                                   .in = world->in[r],
                                   .out = world->out[r],
                                   .raw_size = sizeof(int32_t),
                                   .scale = {.ranks = world->size}};
        if (msi_coll_reduces(request.kind)) run.reducer = msi_reducer_get(MST_I32, MST_SUM);
        assert_ok(msi_exec_begin(&world->execs[r], &run));
    }
}

/* Advances a run and the links that it waits for. */
static inline void poll_exec(struct msi_exec *e) {
    msi_exec_advance(e);
    for (uint32_t i = 0; i < e->n_heads && e->status == MST_OK; i++) {
        struct msi_link *link = e->run.links[e->run.plan->steps[e->heads[i]].peer];
        if (msi_link_busy(link)) link->ops->progress(link);
    }
    msi_exec_advance(e);
}

/* Returns true when all runs have ended. */
static inline bool take_turns(struct world *world) {
    int64_t start = msi_now();
    bool over = false;
    while (!over && ms_since(start) < 20000) {
        over = true;
        for (int r = 0; r < world->size; r++) {
            poll_exec(&world->execs[r]);
            over &= msi_exec_over(&world->execs[r]);
        }
    }
    return over;
}

static inline int32_t wanted(const struct msi_request *q, int rank, size_t i) {
    size_t at = q->kind == MSI_KIND_REDUCE_SCATTER ? (size_t)rank * q->count + i : i;
    uint32_t sum = 0;
    switch (q->kind) {
    case MSI_KIND_BROADCAST:
        return value(q->root, i);
    case MSI_KIND_SCATTER:
        return value(q->root, (size_t)rank * q->count + i);
    case MSI_KIND_ALL_GATHER:
    case MSI_KIND_GATHER:
        return value((int)(i / q->count), i % q->count);
    case MSI_KIND_ALL_TO_ALL:
        return value((int)(i / q->count), (size_t)rank * q->count + i % q->count);
    default:
        for (int r = 0; r < q->size; r++)
            if ((q->kind != MSI_KIND_SCAN || r <= rank) && (q->kind != MSI_KIND_EXSCAN || r < rank))
                sum += (uint32_t)value(r, at);
        return (int32_t)sum;
    }
}

static inline size_t out_count(const struct msi_request *q, int rank) {
    size_t n = (size_t)q->size;
    switch (q->kind) {
    case MSI_KIND_REDUCE:
        return rank == q->root ? q->count : 0;
    case MSI_KIND_GATHER:
        return rank == q->root ? n * q->count : 0;
    case MSI_KIND_ALL_GATHER:
    case MSI_KIND_ALL_TO_ALL:
        return n * q->count;
    case MSI_KIND_BARRIER:
        return 0;
    case MSI_KIND_EXSCAN:
        return rank ? q->count : 0;
    default:
        return q->count;
    }
}

static inline void check(struct world *world, const struct msi_request *q, const char *name) {
    for (int r = 0; r < q->size; r++) {
        assert_status(world->execs[r].status, MST_OK);
        size_t n = out_count(q, r);
        for (size_t i = 0; i < MOST_ELEMENTS; i++)
            if (world->out[r][i] != (i < n ? wanted(q, r, i) : -1))
                fail_msg("%s:%s of %d ranks: rank %d is wrong at %zu", msi_coll_name(q->kind), name, q->size,
                         r, i);
    }
}

/* Fills in a request for so many ranks on one to three hosts; false if the planner does not support it. */
static inline bool make_request(const struct msi_planner *planner, int size, size_t count, size_t chunk,
                                struct msi_request *request) {
    static const int of[MOST_RANKS] = {0, 0, 1, 0, 1, 2, 2};
    *request = (struct msi_request){.kind = planner->kind, .size = size, .count = count, .chunk = chunk};
    request->root = size / 2;
    request->hosts = (struct msi_hosts){size < 3   ? 1
                                        : size < 6 ? 2
                                                   : 3,
                                        size < 3   ? size
                                        : size < 4 ? 2
                                                   : 3,
                                        of};
    return size == 1 || !msi_planner_unsupported_reason(planner, request);
}

#endif
