/* failing_backend.c - see failing_backend.h. No operation is ever submitted to it. */
#include "failing_backend.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int failing_rank;

static bool probe(char *text, size_t capacity) {
    snprintf(text, capacity, "a backend that one rank cannot open");
    return true;
}
static const mst_backend_capability *capabilities(void) {
    static const mst_backend_capability all[] = {{.kinds = 1u << MST_KIND_SEND | 1u << MST_KIND_RECV}, {0}};
    return all;
}
static mst_status open_engine(const mst_backend_host *host, mst_backend_engine **engine,
                              mst_backend_traits *traits) {
    (void)traits;
    if (host->world_rank == failing_rank)
        return host->fail(host, MST_ERR_SYSTEM, -1, "expected by the test",
                          "this rank cannot open the backend");
    *engine = (mst_backend_engine *)(void *)&failing_rank;
    return MST_OK;
}
static mst_status submit(mst_backend_engine *engine, mst_backend_op *op) {
    (void)engine;
    (void)op;
    abort();
}
static mst_status progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    (void)engine;
    (void)op;
    (void)done;
    abort();
}
static void end(mst_backend_engine *engine) {
    (void)engine;
}

static const mst_backend table = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof table,
    .name = "failing",
    .title = "a backend that one rank cannot open",
    .probe = probe,
    .rows = capabilities,
    .open = open_engine,
    .submit = submit,
    .progress = progress,
    .abort = end,
    .close = end,
};

mst_group *new_failing_group(int rank) {
    mst_group *group = NULL;
    int ranks[64], n = mst_get_world_size(NULL);
    assert(n <= 64);
    for (int i = 0; i < n; i++) ranks[i] = i;
    failing_rank = rank;
    mst_status st = mst_backend_register(&table);
    if (st == MST_OK) st = mst_new_group(ranks, n, &group, .backend = "failing");
    if (st != MST_OK) fprintf(stderr, "%s\n", mst_error());
    return group;
}
