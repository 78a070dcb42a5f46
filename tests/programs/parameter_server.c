/*
 * parameter_server.c - one rank holds the parameters of a model, the others train it asynchronously.
 *
 * A worker sends requests as text, "pull LAYER" or "push LAYER", with the tag REQUEST. The answer to a pull
 * and the gradient of a push are tensors with tags of their own. The server takes requests from any worker.
 * With three and more ranks, rank 0 only monitors: server and workers form a group without it, in which their
 * ranks differ from those in the world. Gradients are integers, so that their order does not matter.
 */
#include "program.h"
#include <string.h>

enum { LAYERS = 3, PUSHES = 8, SERVER = 0, MONITOR = 0 };
enum { REQUEST = 1, PARAMETERS, GRADIENT, REPORT }; /* tags */

/* The messages of the layers have 40 bytes, 8 kB and 320 kB. */
static const size_t lengths[LAYERS] = {5, 1000, 40000};

static int64_t gradient(int worker, int push, size_t i) {
    return worker * 1000 + push * 10 + (int64_t)(i % 7);
}

static int layer_of(int worker, int push) {
    return (worker + push) % LAYERS;
}

/* The parameter that results from all pushes of the workers first to last, computed without messages. */
static int64_t expected(int layer, size_t i, int first, int last) {
    int64_t value = layer;
    for (int worker = first; worker <= last; worker++)
        for (int push = 0; push < PUSHES; push++)
            if (layer_of(worker, push) == layer) value += gradient(worker, push, i);
    return value;
}

static void serve(mst_group *group, int64_t **parameters, int64_t *buffer) {
    int workers = mst_get_world_size(group) - 1, requests = 0;
    for (int finished = 0; finished < workers; requests++) {
        mst_bytes request;
        int worker, layer;
        check(mst_recv_bytes(&request, MST_ANY_SOURCE, .tag = REQUEST, .sender = &worker, .group = group));
        expect(worker > 0 && worker <= workers, "a request from group rank %d", worker);
        expect(strlen(request.data) == request.len, "a request of %zu bytes: '%s'", request.len,
               request.data);
        if (!strcmp(request.data, "done")) {
            finished++;
        } else if (sscanf(request.data, "pull %d", &layer) == 1) {
            check(mst_send(parameters[layer], lengths[layer], MST_I64, worker, .tag = PARAMETERS,
                           .group = group));
        } else {
            expect(sscanf(request.data, "push %d", &layer) == 1, "the request '%s'", request.data);
            check(mst_recv(buffer, lengths[layer], MST_I64, worker, .tag = GRADIENT, .group = group));
            for (size_t i = 0; i < lengths[layer]; i++) parameters[layer][i] += buffer[i];
        }
        mst_bytes_free(&request);
    }
    expect(requests == workers * (2 * PUSHES + 1), "%d requests of %d workers", requests, workers);
}

static void work(mst_group *group, int64_t **parameters, int64_t *buffer) {
    int worker = mst_get_rank(group), workers = mst_get_world_size(group) - 1;
    char request[32];
    for (int push = 0; push < PUSHES; push++) {
        int layer = layer_of(worker, push), length = snprintf(request, sizeof request, "push %d", layer);
        for (size_t i = 0; i < lengths[layer]; i++) buffer[i] = gradient(worker, push, i);
        check(mst_send_bytes(request, (size_t)length, SERVER, .tag = REQUEST, .group = group));
        check(mst_send(buffer, lengths[layer], MST_I64, SERVER, .tag = GRADIENT, .group = group));

        /* The answer contains at least the pushes of this worker, and at most those of all workers. */
        length = snprintf(request, sizeof request, "pull %d", layer);
        check(mst_send_bytes(request, (size_t)length, SERVER, .tag = REQUEST, .group = group));
        check(
            mst_recv(parameters[layer], lengths[layer], MST_I64, SERVER, .tag = PARAMETERS, .group = group));
        for (size_t i = 0; i < lengths[layer]; i++) {
            int64_t value = parameters[layer][i], most = expected(layer, i, 1, workers), least = layer;
            for (int p = 0; p <= push; p++)
                least += layer_of(worker, p) == layer ? gradient(worker, p, i) : 0;
            expect(value >= least && value <= most, "push %d: parameter %d[%zu] is %lld, not %lld to %lld",
                   push, layer, i, (long long)value, (long long)least, (long long)most);
        }
    }
    check(mst_send_bytes("done", 4, SERVER, .tag = REQUEST, .group = group));
}

/* All ranks of the group get the final parameters; the server reports to the monitor. */
static void compare(mst_group *group, int64_t **parameters) {
    int workers = mst_get_world_size(group) - 1;
    for (int layer = 0; layer < LAYERS; layer++) {
        check(mst_broadcast(parameters[layer], lengths[layer], MST_I64, .root = SERVER, .group = group));
        for (size_t i = 0; i < lengths[layer]; i++)
            expect(parameters[layer][i] == expected(layer, i, 1, workers),
                   "parameter %d[%zu] is %lld, not %lld", layer, i, (long long)parameters[layer][i],
                   (long long)expected(layer, i, 1, workers));
    }
}

int main(void) {
    check(mst_init());
    int rank = mst_get_rank(NULL), size = mst_get_world_size(NULL), monitored = size >= 3;
    int64_t *parameters[LAYERS], *buffer = allocate(lengths[LAYERS - 1], sizeof *buffer);
    for (int layer = 0; layer < LAYERS; layer++) {
        parameters[layer] = allocate(lengths[layer], sizeof **parameters);
        for (size_t i = 0; i < lengths[layer]; i++) parameters[layer][i] = layer;
    }
    if (monitored && rank == MONITOR) {
        mst_bytes report;
        int sender;
        check(mst_recv_bytes(&report, MST_ANY_SOURCE, .tag = REPORT, .sender = &sender));
        expect(sender == 1 && !strcmp(report.data, "trained"), "the report '%s' of rank %d", report.data,
               sender);
        mst_bytes_free(&report);
    } else {
        mst_group *group;
        int *ranks = allocate((size_t)size, sizeof *ranks), n = 0;
        for (int r = monitored; r < size; r++) ranks[n++] = r;
        check(mst_new_group(ranks, n, &group, .name = "service"));
        (mst_get_rank(group) == SERVER ? serve : work)(group, parameters, buffer);
        compare(group, parameters);
        if (monitored && mst_get_rank(group) == SERVER)
            check(mst_send_bytes("trained", 7, MONITOR, .tag = REPORT));
        free(ranks);
    }
    for (int layer = 0; layer < LAYERS; layer++) free(parameters[layer]);
    free(buffer);
    return finish("parameter_server");
}
