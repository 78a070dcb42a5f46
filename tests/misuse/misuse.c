/*
 * misuse.c - deliberate misuses of the interface, for test_misuse.py.
 *
 *   misuse calls            lists the calls that "call" knows
 *   misuse call CALL        makes all misuses of one call, on one rank
 *   misuse handles          lists the cases that "handle" knows
 *   misuse handle CASE      uses a freed handle, on one rank
 *   misuse cases            lists the cases of several ranks: name, requirement, two regular expressions
 *   misuse ranks MODE CASE… runs cases on all ranks of a world that the environment describes, each in a
 *                           group of its own. MODE: blocking; work: calls with .work; cold: the ranks of the
 *                           group are not connected yet; first, last: rank ODD calls before or after others.
 *
 * "ranks" writes lines of fields separated by tabs: rank, case, step, status, milliseconds, culprit, line of
 * the call, message. The steps are "group", "warm", "begin", "call", "after" (the next call in the group,
 * not after messages, whose sender may be slow to fail) and "end".
 */
#include "misuse/misuse.h"

#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYNC_MS = 20000, DELAY_US = 50000 };

int me, size;
float *in, *out;
void *outs[RANKS_MAX];
const void *ins[RANKS_MAX];
mst_group *group;
mst_work **work;

void check(const char *name, const char *wanted, const char *pattern, mst_status got) {
    bool failed = got != MST_OK;
    dprintf(STDOUT_FILENO, "%s\t%s\t%s\t%s\t%s\t%s\n", name, wanted, pattern, mst_status_name(got),
            failed ? mst_last_error()->operation : "", failed ? mst_error() : "");
}

static void report(const char *name, const char *step, mst_status status, int64_t begin) {
    const mst_error_info *error = mst_last_error();
    bool failed = status != MST_OK;
    dprintf(STDOUT_FILENO, "%d\t%s\t%s\t%s\t%lld\t%d\t%d\t%s\n", me, name, step, mst_status_name(status),
            (long long)((msi_now() - begin) / 1000000), failed ? error->culprit : -1,
            failed ? error->site.line : 0, failed ? error->message : "");
}

static void step(const char *name, const char *what, mst_status status, int64_t begin) {
    report(name, what, status, begin);
    if (status != MST_OK) exit(1);
}

static const struct ranks_case *find(const char *name) {
    for (const struct ranks_case *c = mismatch_cases; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    for (const struct ranks_case *c = rejected_cases; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    fprintf(stderr, "misuse: no case '%s'\n", name);
    exit(2);
}

static void run_case(const struct ranks_case *c, const char *mode) {
    mst_work *begun = NULL;
    int all[RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    bool waits = !strcmp(mode, "work"), warm = strcmp(mode, "cold") != 0;
    step(c->name, "group", mst_new_group(all, size, &group), msi_now());
    if (warm) step(c->name, "warm", mst_all_reduce(out, SMALL, MST_F32, .group = group), msi_now());
    step(c->name, "begin", mst_barrier(.timeout_ms = SYNC_MS), msi_now());

    work = waits ? &begun : NULL;
    if (!strcmp(mode, me == ODD ? "last" : "first")) usleep(DELAY_US);
    int64_t begin = msi_now();
    mst_status st = c->run();
    if (st == MST_OK && begun) st = mst_wait(begun);
    report(c->name, "call", st, begin);
    begin = msi_now();
    if (c->expect != EXPECT_RECEIVER) report(c->name, "after", mst_barrier(.group = group), begin);

    step(c->name, "end", mst_barrier(.timeout_ms = SYNC_MS), msi_now());
    mst_destroy_process_group(group);
}

static int run_ranks(const char *mode, char **names) {
    int64_t begin = msi_now();
    mst_status st = mst_init(.timeout_ms = 0);
    me = st == MST_OK ? mst_get_rank(NULL) : -1;
    size = st == MST_OK ? mst_get_world_size(NULL) : 0;
    step("world", "init", st, begin);
    for (; *names; names++) run_case(find(*names), mode);
    step("world", "end", mst_destroy_process_group(NULL), msi_now());
    return 0;
}

static void list_cases(const struct ranks_case *cases) {
    static const char *const names[] = {[EXPECT_MISMATCH] = "mismatch",
                                        [EXPECT_ANY] = "any",
                                        [EXPECT_REJECTED] = "rejected",
                                        [EXPECT_REJECTER] = "rejecter",
                                        [EXPECT_LATER] = "later",
                                        [EXPECT_INVALID] = "invalid",
                                        [EXPECT_OK] = "ok",
                                        [EXPECT_RECEIVER] = "receiver"};
    for (const struct ranks_case *c = cases; c->name; c++)
        printf("%s\t%s\t%s\t%s\n", c->name, names[c->expect], c->odd, c->others);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    size_t block = LARGE + 1;
    in = calloc(RANKS_MAX * block, sizeof *in);
    out = calloc(RANKS_MAX * block, sizeof *out);
    if (!in || !out) return 2;
    for (size_t r = 0; r < RANKS_MAX; r++) outs[r] = out + r * block, ins[r] = in + r * block;
    if (!strcmp(what, "calls")) return list_calls(), 0;
    if (!strcmp(what, "handles")) return list_handles(), 0;
    if (!strcmp(what, "cases")) return list_cases(mismatch_cases), list_cases(rejected_cases), 0;
    if (!strcmp(what, "call") && argc == 3) return misuse_call(argv[2]);
    if (!strcmp(what, "handle") && argc == 3) return misuse_handle(argv[2]);
    if (!strcmp(what, "ranks") && argc > 3) return run_ranks(argv[2], argv + 3);
    fprintf(stderr, "misuse: see the beginning of misuse.c\n");
    return 2;
}
