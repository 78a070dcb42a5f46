/*
 * world.c - one rank that executes the actions of its command line in order and reports each. The test
 * drivers use it.
 *
 *   world [setting ...] action ...
 *
 * A setting applies to the actions after it: method=URL, rank=R, size=N and timeout=MS to init; group=0,2 (a
 * new group of these ranks) and group= (the world) to barriers. Actions: init, open (a world as an object),
 * custom=URL (the next world uses a custom store over the store at URL), shrink, barrier[=MS], barriers=N,
 * monitored[=MS] (a monitored barrier), broadcast=N (the last rank sends N KiB), messages=N and any=N (the
 * last rank sends N messages of 1 KiB to rank 0, which receives them from it, or from any rank), receive=R
 * (a message of rank R), topology, destroy, hold (waits for a line on standard input), cancellable (from now
 * on a line on standard input cancels), say=WORD. After a failed action the rank leaves its world and exits
 * with 1; with ~ before the action, the rank continues.
 *
 * Each action writes one line at its end, with one write: name, status, milliseconds, culprit and message,
 * separated by tabs. Before it starts, it writes "name\tBEGIN".
 */
#include "custom_kit.h"
#include "step_report.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank {
    mst_init_options options; /* of the next init */
    mst_group *world;         /* NULL: the default world, if there is one */
    mst_group *group;         /* of the next barriers; NULL: the world */
    mst_cancel *cancel;
};

/* Reads byte by byte, so that later lines stay in the pipe. */
static void read_line(void) {
    char c = 0;
    while (c != '\n')
        if (read(STDIN_FILENO, &c, 1) != 1) exit(4); /* the driver has exited */
}

static void *cancel_on_line(void *cancel) {
    read_line();
    mst_cancel_fire(cancel);
    return NULL;
}

static mst_status become_cancellable(struct rank *rank) {
    pthread_t thread;
    mst_status st = mst_cancel_new(&rank->cancel);
    if (st == MST_OK && pthread_create(&thread, NULL, cancel_on_line, rank->cancel)) abort();
    if (st == MST_OK) pthread_detach(thread);
    rank->options.cancel = rank->cancel;
    return st;
}

static mst_status use_custom_store(struct rank *rank, const char *url) {
    mst_store *base;
    mst_status st = mst_store_open(url, &base);
    rank->options.store = st == MST_OK ? open_custom(base, false) : NULL;
    return st;
}

static mst_status use_group(struct rank *rank, const char *list) {
    int ranks[64], n = 0;
    rank->group = rank->world;
    for (char *at = (char *)(uintptr_t)list; *at && n < 64; at += *at == ',')
        ranks[n++] = (int)strtol(at, &at, 10);
    return n ? mst_new_group(ranks, n, &rank->group, .world = rank->world) : MST_OK;
}

static mst_status barriers(const struct rank *rank, int n, int timeout_ms) {
    mst_status st = MST_OK;
    for (int i = 0; i < n && st == MST_OK; i++)
        st = mst_barrier(.group = rank->group, .timeout_ms = timeout_ms, .cancel = rank->cancel);
    return st;
}

static mst_status monitored(const struct rank *rank, int timeout_ms) {
    return mst_monitored_barrier(.group = rank->group, .timeout_ms = timeout_ms, .cancel = rank->cancel);
}

enum { KIB = 1024 };

static bool is_filled(const char *data, size_t n, char with) {
    for (size_t i = 0; i < n; i++)
        if (data[i] != with) return false;
    return true;
}

/* The last rank broadcasts that many KiB. */
static mst_status broadcast(int kib) {
    int last = mst_get_world_size(NULL) - 1;
    size_t n = (size_t)kib * KIB;
    char *data = malloc(n);
    memset(data, mst_get_rank(NULL) == last, n);
    mst_status st = mst_broadcast(data, n, MST_U8, .root = last);
    if (st == MST_OK && !is_filled(data, n, 1)) abort();
    free(data);
    return st;
}

/* The last rank sends that many messages to rank 0. */
static mst_status messages(int n, bool any) {
    int last = mst_get_world_size(NULL) - 1, me = mst_get_rank(NULL);
    char data[KIB];
    mst_status st = MST_OK;
    for (int i = 0; i < n && st == MST_OK && (me == 0 || me == last); i++) {
        memset(data, me == last ? i : -1, sizeof data);
        st = me == last ? mst_send(data, KIB, MST_U8, 0)
                        : mst_recv(data, KIB, MST_U8, any ? MST_ANY_SOURCE : last);
        if (st == MST_OK && !is_filled(data, KIB, (char)i)) abort();
    }
    return st;
}

static mst_status receive(int from) {
    char byte;
    return mst_recv(&byte, 1, MST_U8, from);
}

static mst_status show_topology(const struct rank *rank) {
    mst_group *world = rank->world;
    dprintf(STDOUT_FILENO, "me\t%d\t%d\t%d\t%d\t%d\n", mst_get_rank(world), mst_get_world_size(world),
            mst_get_local_rank(world), mst_get_local_size(world), mst_get_host_count(world));
    for (int r = 0; r < mst_get_world_size(world); r++) {
        mst_rank_info info;
        mst_status st = mst_get_rank_info(world, r, &info);
        if (st != MST_OK) return st;
        dprintf(STDOUT_FILENO, "at\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", info.rank, info.host, info.local_rank,
                info.local_size, info.pid, info.host_name, info.address);
    }
    return MST_OK;
}

static mst_status destroy(struct rank *rank) {
    mst_status st = mst_destroy_process_group(rank->world);
    rank->world = rank->group = NULL;
    return st;
}

static mst_status open_world(struct rank *rank) {
    mst_status st = mst_world_open(&rank->options, &rank->world);
    rank->group = rank->world;
    return st;
}

static mst_status act(struct rank *rank, const char *name, const char *value) {
    int number = (int)strtol(value, NULL, 10);
    if (!strcmp(name, "init")) return mst_init_with(&rank->options);
    if (!strcmp(name, "open")) return open_world(rank);
    if (!strcmp(name, "custom")) return use_custom_store(rank, value);
    if (!strcmp(name, "shrink")) return mst_shrink_world();
    if (!strcmp(name, "barrier")) return barriers(rank, 1, number);
    if (!strcmp(name, "monitored")) return monitored(rank, number);
    if (!strcmp(name, "barriers")) return barriers(rank, number, 0);
    if (!strcmp(name, "group")) return use_group(rank, value);
    if (!strcmp(name, "broadcast")) return broadcast(number);
    if (!strcmp(name, "messages")) return messages(number, false);
    if (!strcmp(name, "any")) return messages(number, true);
    if (!strcmp(name, "receive")) return receive(number);
    if (!strcmp(name, "topology")) return show_topology(rank);
    if (!strcmp(name, "destroy")) return destroy(rank);
    if (!strcmp(name, "cancellable")) return become_cancellable(rank);
    if (!strcmp(name, "hold")) read_line();
    if (!strcmp(name, "hold") || !strcmp(name, "say")) return MST_OK;
    fprintf(stderr, "world: no action '%s'\n", name);
    exit(2);
}

/* True if name is a setting. */
static bool take_setting(struct rank *rank, const char *name, const char *value) {
    int number = (int)strtol(value, NULL, 10);
    if (!strcmp(name, "method"))
        rank->options.init_method = value;
    else if (!strcmp(name, "rank"))
        rank->options.rank = number;
    else if (!strcmp(name, "size"))
        rank->options.world_size = number;
    else if (!strcmp(name, "timeout"))
        rank->options.timeout_ms = number;
    else
        return false;
    return true;
}

int main(int argc, char **argv) {
    static struct rank rank; /* static, so that its pointers are not reported as leaks at exit */
    rank.options = (mst_init_options){.size = sizeof(mst_init_options), .site = MST_HERE};
    for (int i = 1; i < argc; i++) {
        bool may_fail = argv[i][0] == '~';
        char *name = argv[i] + may_fail, *equals = strchr(name, '=');
        const char *value = equals ? equals + 1 : "";
        if (equals) *equals = 0;
        if (take_setting(&rank, name, value)) continue;
        dprintf(STDOUT_FILENO, "%s\tBEGIN\n", name);
        int64_t begin = msi_now();
        mst_status st = act(&rank, name, value);
        report(!strcmp(name, "say") ? value : name, st, begin);
        if (st == MST_OK || may_fail) continue;
        if (rank.world || mst_is_initialized()) {
            begin = msi_now();
            report("destroy", destroy(&rank), begin);
        }
        return 1;
    }
    mst_store_free(rank.options.store);
    return 0;
}
