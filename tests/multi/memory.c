/*
 * memory.c - the shared memory that ranks hold, and the first barrier. Run it under a launcher.
 *
 *   memory groups N    N groups of all ranks, used in turns with small and large data
 *   memory messages    operations of 4 B to 64 MiB in the world, then messages between all pairs of ranks
 *   memory first       the first barriers: milliseconds from when the last rank enters until the last one
 *                      leaves, of the longest call, and page faults
 *
 * The first two write a line for each phase: its name, and the resident KiB of all regions and of all links.
 * Exits with 1 if a result is wrong.
 */
#include "os/clock.h"

#include <muster/muster.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096, SOME = 40 };

static int me, size;

static void check(mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "rank %d: %s: %s: %s\n", me, what, mst_status_name(status), mst_error());
    exit(1);
}
#define CHECK(call) check(call, #call)

/* Resident KiB of the segments with this name that this process maps, whoever has touched them. */
static double resident(const char *name) {
    static unsigned char pages[(64 << 20) / PAGE];
    char line[512];
    size_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long long from, to;
        if (!strstr(line, name) || sscanf(line, "%llx-%llx", &from, &to) != 2) continue;
        for (uintptr_t at = from; at < to; at += sizeof pages * PAGE) {
            size_t len = to - at < sizeof pages * PAGE ? to - at : sizeof pages * PAGE;
            if (mincore((void *)at, len, pages)) continue;
            for (size_t i = 0; i < len / PAGE; i++) n += pages[i] & 1;
        }
    }
    if (maps) fclose(maps);
    return (double)n * PAGE / 1024;
}

/* All ranks map a region, and two of them map a link. */
static void report(const char *phase) {
    double kib[] = {resident("memfd:muster-region") / size, resident("memfd:muster-link") / 2};
    CHECK(mst_all_reduce(kib, 2, MST_F64));
    if (me == 0) printf("%s\t%.0f\t%.0f\n", phase, kib[0], kib[1]);
    fflush(stdout);
}

/* An all_reduce of this many floats, with a result that depends on all of them. */
static void sum(float *buf, size_t n, unsigned g, mst_group *group) {
    for (size_t i = 0; i < n; i++) buf[i] = (float)((i + g) % 100 + (unsigned)me);
    CHECK(mst_all_reduce(buf, n, MST_F32, .group = group));
    for (size_t i = 0; i < n; i++) {
        float want = (float)((unsigned)size * ((i + g) % 100) + (unsigned)(size * (size - 1) / 2));
        if (buf[i] == want) continue;
        fprintf(stderr, "rank %d: group %u, element %zu: %g, not %g\n", me, g, i, (double)buf[i],
                (double)want);
        exit(1);
    }
}

static void broadcast(unsigned char *buf, unsigned g, mst_group *group) {
    memset(buf, me == (int)g % size ? (int)g % 256 : 0, MIB);
    CHECK(mst_broadcast(buf, MIB, MST_U8, .root = (int)g % size, .group = group));
    for (size_t i = 0; i < MIB; i++) {
        if (buf[i] == g % 256) continue;
        fprintf(stderr, "rank %d: broadcast in group %u, byte %zu: %d\n", me, g, i, buf[i]);
        exit(1);
    }
}

static void groups(unsigned n) {
    mst_group **all = calloc(n, sizeof(mst_group *));
    int *ranks = calloc((size_t)size, sizeof *ranks);
    float *buf = malloc(MIB);
    unsigned some = n < SOME ? n : SOME;
    if (!all || !ranks || !buf) exit(1);
    for (int r = 0; r < size; r++) ranks[r] = r;
    for (unsigned g = 0; g < n; g++) CHECK(mst_new_group(ranks, size, &all[g]));
    for (unsigned g = 0; g < n; g++) {
        CHECK(mst_barrier(.group = all[g]));
        sum(buf, 1, g, all[g]);
    }
    report("4 B");
    for (unsigned g = 0; g < n; g++) sum(buf, 1024, g, all[g]);
    report("4 KiB");
    for (unsigned g = 0; g < n; g++) sum(buf, MIB / sizeof *buf, g, all[g]);
    report("1 MiB");
    for (int turn = 0; turn < 3; turn++) {
        for (unsigned g = 0; g < some; g++) {
            sum(buf, 1024, g, all[g]);
            sum(buf, MIB / sizeof *buf, g, all[g]);
            broadcast((unsigned char *)buf, g, all[g]);
        }
    }
    report("in turns");
    for (unsigned g = 0; g < n; g++) CHECK(mst_destroy_process_group(all[g]));
    free(all);
    free(ranks);
    free(buf);
}

static void exchange(size_t bytes) {
    unsigned char *out = malloc(bytes), *in = malloc(bytes);
    if (!out || !in) exit(1);
    for (int i = 1; i < size; i++) {
        int to = (me + i) % size, from = (me + size - i) % size;
        mst_work *work;
        memset(out, me + to, bytes);
        CHECK(mst_isend(out, bytes, MST_U8, to, .work = &work));
        CHECK(mst_recv(in, bytes, MST_U8, from));
        CHECK(mst_wait(work));
        for (size_t at = 0; at < bytes; at++)
            if (in[at] != (unsigned char)(from + me)) exit(1);
    }
    free(out);
    free(in);
}

static void messages(void) {
    size_t most = 64 * (size_t)MIB;
    float *buf = malloc(most);
    char *all = malloc(most);
    if (!buf || !all) exit(1);
    for (size_t bytes = 4; bytes <= most; bytes *= 4) {
        sum(buf, bytes / sizeof *buf, 0, NULL);
        CHECK(mst_broadcast(buf, bytes, MST_U8));
        if (bytes * (size_t)size <= most) CHECK(mst_all_gather_into_tensor(all, buf, bytes, MST_U8));
    }
    report("collectives");
    for (int i = 0; i < 20; i++) exchange(4);
    report("messages of 4 B");
    for (int i = 0; i < 5; i++) exchange(MIB);
    for (int i = 0; i < 20; i++) exchange(100);
    report("messages of 1 MiB");
    free(buf);
    free(all);
}

static long faults(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
}

/* The time from when the last rank enters until the last one leaves, and the longest call. */
static void first(void) {
    enum { TURNS = 3, VALUES = 4 };
    double of[TURNS][VALUES];
    for (int i = 0; i < TURNS; i++) {
        long before = faults();
        int64_t begin = msi_now();
        CHECK(mst_barrier());
        int64_t end = msi_now();
        of[i][0] = (double)begin / 1e6;
        of[i][1] = (double)end / 1e6;
        of[i][2] = (double)(end - begin) / 1e6;
        of[i][3] = (double)(faults() - before);
    }
    CHECK(mst_all_reduce(of, TURNS * VALUES, MST_F64, .op = MST_MAX));
    for (int i = 0; i < TURNS - 1 && me == 0; i++) /* ranks that have left the last one take processor time */
        printf("barrier\t%.1f\t%.1f\t%.0f\n", of[i][1] - of[i][0], of[i][2], of[i][3]);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    CHECK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (strcmp(what, "first") == 0) {
        first();
    } else if (strcmp(what, "groups") == 0) {
        groups(argc > 2 ? (unsigned)atoi(argv[2]) : 1000);
    } else {
        messages();
    }
    CHECK(mst_destroy_process_group(NULL));
    return 0;
}
