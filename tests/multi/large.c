/*
 * large.c - tensors of more than 2^31 elements: send, gather and reduce on two ranks.
 *
 *   muster run -n 2 build/bin/tests/large [shared]
 *
 * shared: in memory of mst_alloc, which the other rank reads in place. Needs about 10 GiB; exits with 77 if
 * there is less. The value of an element is a function of its index and the rank, with a period that divides
 * no power of two. The test checks elements at both ends, around every power of two, and every few thousand
 * elements.
 */
#include <muster/muster.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 65521, STEP = 4093, NEAR = 70, TIMEOUT_MS = 120000, NEEDED_MIB = 13 << 10 };
static const size_t count = ((size_t)1 << 31) + 3;

static int me;
static uint8_t *whole; /* 2 * count */

static void check(mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "large: %s: %s: %s\n", what, mst_status_name(status), mst_error());
    exit(1);
}
#define CHECK(call) check(call, #call)

static uint8_t value(int rank, size_t i) {
    return (uint8_t)(i % PERIOD % 101 + (size_t)rank * 100);
}

static void fill(uint8_t *to, int rank) {
    static uint8_t pattern[PERIOD];
    for (size_t i = 0; i < PERIOD; i++) pattern[i] = value(rank, i);
    for (size_t at = 0; at < count; at += PERIOD)
        memcpy(to + at, pattern, count - at < PERIOD ? count - at : PERIOD);
}

static void look(const char *what, const uint8_t *got, size_t i, int first, int second) {
    uint8_t wanted = (uint8_t)(value(first, i) + (second < 0 ? 0 : value(second, i)));
    if (got[i] == wanted) return;
    fprintf(stderr, "large: rank %d: %s: element %zu is %d instead of %d\n", me, what, i, got[i], wanted);
    exit(1);
}

/* Compares with the elements of rank `first`, or with the sums of both ranks. */
static void compare(const char *what, const uint8_t *got, int first, int second) {
    for (size_t i = 0; i < count; i += STEP) look(what, got, i, first, second);
    for (size_t power = 1; power < count; power *= 2)
        for (size_t i = power < NEAR ? 0 : power - NEAR; i < power + NEAR && i < count; i++)
            look(what, got, i, first, second);
    for (size_t i = count - NEAR; i < count; i++) look(what, got, i, first, second);
}

static void run_all(void) {
    fill(whole, me);
    CHECK(mst_all_reduce(whole, count, MST_U8, .timeout_ms = TIMEOUT_MS));
    compare("all_reduce", whole, 0, 1);
    fill(whole, me);
    CHECK(mst_broadcast(whole, count, MST_U8, .root = 1, .timeout_ms = TIMEOUT_MS));
    compare("broadcast", whole, 1, -1);
    uint8_t *mine = whole + (size_t)me * count;
    fill(mine, me);
    CHECK(mst_all_gather_into_tensor(whole, mine, count, MST_I8, .timeout_ms = TIMEOUT_MS));
    for (int r = 0; r < 2; r++) compare("all_gather_into_tensor", whole + (size_t)r * count, r, -1);
    fill(whole, me);
    if (me == 0) CHECK(mst_send(whole, count, MST_U8, 1, .timeout_ms = TIMEOUT_MS));
    if (me == 1) CHECK(mst_recv(whole, count, MST_U8, 0, .timeout_ms = TIMEOUT_MS));
    if (me == 1) compare("recv", whole, 0, -1);
}

static long available_mib(void) {
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %ld", &kib) != 1) kib = 0;
    if (file) fclose(file);
    return kib >> 10;
}

int main(int argc, char **argv) {
    bool shared = argc > 1 && !strcmp(argv[1], "shared");
    CHECK(mst_init(.timeout_ms = TIMEOUT_MS));
    me = mst_get_rank(NULL);
    if (mst_get_world_size(NULL) != 2) return 2;
    long mib = available_mib(); /* rank 0 decides, before any rank allocates */
    CHECK(mst_broadcast(&mib, 1, MST_I64));
    if (mib < NEEDED_MIB) {
        mst_printf("large: skipped: %ld MiB of memory are available, this needs %d\n", mib, NEEDED_MIB);
    } else {
        if (shared)
            CHECK(mst_alloc(2 * count, (void **)&whole));
        else
            whole = malloc(2 * count);
        if (!whole) return 1;
        run_all();
        mst_printf("large: ok: %zu elements on %d hosts\n", count, mst_get_host_count(NULL));
        CHECK(mst_barrier(.timeout_ms = TIMEOUT_MS));
        if (shared)
            mst_free(whole);
        else
            free(whole);
    }
    CHECK(mst_destroy_process_group(NULL));
    return mib < NEEDED_MIB ? 77 : 0;
}
