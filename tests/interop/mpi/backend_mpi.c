/*
 * backend_mpi.c - a program that has started MPI itself and then uses muster with the backend mpi:
 *
 *   backend_mpi LEVEL [thread]
 *
 * LEVEL is that of MPI_Init_thread: single, funneled, serialized or multiple; with "thread" muster is used
 * from another thread than MPI. Its own traffic goes between muster's. Built by test_backend_mpi.py with each
 * MPI's compiler.
 */
#include <mpi.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 1000, PATIENCE_MS = 20000 };

static const char *const levels[] = {"single", "funneled", "serialized", "multiple"};
static const int numbers[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                              MPI_THREAD_MULTIPLE};

static int rank, size;

static int failed(const char *what) {
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, mst_error());
    return 1;
}

/* A group of all but the last rank, in another order than MPI's. */
static int use_group(void) {
    int members[64], n = size > 1 ? size - 1 : 1, value = rank;
    mst_group *group = NULL;
    for (int i = 0; i < n; i++) members[i] = n - 1 - i;
    if (rank >= n) return 0;
    if (mst_new_group(members, (size_t)n, &group) != MST_OK) return failed("mst_new_group");
    if (mst_broadcast(&value, 1, MST_I32, .root = n - 1, .group = group) != MST_OK)
        return failed("mst_broadcast");
    if (value != n - 1) return failed("a wrong value");
    return mst_destroy_process_group(group) == MST_OK ? 0 : failed("mst_destroy_process_group");
}

static int use_muster(void) {
    float data[COUNT], more[COUNT];
    mst_work *work = NULL;
    for (int i = 0; i < COUNT; i++) data[i] = more[i] = (float)(i + rank);
    if (mst_all_reduce(data, COUNT, MST_F32) != MST_OK) return failed("mst_all_reduce");
    if (mst_all_reduce(more, COUNT, MST_F32, .work = &work) != MST_OK) return failed("mst_all_reduce");
    if (mst_wait(work) != MST_OK) return failed("mst_wait");
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (float)(size * i + size * (size - 1) / 2) || more[i] != data[i])
            return failed("a wrong sum");
    return use_group();
}

static void *on_thread(void *code) {
    *(int *)code = use_muster();
    return NULL;
}

int main(int argc, char **argv) {
    int provided = 0, code = 0, level = 0, mine, sum = 0;
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        if (argc > 1 && !strcmp(argv[1], levels[i])) level = numbers[i];
    MPI_Init_thread(&argc, &argv, level, &provided);
    if (mst_init(.timeout_ms = PATIENCE_MS) != MST_OK) return failed("mst_init");
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (argc > 2) {
        pthread_create(&thread, NULL, on_thread, &code);
        pthread_join(thread, NULL);
    } else {
        code = use_muster();
    }
    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!code && sum != size * (size + 1) / 2) code = failed("MPI's own sum");
    mst_destroy_process_group(NULL);
    MPI_Finalize();
    if (!code) printf("ok with %s, backend over level %d\n", argc > 1 ? argv[1] : "", provided - level);
    return code;
}
