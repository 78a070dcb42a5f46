/*
 * recover.c - one rank of a world that goes on after deaths, for test_recover.py. The environment describes
 * the world.
 *
 *   recover ACTION…   carries out the actions, and continues after one that fails
 *
 * Actions on the current group, which is the default world at first:
 *   sum          sums over the group and checks the result
 *   big          the same with 1 MiB
 *   recv:PEER    receives a message; send:PEER sends it
 *   agree:IN=OUT agrees on flags (hexadecimal) and checks the result, also if a rank is lost
 *   ack          acknowledges lost ranks
 *   shrink       replaces the current group by its survivors
 *   check        asks whether the group is usable
 *   group:LIST   the current group becomes a group of these ranks of the world: "0,2"
 *   all          the current group becomes the default world
 *   destroy      destroys the current group
 * Actions on the default world: world (mst_shrink_world), grow:N (mst_grow_world).
 *   mesh:TEXT    makes a mesh; checkmesh: asks whether its ranks live
 *   register:V   fills two buffers with V and registers them; share:V broadcasts them and checks for V
 *   who:RANK/SIZE  checks this process's rank and the size of the default world
 *   loop:N       N times: sum; if it fails, shrink the world
 *   hold         waits for a line
 *
 * Each action writes one line, as step_report.h says.
 */
#include "step_report.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, BIG = 1 << 18 };

static mst_group *group; /* NULL: the default world */
static mst_mesh *mesh;

static bool get_line(void) {
    char c;
    return read(STDIN_FILENO, &c, 1) == 1;
}

static mst_status sum(int count) {
    static int values[BIG];
    int size = mst_get_world_size(group);
    for (int i = 0; i < count; i++) values[i] = 1 + i % 7;
    mst_status st = mst_all_reduce(values, (size_t)count, MST_I32, .group = group);
    for (int i = 0; i < count && st == MST_OK; i++)
        if (values[i] != size * (1 + i % 7)) st = MST_ERR_INTERNAL;
    return st;
}

static mst_status receive(int peer) {
    int word;
    return mst_recv(&word, 1, MST_I32, peer, .group = group);
}

static mst_status send(int peer) {
    int word = 1;
    return mst_send(&word, 1, MST_I32, peer, .group = group);
}

static mst_status agree(const char *text) {
    char *end;
    uint64_t flags = strtoull(text, &end, 16), wanted = strtoull(end + 1, NULL, 16);
    mst_status st = mst_agree(&flags, .group = group);
    return flags == wanted || (st != MST_OK && st != MST_ERR_PEER_LOST) ? st : MST_ERR_INTERNAL;
}

static mst_status shrink(void) {
    mst_group *old = group, *survivors;
    mst_status st = mst_shrink_group(old, &survivors);
    if (st != MST_OK) return st;
    const char *name = old ? mst_get_group_name(old) : "survivors";
    if (strcmp(mst_get_group_name(survivors), name) != 0) return MST_ERR_INTERNAL;
    if (old) st = mst_destroy_process_group(old);
    group = survivors;
    return st;
}

static mst_status make_group(const char *list) {
    int ranks[64], n = 0;
    for (char *end; *list; list = *end ? end + 1 : end) ranks[n++] = (int)strtol(list, &end, 10);
    return mst_new_group(ranks, n, &group);
}

static int weights[1000];
static double momenta[300];

static mst_status register_buffers(int value) {
    for (int i = 0; i < 1000; i++) weights[i] = value;
    for (int i = 0; i < 300; i++) momenta[i] = value;
    mst_status st = mst_register_buffer(weights, 1000, MST_I32);
    return st == MST_OK ? mst_register_buffer(momenta, 300, MST_F64) : st;
}

static mst_status share(int value) {
    mst_status st = mst_broadcast_registered();
    for (int i = 0; i < 1000 && st == MST_OK; i++)
        if (weights[i] != value) st = MST_ERR_INTERNAL;
    for (int i = 0; i < 300 && st == MST_OK; i++)
        if (momenta[i] != value) st = MST_ERR_INTERNAL;
    return st;
}

static mst_status check_who(const char *text) {
    char *end;
    int rank = (int)strtol(text, &end, 10), size = (int)strtol(end + 1, NULL, 10);
    return mst_get_rank(NULL) == rank && mst_get_world_size(NULL) == size ? MST_OK : MST_ERR_INTERNAL;
}

static mst_status loop(int n) {
    mst_status st = MST_OK;
    for (int i = 0; i < n && st == MST_OK; i++) {
        st = sum(16);
        if (st == MST_ERR_PEER_LOST) st = mst_shrink_world();
    }
    return st;
}

static mst_status run(const char *name, const char *value) {
    int number = atoi(value);
    if (!strcmp(name, "sum")) return sum(1);
    if (!strcmp(name, "big")) return sum(BIG);
    if (!strcmp(name, "recv")) return receive(number);
    if (!strcmp(name, "send")) return send(number);
    if (!strcmp(name, "agree")) return agree(value);
    if (!strcmp(name, "ack")) return mst_ack_lost_ranks(group, NULL, 0, NULL);
    if (!strcmp(name, "shrink")) return shrink();
    if (!strcmp(name, "check")) return mst_check_group(group);
    if (!strcmp(name, "group")) return make_group(value);
    if (!strcmp(name, "destroy")) return mst_destroy_process_group(group);
    if (!strcmp(name, "world")) return mst_shrink_world();
    if (!strcmp(name, "grow")) return mst_grow_world(number);
    if (!strcmp(name, "mesh")) return mst_init_device_mesh_from(value, &mesh);
    if (!strcmp(name, "checkmesh")) return mst_check_mesh(mesh);
    if (!strcmp(name, "register")) return register_buffers(number);
    if (!strcmp(name, "share")) return share(number);
    if (!strcmp(name, "who")) return check_who(value);
    if (!strcmp(name, "loop")) return loop(number);
    if (strcmp(name, "all") != 0) exit(2);
    group = NULL;
    return MST_OK;
}

int main(int argc, char **argv) {
    int64_t begin = msi_now();
    if (report("init", mst_init(.timeout_ms = TIMEOUT_MS), begin) != MST_OK) return 1;
    for (int i = 1; i < argc; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", argv[i]);
        char *value = strchr(name, ':');
        if (value) *value++ = '\0';
        if (!strcmp(name, "hold")) {
            if (!get_line()) return 1;
            continue;
        }
        begin = msi_now();
        report(argv[i], run(name, value ? value : ""), begin);
    }
    mst_destroy_process_group(NULL);
    return 0;
}
