/*
 * mpi_init.c - one rank of an MPI in `muster bench init`: initialise, one barrier, finalise. Compiles without
 * muster.
 *
 *   mpirun -n N mpi_init TIMESTAMPS   appends "START END" to the file TIMESTAMPS: CLOCK_MONOTONIC in
 *                                     nanoseconds at the start of main and at the end of the first barrier
 *   mpi_init                          prints the version of the MPI
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int print_version(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    MPI_Get_library_version(text, &len);
    puts(text);
    return 0;
}

int main(int argc, char **argv) {
    long long start = now();
    if (argc < 2) return print_version();
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    long long end = now();
    char line[64];
    int len = snprintf(line, sizeof line, "%lld %lld\n", start, end);
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int failed = fd < 0 || write(fd, line, (size_t)len) != len;
    if (fd >= 0) close(fd);
    MPI_Finalize();
    return failed;
}
