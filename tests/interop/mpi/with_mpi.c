/*
 * with_mpi.c - a program that uses MPI beside muster: with_mpi mpi (MPI_Init first) or with_mpi muster
 * (mst_init first), and "again" for mst_init after MPI_Finalize as well. Built by test_mpirun.py with each
 * MPI's compiler.
 */
#include <mpi.h>
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

static int failed(void) {
    fprintf(stderr, "%s\n", mst_error());
    return 1;
}

int main(int argc, char **argv) {
    int mpi_first = argc > 1 && !strcmp(argv[1], "mpi"), again = argc > 2;
    float one = 1, mpi_sum = 0, sum = 1;
    if (mpi_first) MPI_Init(&argc, &argv);
    if (mst_init() != MST_OK) return failed();
    if (!mpi_first) MPI_Init(&argc, &argv);
    if (mst_all_reduce(&sum, 1, MST_F32) != MST_OK) return failed();
    MPI_Allreduce(&one, &mpi_sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (mst_destroy_process_group(NULL) != MST_OK || mst_init() != MST_OK) return failed();
    if (mst_destroy_process_group(NULL) != MST_OK) return failed();
    MPI_Finalize();
    if (again && (mst_init() != MST_OK || mst_destroy_process_group(NULL) != MST_OK)) return failed();
    printf("muster %g, MPI %g\n", (double)sum, (double)mpi_sum);
    return 0;
}
