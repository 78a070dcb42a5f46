/*
 * prof.c - a rank that is profiled, for test_prof.py. It does what its arguments say, one after the other:
 *
 *   init                        joins; what comes before is done without a world
 *   kinds                       every kind of call once, with known sizes, in the world and in a group of the first two ranks
 *   sums=N, works=N             N sums of 4 f32; of 64 KiB, with .work
 *   named=NAME, asked           a sum with .log_name, with .prof
 *   pass=N                      N messages of 8 f32 to the next rank, and from the one before
 *   swap=N                      the same the other way round: received with .work, and sent blocking
 *   barrier
 *   on, off, on=OP, off=OP      mst_start_profiling_comms, …_stop_…; the same for an operation
 *   set=TEXT                    mst_configure(.config = TEXT)
 *   enable, enable=OP, disable, verbose, debug     mst_configure(.enabled = …, …)
 *   log, straggler, json        the summaries
 *   die=R, leave                rank R kills itself; all end without mst_destroy_process_group
 *   again, beside=FILE          leaves the world and joins the next; 5 sums in a second world beside the first, by file://FILE
 *   fork, fork=FILE             forks a child, which ends as programs do, and waits for it; after 5 sums in a world of its own
 *   wait=MS                     does nothing
 *
 * What begins with odd- is done by odd ranks alone.
 */
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 4, LARGE = 16384, MOST = 64 };

static float in[MOST * LARGE], out[MOST * LARGE];
static int rank, size;

static void check(mst_status st, const char *action) {
    if (st == MST_OK) return;
    printf("%s: %s: %s\n", action, mst_status_name(st), mst_error());
    exit(3);
}

static void messages(int n) {
    for (int i = 0; i < n; i++) {
        mst_work *work;
        check(mst_isend(in, 8, MST_F32, .dst = (rank + 1) % size, .work = &work), "isend");
        check(mst_recv(out, 8, MST_F32, .src = (rank + size - 1) % size), "recv");
        check(mst_wait(work), "wait");
    }
}

static void swaps(int n) {
    for (int i = 0; i < n; i++) {
        mst_work *work;
        check(mst_irecv(out, 8, MST_F32, .src = (rank + size - 1) % size, .work = &work), "irecv");
        check(mst_send(in, 8, MST_F32, .dst = (rank + 1) % size), "send");
        check(mst_wait(work), "wait");
    }
}

static void lists(mst_group *group, int n) {
    void *outs[MOST];
    const void *ins[MOST];
    const size_t counts[] = {16, 8};
    for (int r = 0; r < n; r++) {
        outs[r] = out + (size_t)r * 64;
        ins[r] = in + (size_t)r * 64;
    }
    check(mst_all_gather(outs, in, 16, MST_F32, .group = group), "all_gather");
    check(mst_reduce_scatter(out, ins, 16, MST_F32, .group = group), "reduce_scatter");
    check(mst_all_to_all(outs, ins, 16, MST_F32, .group = group), "all_to_all");
    check(mst_all_reduce_coalesced(outs, counts, 2, MST_F32, .group = group), "coalesced");
}

/* Each once: 16 f32 for each rank, so that sizes are 64 bytes or 64 for each rank of the group. */
static void kinds(mst_group *group) {
    int n = mst_get_world_size(group);
    check(mst_barrier(.group = group), "barrier");
    check(mst_broadcast(out, 16, MST_F32, .group = group), "broadcast");
    check(mst_all_reduce(out, 16, MST_F32, .group = group), "all_reduce");
    check(mst_inference_all_reduce(out, 16, MST_F32, .group = group), "inference_all_reduce");
    check(mst_reduce(out, 16, MST_F32, .group = group), "reduce");
    check(mst_all_gather_into_tensor(out, in, 16, MST_F32, .group = group), "all_gather_into_tensor");
    check(mst_reduce_scatter_tensor(out, in, 16, MST_F32, .group = group), "reduce_scatter_tensor");
    check(mst_gather(out, in, 16, MST_F32, .group = group), "gather");
    check(mst_scatter(out, in, 16, MST_F32, .group = group), "scatter");
    check(mst_all_to_all_single(out, in, 16, MST_F32, .group = group), "all_to_all_single");
    check(mst_monitored_barrier(.group = group), "monitored_barrier");
    lists(group, n);
}

static void all_kinds(void) {
    mst_group *pair;
    const int first[] = {0, 1};
    kinds(NULL);
    check(mst_new_group(first, 2, &pair, .name = "pair"), "new_group");
    if (rank < 2) kinds(pair);
    check(mst_destroy_process_group(pair), "destroy");
}

static void works(int n) {
    for (int i = 0; i < n; i++) {
        mst_work *work;
        check(mst_all_reduce(out, LARGE, MST_F32, .work = &work), "all_reduce");
        check(mst_wait(work), "wait");
    }
}

static void json(void) {
    mst_bytes text;
    check(mst_log_summary_json(&text, .show_straggler = true), "json");
    if (text.len) printf("%s\n", text.data);
    mst_bytes_free(&text);
}

static bool summaries(const char *action) {
    if (!strcmp(action, "log"))
        check(mst_log_summary(), action);
    else if (!strcmp(action, "straggler"))
        check(mst_log_summary(.show_straggler = true), action);
    else if (!strcmp(action, "json"))
        json();
    else
        return false;
    return true;
}

static bool switches(const char *action, const char *value) {
    const char *const names[] = {value};
    if (!strcmp(action, "on"))
        check(value ? mst_start_profiling_op(names, 1) : mst_start_profiling_comms(), action);
    else if (!strcmp(action, "off"))
        check(value ? mst_stop_profiling_op(names, 1) : mst_stop_profiling_comms(), action);
    else if (!strcmp(action, "set"))
        check(mst_configure(.config = value), action);
    else if (!strcmp(action, "enable"))
        check(mst_configure(.enabled = true, .prof_ops = names, .n_ops = value != NULL), action);
    else if (!strcmp(action, "disable"))
        check(mst_configure(.enabled = false), action);
    else if (!strcmp(action, "verbose") || !strcmp(action, "debug"))
        check(mst_configure(.enabled = true, .verbose = *action == 'v', .debug = *action == 'd'), action);
    else
        return false;
    return true;
}

static void calls(const char *action, const char *value) {
    int n = value ? atoi(value) : 1;
    if (!strcmp(action, "kinds"))
        all_kinds();
    else if (!strcmp(action, "sums"))
        for (int i = 0; i < n; i++) check(mst_all_reduce(out, SMALL, MST_F32), action);
    else if (!strcmp(action, "works"))
        works(n);
    else if (!strcmp(action, "named"))
        check(mst_all_reduce(out, SMALL, MST_F32, .log_name = value), action);
    else if (!strcmp(action, "asked"))
        check(mst_all_reduce(out, SMALL, MST_F32, .prof = true), action);
    else if (!strcmp(action, "pass"))
        messages(n);
    else if (!strcmp(action, "swap"))
        swaps(n);
    else if (!strcmp(action, "barrier"))
        check(mst_barrier(), action);
    else if (!strcmp(action, "die") && rank == n)
        raise(SIGKILL);
    else if (!strcmp(action, "leave"))
        exit(0);
}

static void join(void) {
    check(mst_init(), "init");
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
}

static void beside(const char *file) {
    char method[512];
    mst_group *world;
    mst_init_options options = {
        .size = sizeof options, .init_method = method, .rank = rank, .world_size = size};
    snprintf(method, sizeof method, "file://%s", file);
    check(mst_world_open(&options, &world), "world_open");
    for (int i = 0; i < 5; i++) check(mst_all_reduce(out, SMALL, MST_F32, .group = world), "all_reduce");
    check(mst_destroy_process_group(world), "destroy");
}

static void fork_one(const char *file) {
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0 && file) {
        size = 1;
        rank = 0;
        beside(file);
    }
    if (child == 0) exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(4);
}

static bool lives(const char *action, const char *value) {
    int n = value ? atoi(value) : 0;
    if (!strcmp(action, "init")) {
        join();
    } else if (!strcmp(action, "again")) {
        check(mst_destroy_process_group(NULL), action);
        join();
    } else if (!strcmp(action, "beside")) {
        beside(value);
    } else if (!strcmp(action, "fork")) {
        fork_one(value);
    } else if (!strcmp(action, "wait")) {
        nanosleep(&(struct timespec){n / 1000, n % 1000 * 1000000L}, NULL);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value) *value++ = '\0';
        bool mine = strncmp(argv[i], "odd-", 4) != 0;
        const char *action = argv[i] + (mine ? 0 : 4);
        if (!mine && rank % 2 == 0) continue;
        if (!lives(action, value) && !summaries(action) && !switches(action, value)) calls(action, value);
    }
    check(mst_destroy_process_group(NULL), "destroy");
    return 0;
}
