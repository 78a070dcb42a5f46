/*
 * torch_rank.c - a C rank in a process group of PyTorch whose backend is muster. The driver
 * test_torch_backend.py runs it beside bindings/torch/tests/mixed.py. docs/c-and-python.md explains it.
 *
 * RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are those of the launcher. Writes "right".
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

enum { WEIGHTS = 1000 };

static void check(mst_status status) {
    if (status == MST_OK) return;
    fprintf(stderr, "%s\n", mst_error());
    exit(1);
}

static void expect(double got, double wanted, const char *what) {
    if (got == wanted) return;
    fprintf(stderr, "%s: got %g, not %g\n", what, got, wanted);
    exit(1);
}

int main(void) {
    int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
    mst_store *base, *store;
    char url[300];
    /* PyTorch's store, and in it the keys of the default group's backend for the CPU. */
    snprintf(url, sizeof url, "tcp://%s:%s", getenv("MASTER_ADDR"), getenv("MASTER_PORT"));
    check(mst_store_open(url, &base, .world_size = size, .open = true));
    check(mst_store_open_prefix(base, "default_pg/0//cpu/", &store));
    check(mst_init(.rank = rank, .world_size = size, .store = store, .no_discovery = true));

    float sum = (float)rank + 1, weights[WEIGHTS] = {0};
    check(mst_all_reduce(&sum, 1, MST_F32));
    expect((double)sum, size * (size + 1) / 2.0, "all_reduce");
    check(mst_broadcast(weights, WEIGHTS, MST_F32, .root = size - 1)); /* of a Python rank */
    for (int i = 0; i < WEIGHTS; i++) expect((double)weights[i], i, "broadcast");

    /* A pipeline: each stage adds 1 to what it gets from the one before it. */
    double activation[8] = {0};
    if (rank > 0) check(mst_recv(activation, 8, MST_F64, rank - 1));
    expect(activation[7], rank, "activation");
    for (int i = 0; i < 8; i++) activation[i]++;
    if (rank < size - 1) check(mst_send(activation, 8, MST_F64, rank + 1));

    check(mst_barrier());
    check(mst_destroy_process_group(NULL));
    mst_store_free(store);
    mst_store_free(base);
    printf("right\n");
    return 0;
}
