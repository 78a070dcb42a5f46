/* first_failure.c - finds the root cause. See failure.h. Reads only. */
#include "run/failure/failure.h"

#include <string.h>

int first_failure_culprit(const struct worker *worker, const struct rank_states *states) {
    struct rank_state_view view;
    rank_states_read(states, worker->local_rank, &view);
    /* In a world that the program made itself, ranks may have other numbers. */
    if (!view.has_error || !view.stage.is_here || view.stage.rank != worker->rank) return -1;
    if (view.is_earlier && strcmp(view.operation, "mst_destroy_process_group") != 0) return -1;
    return view.culprit;
}

/* The worker that a worker blames, if that one ended of itself: even with code 0, others still needed it. */
static const struct worker *blamed_by(const struct worker *worker, const struct worker *workers, int n,
                                      const struct rank_states *states) {
    int rank = first_failure_culprit(worker, states);
    for (int i = 0; i < n; i++)
        if (workers[i].rank == rank)
            return &workers[i] != worker && !workers[i].running && workers[i].unasked ? &workers[i] : NULL;
    return NULL;
}

const struct worker *first_failure(const struct worker *first, const struct worker *workers, int n,
                                   const struct rank_states *states) {
    const struct worker *at = first;
    for (int hops = 0; hops < n; hops++) {
        const struct worker *next = blamed_by(at, workers, n, states);
        if (!next) return at;
        at = next;
    }
    return first;
}
