/* first_failure.c - see first_failure.h. Looks, and changes nothing. */
#include "run/failure/first_failure.h"

#include <string.h>

static const struct worker *find(const struct worker *workers, int n, int rank) {
    for (int i = 0; i < n; i++)
        if (workers[i].rank == rank) return &workers[i];
    return NULL;
}

int verdict_blames(const struct worker *worker, const struct states *states) {
    struct rank_state_view view;

    rank_states_read(states, worker->local_rank, &view);
    /* In a world of the program's own making, ranks may have other numbers. */
    if (!view.has_error || !view.stage.is_here || view.stage.rank != worker->rank) return -1;
    if (view.is_earlier && strcmp(view.operation, "mst_destroy_process_group") != 0) return -1;
    return view.culprit;
}

/* Whom the worker blames, if that one ended of itself. */
static const struct worker *blamed_by(const struct worker *worker, const struct worker *workers, int n,
                                      const struct states *states) {
    const struct worker *blamed = find(workers, n, verdict_blames(worker, states));
    bool ended = blamed != NULL && !blamed->running; /* with 0, in the middle of what others needed it for */
    return ended && blamed != worker && blamed->unasked ? blamed : NULL;
}

const struct worker *verdict(const struct worker *first, const struct worker *workers, int n,
                             const struct states *states) {
    const struct worker *at = first;

    for (int hops = 0; hops < n; hops++) {
        const struct worker *next = blamed_by(at, workers, n, states);
        if (next == NULL) return at;
        at = next;
    }
    return first;
}
