/*
 * prof.c - a rank that is profiled, for test_prof.py. It executes its arguments in order:
 *
 *   init                     joins the world; earlier actions run without a world
 *   kinds                    every kind of call once, with known sizes, in the world and in a group of two
 *   every                    every call of comm.h once, in a group "pair" of ranks 0 and 1; rank 0 prints
 *                            "once NAME LINE"
 *   race                     threads start and stop operations; at the end race0 to race7 are started
 *   sums=N, works=N          N sums of 4 f32; N sums of 64 KiB with .work
 *   named=NAME, asked        a sum with .log_name; a sum with .prof
 *   pass=N                   N messages of 8 f32 to the next rank, and from the previous one
 *   any=N                    N byte strings of different lengths from each rank to rank 0, with any source
 *   mixed=N                  N times messages of two tags and three lengths to the next rank, received in
 *                            another order
 *   late                     a receive that times out, then one that succeeds
 *   swap=N                   as pass, but received with .work and sent blocking
 *   barrier
 *   on, off, on=OP, off=OP   mst_start_profiling_comms, mst_stop_profiling_comms; the same for one operation
 *   set=TEXT                 mst_configure(.config = TEXT)
 *   enable, enable=OP, disable, verbose, debug     mst_configure(.enabled = ..., ...)
 *   log, straggler, json     the summaries; log=MS: with .timeout_ms, then "logged after N ms"
 *   reset, count, count=NAME mst_reset_log; prints "count N", and with NAME "count NAME N"
 *   back                     the summary in a callback of a work; prints "called back: STATUS"
 *   mistakes                 what mst_configure and mst_start_profiling_op refuse
 *   team=NAME                a sum in a new group of that name, of all ranks
 *   go=DIR                   chdir
 *   cancelled                the summary with a .cancel that has already fired
 *   world=PATH, in=N, there, end
 *                            opens another world over a file, with the ranks in reverse order; N sums in it;
 *                            its summary; its end
 *   try                      a sum that may fail
 *   die=R, leave             rank R kills itself; all exit without mst_destroy_process_group
 *   again, beside=FILE       leaves the world and joins the next; 5 sums in a second world over file://FILE
 *   fork, fork=FILE          forks a child that exits, and waits for it; with FILE after 5 sums in each of
 *                            two worlds of its own
 *   wait=MS                  sleeps
 *
 * Only odd ranks execute an action that starts with odd-, and only rank N one that starts with rN-.
 */
#include <muster/muster.h>
#include <pthread.h>
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
static mst_group *other;

static void check(mst_status st, const char *action) {
    if (st == MST_OK) return;
    printf("%s: %s: %s\n", action, mst_status_name(st), mst_error());
    exit(3);
}

static void messages(int n) {
    for (int i = 0; i < n; i++) {
        mst_work *work;
        check(mst_isend(in, 8, MST_F32, (rank + 1) % size, .work = &work), "isend");
        check(mst_recv(out, 8, MST_F32, (rank + size - 1) % size), "recv");
        check(mst_wait(work), "wait");
    }
}

static void from_anybody(int n) {
    for (int i = 0; i < n && rank > 0; i++)
        check(mst_send_bytes(in, (size_t)(100 * rank + i), 0, .tag = 3), "send_bytes");
    for (int i = 0; i < n * (size - 1) && rank == 0; i++) {
        mst_bytes bytes;
        check(mst_recv_bytes(&bytes, MST_ANY_SOURCE, .tag = 3), "recv_bytes");
        mst_bytes_free(&bytes);
    }
    check(mst_barrier(), "barrier"); /* no rank leaves before the others have joined */
}

static void mixed(int n) {
    enum { FIRST = 200000, SECOND = 8, OTHER = 32 }; /* FIRST is larger than the ring of a link */
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = 0; i < n; i++) {
        mst_work *works[6];
        const mst_p2p batch[] = {
            {.send = false, .buf = out, .count = OTHER, .dtype = MST_F32, .peer = previous, .tag = 2},
            {.send = true, .buf = in, .count = FIRST, .dtype = MST_F32, .peer = next, .tag = 1}};
        check(mst_batch_isend_irecv(batch, 2, works), "batch_isend_irecv");
        check(mst_irecv(out + OTHER, FIRST, MST_F32, previous, .tag = 1, .work = &works[2]), "irecv");
        check(mst_isend(in, SECOND, MST_F32, next, .tag = 1, .work = &works[3]), "isend");
        check(mst_isend(in, OTHER, MST_F32, next, .tag = 2, .work = &works[4]), "isend");
        check(mst_irecv(out + OTHER + FIRST, SECOND, MST_F32, previous, .tag = 1, .work = &works[5]),
              "irecv");
        for (int k = 6; k-- > 0;) check(mst_wait(works[k]), "wait");
    }
}

static void late(void) {
    int peer = 1 - rank;
    if (rank < 2 && mst_recv(out, 8, MST_F32, peer, .tag = 9, .timeout_ms = 50) == MST_OK) exit(4);
    check(mst_barrier(), "barrier");
    if (rank == 0) check(mst_send(in, 8, MST_F32, peer, .tag = 9), "send");
    if (rank == 1) check(mst_recv(out, 8, MST_F32, peer, .tag = 9), "recv");
}

static void swaps(int n) {
    for (int i = 0; i < n; i++) {
        mst_work *work;
        check(mst_irecv(out, 8, MST_F32, (rank + size - 1) % size, .work = &work), "irecv");
        check(mst_send(in, 8, MST_F32, (rank + 1) % size), "send");
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

/* Each kind once, with 16 f32 per rank: sizes are 64 bytes, or 64 bytes times the size of the group. */
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

/* Prints the line, so that the driver finds the record of this call. */
#define ONCE(name, call)                                                                                     \
    do {                                                                                                     \
        if (rank == 0) printf("once %s %d\n", #name, __LINE__);                                              \
        check(call, #name);                                                                                  \
    } while (0)

/* 8 f32 to the other rank, and from it. */
static void every_message(mst_group *g) {
    mst_work *work, *works[2];
    int peer = 1 - rank;
    const mst_p2p both[] = {{.send = true, .buf = in, .count = 8, .dtype = MST_F32, .peer = peer},
                            {.buf = out, .count = 8, .dtype = MST_F32, .peer = peer}};
    mst_bytes bytes;
    if (rank == 0) {
        ONCE(send, mst_send(in, 8, MST_F32, peer, .group = g));
        ONCE(recv, mst_recv(out, 8, MST_F32, peer, .group = g));
        ONCE(isend, mst_isend(in, 8, MST_F32, peer, .group = g, .work = &work));
        check(mst_wait(work), "wait");
        ONCE(irecv, mst_irecv(out, 8, MST_F32, peer, .group = g, .work = &work));
        check(mst_wait(work), "wait");
        ONCE(send_bytes, mst_send_bytes("hello", 5, peer, .group = g));
        ONCE(recv_bytes, mst_recv_bytes(&bytes, peer, .group = g));
    } else {
        check(mst_recv(out, 8, MST_F32, peer, .group = g), "recv");
        check(mst_send(in, 8, MST_F32, peer, .group = g), "send");
        check(mst_recv(out, 8, MST_F32, peer, .group = g), "recv");
        check(mst_send(in, 8, MST_F32, peer, .group = g), "send");
        check(mst_recv_bytes(&bytes, peer, .group = g), "recv_bytes");
        mst_bytes_free(&bytes);
        check(mst_send_bytes("hello there", 11, peer, .group = g), "send_bytes");
        bytes = (mst_bytes){NULL, 0};
    }
    mst_bytes_free(&bytes);
    ONCE(send_recv, mst_send_recv(out, 8, peer, in, 8, peer, MST_F32, .group = g));
    ONCE(batch_isend_irecv, mst_batch_isend_irecv(both, 2, works, .group = g));
    for (int i = 0; i < 2; i++) check(mst_wait(works[i]), "wait");
}

/* Rank 0 has 5 bytes, rank 1 has 11. */
static void every_bytes(mst_group *g) {
    mst_bytes all[2], one;
    const mst_bytes ins[] = {{.data = (char[]){"hello"}, .len = 5},
                             {.data = (char[]){"hello there"}, .len = 11}};
    const mst_bytes *own = &ins[rank];
    ONCE(broadcast_bytes, mst_broadcast_bytes(&one, "hello", 5, .group = g));
    mst_bytes_free(&one);
    ONCE(all_gather_bytes, mst_all_gather_bytes(all, own->data, own->len, .group = g));
    for (int i = 0; i < 2; i++) mst_bytes_free(&all[i]);
    ONCE(gather_bytes, mst_gather_bytes(all, own->data, own->len, .group = g));
    for (int i = 0; i < 2 && rank == 0; i++) mst_bytes_free(&all[i]);
    ONCE(scatter_bytes, mst_scatter_bytes(&one, rank ? NULL : ins, .group = g));
    mst_bytes_free(&one);
}

static void every_list(mst_group *g) {
    void *outs[] = {out, out + 64};
    const void *ins[] = {in, in + 64};
    const size_t counts[] = {16, 8};
    const mst_dtype both[] = {MST_F32, MST_I32};
    ONCE(all_gather, mst_all_gather(outs, in, 16, MST_F32, .group = g));
    ONCE(reduce_scatter, mst_reduce_scatter(out, ins, 16, MST_F32, .group = g));
    ONCE(gather_list, mst_gather_list(outs, in, 16, MST_F32, .group = g));
    ONCE(scatter_list, mst_scatter_list(out, ins, 16, MST_F32, .group = g));
    ONCE(all_to_all, mst_all_to_all(outs, ins, 16, MST_F32, .group = g));
    ONCE(all_reduce_coalesced, mst_all_reduce_coalesced(outs, counts, 2, MST_F32, .group = g));
    ONCE(broadcast_coalesced, mst_broadcast_coalesced(outs, counts, 2, 0, .dtypes = both, .group = g));
    ONCE(all_gather_coalesced, mst_all_gather_coalesced(outs, ins, counts, 2, MST_F32, .group = g));
    ONCE(reduce_scatter_coalesced, mst_reduce_scatter_coalesced(outs, ins, counts, 2, MST_F32, .group = g));
}

static void every_tensor(mst_group *g) {
    ONCE(barrier, mst_barrier(.group = g));
    ONCE(monitored_barrier, mst_monitored_barrier(.group = g));
    ONCE(broadcast, mst_broadcast(out, 16, MST_F32, .group = g));
    ONCE(all_reduce, mst_all_reduce(out, 16, MST_F32, .group = g));
    ONCE(reduce, mst_reduce(out, 16, MST_F32, .group = g));
    ONCE(scan, mst_scan(out, 16, MST_F32, .group = g));
    ONCE(exscan, mst_exscan(out, 16, MST_F32, .group = g));
    ONCE(inference_all_reduce, mst_inference_all_reduce(out, 16, MST_F32, .group = g));
    ONCE(all_gather_into_tensor, mst_all_gather_into_tensor(out, in, 16, MST_F32, .group = g));
    ONCE(reduce_scatter_tensor, mst_reduce_scatter_tensor(out, in, 16, MST_F32, .group = g));
    ONCE(gather, mst_gather(out, in, 16, MST_F32, .group = g));
    ONCE(scatter, mst_scatter(out, in, 16, MST_F32, .group = g));
    ONCE(all_to_all_single, mst_all_to_all_single(out, in, 16, MST_F32, .group = g));
    ONCE(reduce_scatter_fn, mst_reduce_scatter_fn(out, in, 16, MST_F32, .group = g));
    ONCE(allgather_fn, mst_allgather_fn(out, in, 16, MST_F32, .group = g));
}

static void every(void) {
    mst_group *pair;
    const int first[] = {0, 1};
    check(mst_new_group(first, 2, &pair, .name = "pair"), "new_group");
    if (rank < 2) {
        void *memory;
        check(mst_alloc(64, &memory, .group = pair), "alloc");
        every_tensor(pair);
        every_list(pair);
        every_bytes(pair);
        every_message(pair);
        mst_free(memory);
    }
    check(mst_destroy_process_group(pair), "destroy");
}

static void *racer(void *arg) {
    char own[16], passing[16];
    const char *const names[] = {own}, *const others[] = {passing};
    snprintf(own, sizeof own, "race%d", *(int *)arg);
    snprintf(passing, sizeof passing, "passing%d", *(int *)arg);
    for (int i = 0; i < 300; i++) {
        check(mst_start_profiling_op(others, 1), "race");
        check(i % 2 ? mst_stop_profiling_op(names, 1) : mst_start_profiling_op(names, 1), "race");
        check(mst_stop_profiling_op(others, 1), "race");
    }
    check(mst_start_profiling_op(names, 1), "race");
    return NULL;
}

static void race(void) {
    pthread_t threads[8];
    int numbers[8];
    for (int i = 0; i < 8; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, racer, &numbers[i]) != 0) exit(3);
    }
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
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

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void log_within(int ms) {
    long long begin = now_ms();
    check(mst_log_summary(.timeout_ms = ms), "log");
    printf("logged after %lld ms\n", now_ms() - begin);
}

static void log_cancelled(void) {
    mst_cancel *cancel;
    check(mst_cancel_new(&cancel), "cancel");
    mst_cancel_fire(cancel);
    printf("cancelled: %s\n", mst_status_name(mst_log_summary(.cancel = cancel)));
    mst_cancel_free(cancel);
}

static void log_there(mst_status status, void *said) {
    *(mst_status *)said = status == MST_OK ? mst_log_summary(.timeout_ms = 2000) : status;
}

static void log_in_a_callback(void) {
    mst_work *work;
    mst_status said = MST_OK;
    check(mst_all_reduce(out, SMALL, MST_F32, .work = &work), "all_reduce");
    check(mst_work_on_done(work, log_there, &said), "on_done");
    check(mst_wait(work), "wait");
    printf("called back: %s\n", mst_status_name(said));
}

static void mistake(mst_status status) {
    printf("refused: %s: %s\n", mst_status_name(status), mst_error());
}

static void mistakes(void) {
    const char *const names[] = {"all_reduce", ""};
    mistake(mst_configure(.enabled = true, .n_ops = 3));
    mistake(mst_configure(.enabled = true, .prof_ops = names));
    mistake(mst_configure(.enabled = true, .prof_ops = names, .n_ops = 2));
    mistake(mst_start_profiling_op(names, 2));
}

static void count(const char *name) {
    long long n = (long long)mst_get_comm_operation_count(name);
    printf("count %s%s%lld\n", name ? name : "", name ? " " : "", n);
    if (!name && mst_has_comm_data() != (n > 0)) exit(5);
}

static bool summaries(const char *action, const char *value) {
    if (!strcmp(action, "log") && value)
        log_within(atoi(value));
    else if (!strcmp(action, "log"))
        check(mst_log_summary(), action);
    else if (!strcmp(action, "reset"))
        check(mst_reset_log(), action);
    else if (!strcmp(action, "count"))
        count(value);
    else if (!strcmp(action, "back"))
        log_in_a_callback();
    else if (!strcmp(action, "mistakes"))
        mistakes();
    else if (!strcmp(action, "cancelled"))
        log_cancelled();
    else if (!strcmp(action, "there"))
        check(mst_log_summary(.world = other), action);
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
        check(mst_configure(.enabled = true, .prof_ops = value ? names : NULL, .n_ops = value != NULL),
              action);
    else if (!strcmp(action, "disable"))
        check(mst_configure(.enabled = false), action);
    else if (!strcmp(action, "verbose") || !strcmp(action, "debug"))
        check(mst_configure(.enabled = true, .verbose = *action == 'v', .debug = *action == 'd'), action);
    else
        return false;
    return true;
}

static void open_other(const char *path) {
    char url[300];
    snprintf(url, sizeof url, "file://%s?rank=%d&world_size=%d", path, size - 1 - rank, size);
    mst_init_options options = {.size = sizeof options, .init_method = url};
    check(mst_world_open(&options, &other), "world");
}

static bool elsewhere(const char *action, const char *value) {
    if (!strcmp(action, "world"))
        open_other(value);
    else if (!strcmp(action, "in"))
        for (int i = 0; i < atoi(value); i++)
            check(mst_all_reduce(out, SMALL, MST_F32, .group = other), action);
    else if (!strcmp(action, "end"))
        check(mst_destroy_process_group(other), action);
    else
        return false;
    return true;
}

static void calls(const char *action, const char *value) {
    int n = value ? atoi(value) : 1;
    if (!strcmp(action, "kinds"))
        all_kinds();
    else if (!strcmp(action, "every"))
        every();
    else if (!strcmp(action, "race"))
        race();
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
    else if (!strcmp(action, "any"))
        from_anybody(n);
    else if (!strcmp(action, "mixed"))
        mixed(n);
    else if (!strcmp(action, "late"))
        late();
    else if (!strcmp(action, "swap"))
        swaps(n);
    else if (!strcmp(action, "barrier"))
        check(mst_barrier(), action);
    else if (!strcmp(action, "try"))
        mst_all_reduce(out, SMALL, MST_F32);
    else if (!strcmp(action, "die") && rank == n)
        raise(SIGKILL);
    else if (!strcmp(action, "leave"))
        exit(0);
}

/* The action without its prefix; NULL if this rank does not execute it. */
static const char *own_part(const char *action) {
    if (!strncmp(action, "odd-", 4)) return rank % 2 ? action + 4 : NULL;
    if (action[0] != 'r' || action[1] < '0' || action[1] > '9' || action[2] != '-') return action;
    return action[1] - '0' == rank ? action + 3 : NULL;
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
        for (int i = 0; i < 2; i++) beside(file);
    }
    if (child == 0) exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(4);
}

static void sum_in_team(const char *name) {
    mst_group *team;
    int all[16];
    for (int r = 0; r < size; r++) all[r] = r;
    check(mst_new_group(all, size, &team, .name = name), "new_group");
    check(mst_all_reduce(out, SMALL, MST_F32, .group = team), "all_reduce");
}

static bool lives(const char *action, const char *value) {
    int n = value ? atoi(value) : 0;
    if (!strcmp(action, "init")) {
        join();
    } else if (!strcmp(action, "again")) {
        check(mst_destroy_process_group(NULL), action);
        join();
    } else if (!strcmp(action, "team")) {
        sum_in_team(value);
    } else if (!strcmp(action, "go")) {
        if (chdir(value) != 0) exit(5);
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
        const char *action = own_part(argv[i]);
        if (!action || lives(action, value) || summaries(action, value) || switches(action, value) ||
            elsewhere(action, value))
            continue;
        calls(action, value);
    }
    check(mst_destroy_process_group(NULL), "destroy");
    return 0;
}
