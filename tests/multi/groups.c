/*
 * groups.c - many overlapping groups, created in a different order on each rank and used in the same order on
 * all. Run it under a launcher; exits with 0 on success.
 *
 *   groups COUNT
 *   groups calls    the other calls that make and describe groups, on any number of hosts
 *
 * member(g, rank) defines the members of group g, so all ranks know them without communication.
 */
#include <assert.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* The list of a group without a name need not be sorted: each rank passes it in another order. */
static void make(unsigned g, mst_group **group) {
    int ranks[RANKS_MAX], n = members(g, ranks);
    for (int i = n - 1; i > 0 && g % 2 == 0; i--) {
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

static void check_names(void) {
    mst_group *group, *plain;
    int before = mst_get_pg_count(NULL);
    char desc[] = "replicas of the embedding";
    CHECK(mst_new_group(((int[]){0}), 1, &group, .name = "embedding", .desc = desc));
    desc[0] = 'X'; /* it was copied */
    CHECK(mst_new_group(((int[]){0}), 1, &plain));
    assert(before >= 1 && mst_get_pg_count(NULL) == before + 2 && mst_get_pg_count(group) == before + 2);
    assert(!strcmp(mst_get_group_name(group), "embedding"));
    assert(!strcmp(mst_get_group_desc(group), "replicas of the embedding"));
    assert(!strcmp(mst_get_group_name(plain), "") && !strcmp(mst_get_group_desc(plain), ""));
    assert(!strcmp(mst_get_group_name(NULL), "world") && !strcmp(mst_get_group_desc(NULL), ""));
    CHECK(mst_destroy_process_group(plain));
    assert(mst_get_pg_count(NULL) == before + 1);
    CHECK(mst_destroy_process_group(group));
    assert(mst_get_pg_count(NULL) == before);
    assert(!mst_get_group_name(group) && mst_last_error()->status == MST_ERR_STATE);
    assert(!mst_get_group_desc(group) && mst_get_pg_count(group) == -1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A receive without a sender fails at the deadline of its group instead of the default. */
static void check_timeout(void) {
    mst_group *pair, *later;
    int ranks[RANKS_MAX], got;
    for (int r = 0; r < size; r++) ranks[r] = r;
    CHECK(mst_new_group(ranks, size, &pair));
    assert(mst_group_set_timeout(pair, 0) == MST_ERR_INVALID);
    assert(mst_group_set_timeout(pair, -1) == MST_ERR_INVALID && strstr(mst_error(), "timeout_ms is -1"));
    CHECK(mst_group_set_timeout(pair, 100));
    double begin = seconds();
    mst_status st = size == 1 ? MST_OK : mst_recv(&got, 1, MST_I32, (me + 1) % size, .group = pair);
    assert(size == 1 || (st != MST_OK && st != MST_ERR_INVALID));
    assert(seconds() - begin < 20);
    CHECK(mst_barrier(.timeout_ms = 20000));
    /* The store of a group has its deadline, and a group made later has that of the world. */
    CHECK(mst_group_set_timeout(NULL, 150));
    CHECK(mst_new_group(ranks, size, &later));
    begin = seconds();
    mst_bytes value;
    assert(mst_store_get(mst_get_group_store(later), "missing", &value) == MST_ERR_TIMEOUT);
    assert(seconds() - begin < 20);
    CHECK(mst_group_set_timeout(NULL, 60000));
    CHECK(mst_barrier());
    CHECK(mst_destroy_process_group(later));
    CHECK(mst_destroy_process_group(pair));
    assert(mst_group_set_timeout(pair, 100) == MST_ERR_STATE);
}

/* Each rank reads what the other members wrote. The same key in another group has another value. */
static void check_store(void) {
    mst_group *all, *own;
    int ranks[RANKS_MAX];
    char key[16];
    for (int r = 0; r < size; r++) ranks[r] = r;
    CHECK(mst_new_group(ranks, size, &all));
    CHECK(mst_new_group(&me, 1, &own));
    mst_store *shared = mst_get_group_store(all), *alone = mst_get_group_store(own);
    mst_store *world = mst_get_group_store(NULL);
    assert(shared && alone && world && shared != alone && shared != world);
    assert(mst_get_group_store(all) == shared);
    snprintf(key, sizeof key, "%d", me);
    CHECK(mst_store_set(shared, key, key, strlen(key)));
    CHECK(mst_store_set(alone, "0", "alone", 5));
    for (int r = 0; r < size; r++) {
        mst_bytes value;
        char wanted[16];
        snprintf(wanted, sizeof wanted, "%d", r);
        CHECK(mst_store_get(shared, wanted, &value, .timeout_ms = 20000));
        assert(!strcmp(value.data, wanted));
        mst_bytes_free(&value);
    }
    mst_bytes value;
    CHECK(mst_store_get(alone, "0", &value, .timeout_ms = 20000));
    assert(!strcmp(value.data, "alone"));
    mst_bytes_free(&value);
    bool there = true;
    CHECK(mst_store_check(world, (const char *[]){"0"}, 1, &there));
    assert(!there);
    CHECK(mst_barrier(.timeout_ms = 20000));
    CHECK(mst_store_delete_key(shared, key, NULL));
    CHECK(mst_store_delete_key(alone, "0", NULL));
    CHECK(mst_destroy_process_group(all));
    CHECK(mst_destroy_process_group(own));
    assert(!mst_get_group_store(all) && mst_last_error()->status == MST_ERR_STATE);
    if (size > 1 && me > 0) {
        CHECK(mst_new_group(((int[]){0}), 1, &all));
        assert(!mst_get_group_store(all) && mst_last_error()->status == MST_ERR_NOT_MEMBER);
        CHECK(mst_destroy_process_group(all));
    }
}

/* The sum of the members' ranks shows that they communicate with each other. */
static void check_sum(mst_group *group, const int *ranks, int n) {
    int sum = me, wanted = 0, got[RANKS_MAX];
    for (int i = 0; i < n; i++) wanted += ranks[i];
    assert(mst_get_world_size(group) == n && mst_get_process_group_ranks(group, got, RANKS_MAX) == n);
    assert(!memcmp(got, ranks, (size_t)n * sizeof *ranks) && ranks[mst_get_rank(group)] == me);
    CHECK(mst_all_reduce(&sum, 1, MST_I32, .group = group, .timeout_ms = 20000));
    assert(sum == wanted);
}

static void check_empty(mst_group *group) {
    assert(mst_get_rank(group) == -1 && mst_get_world_size(group) == -1);
    assert(mst_get_process_group_ranks(group, NULL, 0) == 0);
    assert(mst_get_group_rank(group, me) == -1 && mst_get_global_rank(group, 0) == -1);
    assert(mst_barrier(.group = group) == MST_ERR_NOT_MEMBER && strstr(mst_error(), "an empty group"));
}

static void check_subgroups(void) {
    for (int n = 1; n <= size; n++) {
        mst_group *mine = NULL;
        int ranks[RANKS_MAX];
        for (int i = 0; i < n; i++) ranks[i] = me / n * n + i;
        mst_status st = mst_new_subgroups(n, &mine, .name = "node", .desc = "consecutive");
        assert(st == (size % n ? MST_ERR_INVALID : MST_OK));
        if (st != MST_OK) continue;
        assert(!strcmp(mst_get_group_desc(mine), "consecutive"));
        check_sum(mine, ranks, n);
        CHECK(mst_destroy_process_group(mine));
    }
    mst_group *none = NULL;
    assert(mst_new_subgroups(0, &none) == MST_ERR_INVALID && mst_new_subgroups(-1, &none) == MST_ERR_INVALID);
    assert(mst_new_subgroups(size + 1, &none) == MST_ERR_INVALID && !none);
    assert(strstr(mst_error(), "cannot be divided into groups of"));
    assert(mst_new_subgroups_with(1, NULL, NULL) == MST_ERR_INVALID);
}

/* Even ranks, given in descending order, and odd ranks. The last rank of three or more is in no list. */
static void check_enumeration(void) {
    int even[RANKS_MAX], odd[RANKS_MAX], own[RANKS_MAX], n = 0, count[2] = {0, 0}, some = size - (size > 2);
    for (int r = some - 1; r >= 0; r--)
        if (r % 2 == 0) even[count[0]++] = r;
    for (int r = 1; r < some; r += 2) odd[count[1]++] = r;
    const int *lists[] = {even, odd};
    for (int r = me % 2; r < some; r += 2) own[n++] = r;
    mst_group *mine = NULL;
    CHECK(mst_new_subgroups_by_enumeration(lists, count, count[1] ? 2 : 1, &mine));
    if (me < some)
        check_sum(mine, own, n);
    else
        check_empty(mine);
    CHECK(mst_destroy_process_group(mine));
    mst_group *none = NULL;
    const int *twice[] = {(int[]){0}, (int[]){0}}, *outside[] = {(int[]){size}}, *null[] = {NULL};
    const int ones[] = {1, 1}, zero[] = {0};
    assert(mst_new_subgroups_by_enumeration(twice, ones, 2, &none) == MST_ERR_INVALID);
    assert(strstr(mst_error(), size > 1 ? "rank 0 is named twice" : "more ranks than the world"));
    assert(mst_new_subgroups_by_enumeration(outside, ones, 1, &none) == MST_ERR_INVALID);
    assert(mst_new_subgroups_by_enumeration(null, ones, 1, &none) == MST_ERR_INVALID);
    assert(mst_new_subgroups_by_enumeration(twice, zero, 1, &none) == MST_ERR_INVALID);
    assert(mst_new_subgroups_by_enumeration(twice, ones, 0, &none) == MST_ERR_INVALID);
    assert(mst_new_subgroups_by_enumeration(NULL, ones, 1, &none) == MST_ERR_INVALID);
    assert(mst_new_subgroups_by_enumeration(twice, NULL, 1, &none) == MST_ERR_INVALID && !none);
}

/* Every collective kind and a message in a group whose order is that of ranks. */
static void check_order(mst_group *group, const int *ranks, int n) {
    int mine = mst_get_rank(group), all[RANKS_MAX], value = me * 10;
    check_sum(group, ranks, n);
    for (int i = 0; i < n; i++) {
        assert(mst_get_global_rank(group, i) == ranks[i] && mst_get_group_rank(group, ranks[i]) == i);
        int root = me;
        CHECK(mst_broadcast(&root, 1, MST_I32, .root = i, .group = group, .timeout_ms = 20000));
        assert(root == ranks[i]);
    }
    assert(mst_get_group_rank(group, size) == -1);
    CHECK(mst_all_gather_into_tensor(all, &value, 1, MST_I32, .group = group, .timeout_ms = 20000));
    for (int i = 0; i < n; i++) assert(all[i] == ranks[i] * 10);
    if (n == 1) return;
    mst_work *sent;
    int got = -1;
    CHECK(mst_isend(&me, 1, MST_I32, (mine + 1) % n, .group = group, .work = &sent, .timeout_ms = 20000));
    CHECK(mst_recv(&got, 1, MST_I32, (mine + n - 1) % n, .group = group, .timeout_ms = 20000));
    assert(got == ranks[(mine + n - 1) % n]);
    CHECK(mst_wait(sent));
}

/*
 * Splits the parent, which has n ranks, into two colors. The keys reverse the order of the first color and
 * are equal in the second; without_last gives the last rank no group.
 */
static void check_split(mst_group *parent, bool without_last) {
    int n = mst_get_world_size(parent), mine = mst_get_rank(parent), ranks[RANKS_MAX] = {0}, count = 0;
    bool left_out = without_last && mine == n - 1;
    mst_group *group = NULL;
    int color = left_out ? -1 : mine % 2 ? 7 : 0, last = n - 1 - without_last;
    CHECK(mst_split_group(color, color ? 5 : -mine, &group, .group = parent, .name = "half"));
    for (int r = color == 7; r <= last && !left_out; r += 2) ranks[count++] = mst_get_global_rank(parent, r);
    for (int i = 0; color == 0 && i < count / 2; i++) {
        int swapped = ranks[i];
        ranks[i] = ranks[count - 1 - i];
        ranks[count - 1 - i] = swapped;
    }
    if (left_out) {
        assert(mst_get_rank(group) == -1 && mst_get_process_group_ranks(group, NULL, 0) == 0);
        assert(mst_barrier(.group = group) == MST_ERR_NOT_MEMBER);
        assert(mst_split_group(0, 0, &(mst_group *){NULL}, .group = group) == MST_ERR_NOT_MEMBER);
    } else {
        check_order(group, ranks, count);
        assert(!strcmp(mst_get_group_name(group), "half"));
        if (count > 1 && !color) check_split(group, without_last);
    }
    CHECK(mst_destroy_process_group(group));
}

static void check_splits(void) {
    check_split(NULL, false);
    check_split(NULL, true);
    mst_group *all, *own, *same;
    CHECK(mst_split_group(3, 0, &all));
    for (int r = 0; r < size; r++) assert(mst_get_group_rank(all, r) == r);
    CHECK(mst_split_group(me, 0, &own, .group = all));
    assert(mst_get_world_size(own) == 1 && mst_get_global_rank(own, 0) == me);
    /* Ranks make a group of the same ranks before or after the split: both are matched. */
    int ranks[RANKS_MAX];
    mst_group *made;
    for (int r = 0; r < size; r++) ranks[r] = r;
    if (me % 2) CHECK(mst_new_group(ranks, size, &made));
    CHECK(mst_split_group(0, 0, &same, .group = all));
    if (me % 2 == 0) CHECK(mst_new_group(ranks, size, &made));
    check_sum(same, ranks, size);
    check_sum(made, ranks, size);
    assert(mst_split_group_with(0, 0, NULL, NULL) == MST_ERR_INVALID);
    assert(mst_split_group(0, 0, &same, .timeout_ms = -1) == MST_ERR_INVALID);
    CHECK(mst_destroy_process_group(made));
    CHECK(mst_destroy_process_group(same));
    CHECK(mst_destroy_process_group(own));
    CHECK(mst_destroy_process_group(all));
    assert(mst_split_group(0, 0, &same, .group = all) == MST_ERR_STATE);
}

/* Groups with a name: in the order of the list, matched by name, any number of times. */
static void check_named(void) {
    int backward[RANKS_MAX], forward[RANKS_MAX];
    mst_group *again[2], *first, *second, *plain, *wrong = NULL;
    for (int r = 0; r < size; r++) forward[r] = backward[size - 1 - r] = r;
    for (int i = 0; i < 2; i++) CHECK(mst_new_group(backward, size, &again[i], .name = "backward"));
    /* Ranks make groups with other names in another order. */
    if (me % 2) CHECK(mst_new_group(forward, size, &first, .name = "first"));
    CHECK(mst_new_group(backward, size, &second, .name = "second"));
    if (me % 2 == 0) CHECK(mst_new_group(forward, size, &first, .name = "first"));
    CHECK(mst_new_group(backward, size, &plain)); /* without a name: ascending */
    check_order(second, backward, size);
    check_order(again[1], backward, size);
    check_order(first, forward, size);
    check_order(again[0], backward, size);
    check_order(plain, forward, size);
    mst_group *all[] = {again[0], again[1], first, second, plain};
    for (int i = 0; i < 5; i++) CHECK(mst_destroy_process_group(all[i]));
    if (size == 1) return;
    if (me == 0) CHECK(mst_new_group(forward, size, &wrong, .name = "wrong"));
    CHECK(mst_barrier(.timeout_ms = 20000));
    if (me > 0) {
        assert(mst_new_group(backward, size, &wrong, .name = "wrong") == MST_ERR_MISMATCH && !wrong);
        assert(mst_last_error()->culprit == 0 && strstr(mst_error(), "group 'wrong' of ranks 0 1"));
    } else {
        CHECK(mst_destroy_process_group(wrong));
    }
}

static void check_address(void) {
    const char *address = mst_get_advertised_address();
    assert(address && *address);
    setenv("MUSTER_ADVERTISE_ADDR", "192.0.2.7", 1);
    assert(!strcmp(mst_get_advertised_address(), "192.0.2.7"));
    unsetenv("MUSTER_ADVERTISE_ADDR");
    setenv("MUSTER_SOCKET_IFNAME", "no-such-if", 1);
    assert(!mst_get_advertised_address() && mst_last_error()->status == MST_ERR_CONFIG);
    unsetenv("MUSTER_SOCKET_IFNAME");
}

static int run_calls(void) {
    check_names();
    check_named();
    check_address();
    check_store();
    check_subgroups();
    check_enumeration();
    check_splits();
    check_timeout();
    printf("groups: %d ranks on %d hosts\n", size, mst_get_host_count(NULL));
    CHECK(mst_barrier(.timeout_ms = 20000));
    CHECK(mst_destroy_process_group(NULL));
    return 0;
}

int main(int argc, char **argv) {
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 500;
    CHECK(mst_init());
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    assert(size <= RANKS_MAX && mst_is_initialized() && mst_is_available());
    if (argc > 1 && !strcmp(argv[1], "calls")) return run_calls();
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
