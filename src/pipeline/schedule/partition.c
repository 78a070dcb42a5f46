/*
 * partition.c - see partition.h. Two passes of dynamic programming: the first finds the least possible cost
 * of the largest part, the second the least sum of squares with no part above that. Both go from the last
 * part to the first, so that the choices are read from the first.
 */
#include "pipeline/schedule/partition.h"

#include "base/error.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { LAYERS_MOST = 16384 };

static mst_status check_counts(int layers, int parts) {
    if (parts < 1)
        return msi_fail(MST_ERR_INVALID, NULL, "a model in %d parts; at least one is needed", parts);
    if (layers < parts)
        return msi_fail(MST_ERR_INVALID, "use fewer stages or chunks",
                        "%d layers cannot fill %d parts of a pipeline; each needs at least one", layers,
                        parts);
    if (layers > LAYERS_MOST)
        return msi_fail(MST_ERR_LIMIT, NULL, "%d layers; the limit is %d", layers, LAYERS_MOST);
    return MST_OK;
}

mst_status msi_partition_even(int layers, int parts, int *starts) {
    mst_status st = check_counts(layers, parts);
    if (st != MST_OK) return st;
    for (int k = 0; k <= parts; k++) {
        int more = layers % parts;
        starts[k] = k * (layers / parts) + (k < more ? k : more);
    }
    return MST_OK;
}

struct table {
    int layers, parts;
    double first, last;
    double *sums;     /* [i]: cost of the layers before i */
    double *best;     /* [i]: best result for the layers from i on, if the current part begins there */
    uint16_t *choice; /* [part][i]: end of the part that begins with i */
};

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double cost_of(const struct table *t, int part, int from, int to) {
    return t->sums[to] - t->sums[from] + (part == 0 ? t->first : 0) + (part == t->parts - 1 ? t->last : 0);
}

/* A power of two that scales the limit to about 1: squares stay finite and sums of integers exact. */
static double scale_for(double limit) {
    double scale = 1;
    if (isinf(limit) || limit < 1e-300) return scale;
    while (limit * scale > 1) scale /= 2;
    while (limit * scale < 0.5) scale *= 2;
    return scale;
}

/*
 * Computes best[i] for a part from that of the next part. limit: the most that a part may cost; INFINITY:
 * minimize the largest part instead of the sum of squares. Ascending i, in place: later entries are still
 * those of the next part.
 */
static void one_part(struct table *t, int part, double limit) {
    int after = t->parts - 1 - part; /* later parts, which need a layer each */
    double scale = scale_for(limit);
    for (int i = part; i <= t->layers - after - 1; i++) {
        double least = INFINITY;
        int end = 0;
        for (int k = i + 1; k <= t->layers - after; k++) {
            double cost = cost_of(t, part, i, k);
            if (cost > limit || (isinf(limit) && cost > least)) break;
            double share = cost * scale;
            double all = isinf(limit) ? larger(cost, t->best[k]) : share * share + t->best[k];
            if (all <= least) {
                least = all;
                end = k;
            }
        }
        t->best[i] = least;
        t->choice[(size_t)part * ((size_t)t->layers + 1) + (size_t)i] = (uint16_t)end;
    }
}

static double all_parts(struct table *t, double limit) {
    for (int i = 0; i < t->layers; i++) t->best[i] = INFINITY;
    t->best[t->layers] = 0;
    for (int part = t->parts - 1; part >= 0; part--) one_part(t, part, limit);
    return t->best[0];
}

static mst_status add_up(struct table *t, const struct msi_layer_costs *costs) {
    double sum = 0;
    for (int i = 0; i < t->layers; i++) {
        double cost = costs->layers ? costs->layers[i] : 1;
        if (!(cost >= 0) || isinf(cost))
            return msi_fail(MST_ERR_INVALID, NULL,
                            "layer %d has cost %g, which is not finite and positive or 0", i, cost);
        t->sums[i] = sum;
        sum += cost;
    }
    t->sums[t->layers] = sum;
    if (!(t->first >= 0) || !(t->last >= 0) || isinf(sum + t->first + t->last))
        return msi_fail(MST_ERR_INVALID, NULL,
                        "embedding and head have cost %g and %g, which is not finite and positive or 0",
                        t->first, t->last);
    return MST_OK;
}

static bool get_memory(struct table *t) {
    size_t n = (size_t)t->layers + 1;
    t->sums = malloc(n * sizeof *t->sums);
    t->best = malloc(n * sizeof *t->best);
    t->choice = calloc(n * (size_t)t->parts, sizeof *t->choice);
    return t->sums && t->best && t->choice;
}

static void partition(struct table *t, int *starts) {
    double largest = all_parts(t, INFINITY);
    all_parts(t, largest * (1 + 1e-12)); /* tolerates rounding of sums in another order */
    starts[0] = 0;
    for (int part = 0; part < t->parts; part++)
        starts[part + 1] = t->choice[(size_t)part * ((size_t)t->layers + 1) + (size_t)starts[part]];
}

mst_status msi_partition_weighted(const struct msi_layer_costs *costs, int layers, int parts, int *starts) {
    struct table t = {.layers = layers, .parts = parts, .first = costs->first, .last = costs->last};
    mst_status st = check_counts(layers, parts);
    if (st != MST_OK) return st;
    st = get_memory(&t) ? add_up(&t, costs) : msi_fail_memory();
    if (st == MST_OK) partition(&t, starts);
    free(t.sums);
    free(t.best);
    free(t.choice);
    return st;
}
