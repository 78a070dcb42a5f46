/*
 * groups.c - many overlapping groups, created in a different order on each rank and used in the same order on
 * all. Run it under a launcher; exits with 0 on success.
 *
 *   groups COUNT
 *
 * member(g, rank) defines the members of group g, so all ranks know them without communication.
 */
#include <assert.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64 };

static int me, size;

/* A hash, the same on all ranks. */
static unsigned mix(unsigned a, unsigned b) {
    unsigned x = a * 2654435761u ^ (b + 0x9e3779b9u);
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

/* Every tenth group has the same members as the group ten before it; others may have the same by chance. */
static bool member(unsigned g, int rank) {
    if (g % 10 == 9 && g >= 10) return member(g - 10, rank);
    return mix(g, (unsigned)rank) % 2 == 0 || (unsigned)rank == g % (unsigned)size;
}

static void check(mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "rank %d: %s: %s: %s\n", me, what, mst_status_name(status), mst_error());
    exit(1);
}

#define CHECK(call) check(call, #call)

static int members(unsigned g, int *ranks) {
    int n = 0;
    for (int r = 0; r < size; r++)
        if (member(g, r)) ranks[n++] = r;
    return n;
}

/* The list of ranks need not be sorted: each rank passes it in another order. */
static void make(unsigned g, mst_group **group) {
    int ranks[RANKS_MAX], n = members(g, ranks);
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(mix(g + 1, (unsigned)(me * 100 + i)) % (unsigned)(i + 1)), swapped = ranks[i];
        ranks[i] = ranks[j];
        ranks[j] = swapped;
    }
    CHECK(mst_new_group(ranks, n, group, .name = g % 2 ? "odd" : NULL));
}

static void check_getters(unsigned g, const mst_group *group) {
    int ranks[RANKS_MAX], got[RANKS_MAX + 1], n = members(g, ranks), mine = -1;
    for (int i = 0; i < n; i++)
        if (ranks[i] == me) mine = i;
    assert(mst_get_rank(group) == mine);
    assert(mst_get_world_size(group) == (mine < 0 ? -1 : n));
    assert(mst_get_process_group_ranks(group, got, RANKS_MAX) == n);
    assert(!memcmp(got, ranks, (size_t)n * sizeof *ranks));
    got[n - 1] = -7;
    assert(mst_get_process_group_ranks(group, got, n - 1) == n && got[n - 1] == -7);
    assert(mst_get_process_group_ranks(group, NULL, 0) == n);
    for (int r = -1, i = 0; r <= size; r++) {
        bool in = r >= 0 && r < size && member(g, r);
        assert(mst_get_group_rank(group, r) == (in ? i : -1));
        if (!in) assert(mst_last_error()->status == MST_ERR_INVALID);
        i += in;
    }
    for (int i = 0; i < n; i++) assert(mst_get_global_rank(group, i) == ranks[i]);
    assert(mst_get_global_rank(group, -1) == -1 && mst_get_global_rank(group, n) == -1);
    assert(mst_get_local_rank(group) == me && mst_get_local_size(group) == size);
    assert(mst_get_host_count(group) == 1);
    if (mine < 0) assert(mst_barrier(.group = (mst_group *)(uintptr_t)group) == MST_ERR_NOT_MEMBER);
}

static void check_refusals(void) {
    mst_group *none = (mst_group *)&size;
    mst_group *const before = none;
    assert(mst_new_group(((int[]){0, size}), 2, &none) == MST_ERR_INVALID);
    assert(mst_new_group(((int[]){-1}), 1, &none) == MST_ERR_INVALID);
    assert(mst_new_group(((int[]){0, 0}), 2, &none) == MST_ERR_INVALID);
    assert(strstr(mst_error(), "rank 0 is named twice"));
    assert(mst_new_group(((int[]){0}), 0, &none) == MST_ERR_INVALID);
    assert(mst_new_group(((int[]){0}), -1, &none) == MST_ERR_INVALID);
    assert(mst_new_group(NULL, 1, &none) == MST_ERR_INVALID);
    assert(mst_new_group_with((int[]){0}, 1, NULL, NULL) == MST_ERR_INVALID);
    assert(none == before);
    assert(mst_get_rank_info(NULL, size, &(mst_rank_info){0}) == MST_ERR_INVALID);
    assert(mst_get_rank_info(NULL, 0, NULL) == MST_ERR_INVALID);
}

static bool same_members(unsigned g, unsigned h) {
    for (int r = 0; r < size; r++)
        if (member(g, r) != member(h, r)) return false;
    return true;
}

/*
 * Creates the groups in this rank's own order: forwards, backwards, or rotated. Groups with the same members
 * keep their order, because only the order distinguishes them.
 */
static void make_all(mst_group **groups, unsigned count) {
    for (unsigned i = 0; i < count; i++) groups[i] = NULL;
    for (unsigned i = 0; i < count; i++) {
        unsigned g = me % 3 == 0 ? i : me % 3 == 1 ? count - 1 - i : (i + (unsigned)me * 7) % count;
        for (unsigned twin = 0; twin <= g; twin++)
            if (!groups[twin] && same_members(twin, g)) make(twin, &groups[twin]);
    }
}

int main(int argc, char **argv) {
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 500;
    CHECK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    assert(size <= RANKS_MAX && mst_is_initialized() && mst_is_available());
    mst_group **groups = calloc(count, sizeof *groups);
    assert(groups);
    check_refusals();
    for (int round = 0; round < 2; round++) {
        make_all(groups, count);
        for (unsigned g = 0; g < count; g++) check_getters(g, groups[g]);
        /* A pseudo-random order, the same on all ranks. */
        for (unsigned i = 0; i < count; i++) {
            unsigned g = (i * 7919u + (unsigned)round) % count;
            if (member(g, me)) CHECK(mst_barrier(.group = groups[g], .timeout_ms = 20000));
        }
        for (unsigned g = 0; g < count; g++) CHECK(mst_destroy_process_group(groups[g]));
    }
    free(groups);
    CHECK(mst_barrier(.timeout_ms = 20000));
    mst_group *kept;
    CHECK(mst_new_group(((int[]){me}), 1, &kept)); /* freed with its world */
    CHECK(mst_barrier(.group = kept));
    CHECK(mst_destroy_process_group(NULL));
    assert(!mst_is_initialized() && mst_get_rank(NULL) == -1 && mst_last_error()->status == MST_ERR_STATE);
    return 0;
}
