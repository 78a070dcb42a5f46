/* measure.c - measures every algorithm at every size. See tune.h. */
#include "base/median.h"
#include "group/world.h"
#include "os/clock.h"
#include "tune/tune.h"

#include <math.h>

enum { CALLS_LEAST = 3, CALLS_MOST = 400 };
/* The least time of an operation, as a share of the synchronization that is subtracted; less is noise. */
static const double least_part = 0.25;

const size_t tune_sizes[TUNE_SIZES] = {64, 4 << 10, 64 << 10, 1 << 20, 8 << 20};

/* Does the count mean the whole buffer, which is input and output? Otherwise it means the share of a rank. */
static bool is_whole(enum msi_kind kind) {
    return kind == MSI_KIND_ALL_REDUCE || kind == MSI_KIND_REDUCE || kind == MSI_KIND_BROADCAST ||
           kind == MSI_KIND_SCAN || kind == MSI_KIND_EXSCAN;
}

static mst_status call(const struct tune *tune, const struct tune_point *p) {
    const int root = 0;
    switch (p->planner->kind) {
    case MSI_KIND_ALL_REDUCE:
        return mst_all_reduce(tune->out, p->count, MST_F32, .op = MST_MAX);
    case MSI_KIND_REDUCE:
        return mst_reduce(tune->out, p->count, MST_F32, .root = root, .op = MST_MAX);
    case MSI_KIND_BROADCAST:
        return mst_broadcast(tune->out, p->count, MST_F32, .root = root);
    case MSI_KIND_ALL_GATHER:
        return mst_all_gather_into_tensor(tune->out, tune->in, p->count, MST_F32);
    case MSI_KIND_REDUCE_SCATTER:
        return mst_reduce_scatter_tensor(tune->out, tune->in, p->count, MST_F32, .op = MST_MAX);
    case MSI_KIND_GATHER:
        return mst_gather(tune->out, tune->in, p->count, MST_F32, .root = root);
    case MSI_KIND_SCATTER:
        return mst_scatter(tune->out, tune->in, p->count, MST_F32, .root = root);
    case MSI_KIND_SCAN:
        return mst_scan(tune->out, p->count, MST_F32, .op = MST_MAX);
    case MSI_KIND_EXSCAN:
        return mst_exscan(tune->out, p->count, MST_F32, .op = MST_MAX);
    case MSI_KIND_BARRIER:
        return mst_barrier();
    default:
        return mst_all_to_all_single(tune->out, tune->in, p->count, MST_F32);
    }
}

/* Operations with a root do not synchronize all ranks, so each one is followed by a synchronization. */
static bool needs_sync(enum msi_kind kind) {
    return kind == MSI_KIND_REDUCE || kind == MSI_KIND_BROADCAST || kind == MSI_KIND_GATHER ||
           kind == MSI_KIND_SCATTER || kind == MSI_KIND_SCAN || kind == MSI_KIND_EXSCAN;
}

static mst_status synchronize(void) {
    float nothing = 0;
    return mst_all_reduce(&nothing, 1, MST_F32);
}

/* Times calls of a point, or synchronizations if p is NULL; *seconds is that of one on the slowest rank. */
static mst_status time_calls(const struct tune *tune, const struct tune_point *p, int calls,
                             double *seconds) {
    struct msi_algo *algo = &tune->world->world->tuning.algo;
    mst_status st = synchronize();
    if (p) algo->of[p->planner->kind] = p->planner;
    int64_t start = msi_now();
    for (int i = 0; i < calls && st == MST_OK; i++) {
        if (p) st = call(tune, p);
        if (st == MST_OK && (!p || needs_sync(p->planner->kind))) st = synchronize();
    }
    *seconds = (double)(msi_now() - start) * 1e-9 / calls;
    if (p) algo->of[p->planner->kind] = NULL;
    return st == MST_OK ? mst_all_reduce(seconds, 1, MST_F64, .op = MST_MAX) : st;
}

static mst_status measure(const struct tune *tune, struct tune_point *p, double sync_time, long round) {
    double seconds = 0;
    mst_status st = time_calls(tune, p, CALLS_LEAST, &seconds); /* also connects */
    double fit = tune->o.budget / fmax(seconds, 1e-9);
    int calls = fit < CALLS_LEAST ? CALLS_LEAST : fit > CALLS_MOST ? CALLS_MOST : (int)fit;
    if (st == MST_OK) st = time_calls(tune, p, calls, &seconds);
    if (needs_sync(p->planner->kind)) seconds = fmax(seconds - sync_time, sync_time * least_part);
    p->samples[round] = seconds;
    return st;
}

/* Lists all points that this world supports, with their amounts in the cost model. */
static void list_points(struct tune *tune, const struct msi_tuning *tuning) {
    const struct msi_cost_input input = {.tuning = tuning, .raw_size = 4, .acc_size = 4};
    for (size_t i = 0; i < msi_planner_count; i++) {
        enum msi_kind kind = msi_planners[i].kind;
        int sizes = kind == MSI_KIND_BARRIER ? 1 : TUNE_SIZES;
        for (int s = 0; s < sizes && tune->n < TUNE_POINTS_MOST; s++) {
            struct tune_point *p = &tune->points[tune->n];
            size_t elements = tune_sizes[s] / sizeof(float), share = elements / (size_t)tune->world->size;
            *p = (struct tune_point){
                .planner = &msi_planners[i], .size = s, .count = is_whole(kind) ? elements : share};
            if (p->count == 0) p->count = 1;
            struct msi_request request = {.kind = kind,
                                          .size = tune->world->size,
                                          .count = p->count,
                                          .in_place = is_whole(kind),
                                          .hosts = tune->hosts};
            struct msi_candidate candidate;
            msi_estimate(&input, &request, p->planner, &candidate);
            if (candidate.unsupported) continue;
            msi_cost_amounts(&input, &request, &candidate.formula, p->amounts);
            tune->n++;
        }
    }
}

mst_status tune_measure(struct tune *tune, const struct msi_model *model) {
    struct msi_tuning *tuning = &tune->world->world->tuning, before = *tuning;
    mst_status st = MST_OK;
    tuning->model = *model;
    tuning->algo = (struct msi_algo){{NULL}};
    list_points(tune, tuning);
    for (long round = 0; round < tune->o.rounds && st == MST_OK; round++) {
        double sync_time = 0;
        st = time_calls(tune, NULL, CALLS_MOST, &sync_time);
        for (int i = 0; i < tune->n && st == MST_OK; i++)
            st = measure(tune, &tune->points[i], sync_time, round);
    }
    for (int i = 0; i < tune->n; i++)
        tune->points[i].seconds = msi_median(tune->points[i].samples, tune->o.rounds);
    *tuning = before;
    return st;
}
