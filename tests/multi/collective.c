/*
 * collective.c - every communication call against a naive reference, on as many ranks as the launcher starts.
 *
 *   muster run -n 4 build/bin/tests/collective [--quick | --all | --count N | --soak SECONDS | --calls N]
 *       [options]
 *
 *   --quick           each operation, dtype and op once, each operation with every count; seconds (default)
 *   --all             every operation, dtype and op with every count, in and out of place, blocking and not
 *   --count N         every operation with N elements, in each kind of memory
 *   --soak SECONDS    random calls for so long, several at once on several groups; checks memory
 *   --calls N         the same for N cases; from 50000 on, growing memory is a failure
 *   --seed S          seed of everything random; always printed
 *   --only NAME       one operation ("all_reduce") or scenario ("threads") only
 *   --dtype D         one dtype only ("bf16")
 *   --max-count N     no case with more elements
 *   --case N          only the case of this number
 *   --device          buffers in GPU memory, for MUSTER_BACKEND=cpu:native,cuda:nccl; see collective/device.c
 *   --verbose         print each case before it starts
 *
 * Exits with 0 on success; with 1 at the first error, after printing the case; with 77 if the library does
 * not support this world. Its parts are in collective/.
 */
#include "collective/suite.h"

#include "os/clock.h"

#include <getopt.h>

struct suite suite = {.max_count = SIZE_MAX, .only_case = -1};

enum mode { QUICK, ALL, COUNT, SOAK };
static enum mode mode = QUICK;
static double seconds = 10;
static uint64_t calls;
static size_t count;

static void read_option(int option) {
    switch (option) {
    case 'q':
        mode = QUICK;
        break;
    case 'a':
        mode = ALL;
        break;
    case 'k':
        mode = COUNT;
        count = strtoull(optarg, NULL, 10);
        break;
    case 's':
        mode = SOAK;
        seconds = strtod(optarg, NULL);
        break;
    case 'n':
        mode = SOAK;
        calls = strtoull(optarg, NULL, 10);
        break;
    case 'e':
        suite.seed = strtoull(optarg, NULL, 10);
        break;
    case 'o':
        suite.only = optarg;
        break;
    case 'd':
        suite.dtype = optarg;
        break;
    case 'm':
        suite.max_count = strtoull(optarg, NULL, 10);
        break;
    case 'c':
        suite.only_case = strtoll(optarg, NULL, 10);
        break;
    case 'g':
        suite.device = true;
        break;
    case 'v':
        suite.verbose = true;
        break;
    default:
        exit(2);
    }
}

static void read_options(int argc, char **argv) {
    static const struct option options[] = {
        {"quick", no_argument, NULL, 'q'},
        {"all", no_argument, NULL, 'a'},
        {"soak", required_argument, NULL, 's'},
        {"calls", required_argument, NULL, 'n'},
        {"seed", required_argument, NULL, 'e'},
        {"only", required_argument, NULL, 'o'},
        {"dtype", required_argument, NULL, 'd'},
        {"max-count", required_argument, NULL, 'm'},
        {"case", required_argument, NULL, 'c'},
        {"device", no_argument, NULL, 'g'},
        {"verbose", no_argument, NULL, 'v'},
        {"count", required_argument, NULL, 'k'},
        {NULL, 0, NULL, 0},
    };
    suite.seed = 1;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) read_option(option);
}

/* With a name that does not exist, a run would test nothing. */
static void check_names(void) {
    bool known = !suite.only || is_scenario(suite.only), dtype = !suite.dtype;
    for (const struct operation *o = next_operation(NULL); o && !known; o = next_operation(o))
        known = !strcmp(o->name, suite.only);
    for (int d = 1; d < MST_DTYPE_COUNT && !dtype; d++)
        dtype = !strcmp(mst_dtype_name((mst_dtype)d), suite.dtype);
    if (known && dtype) return;
    fprintf(stderr, "collective: no %s '%s'\n", known ? "dtype" : "operation or scenario",
            known ? suite.dtype : suite.only);
    exit(2);
}

/* A world that the library does not support is not a failure. */
static void skip_if_unsupported(void) {
    int word = 1;
    mst_status st = mst_all_reduce(&word, 1, MST_I32, .timeout_ms = TIMEOUT_MS);
    if (st == MST_ERR_UNSUPPORTED) {
        printf("collective: skipped: %s\n", mst_error());
        fflush(stdout);
        exit(77);
    }
    expect_status(st, MST_OK, "the first mst_all_reduce");
}

static void run_mode(void) {
    if (suite.only_case >= 0) {
        run_one((uint64_t)suite.only_case);
    } else if (mode == SOAK) {
        run_soak(seconds, calls);
    } else if (mode == COUNT) {
        run_count(count);
    } else {
        if (!suite.dtype) run_scenarios();
        if (mode == ALL)
            run_all();
        else
            run_quick();
    }
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    check_names();
    EXPECT_OK(mst_init(.timeout_ms = TIMEOUT_MS));
    suite.me = mst_get_rank(NULL);
    suite.size = mst_get_world_size(NULL);
    if (suite.size > RANKS_MAX) {
        fprintf(stderr, "collective: a world of %d; this suite takes up to %d ranks\n", suite.size,
                RANKS_MAX);
        return 2;
    }
    mst_printf("collective: %d ranks on %d hosts, seed %llu\n", suite.size, mst_get_host_count(NULL),
               (unsigned long long)suite.seed);
    skip_if_unsupported();
    if (suite.device) device_begin();
    make_layouts();
    int64_t begin = msi_now();
    run_mode();
    EXPECT_OK(mst_barrier(.timeout_ms = TIMEOUT_MS));
    end_layouts();
    mst_printf("collective: ok: %llu cases in %.1f s, seed %llu\n", (unsigned long long)suite.cases,
               (double)(msi_now() - begin) / 1e9, (unsigned long long)suite.seed);
    EXPECT_OK(mst_destroy_process_group(NULL));
    return 0;
}
