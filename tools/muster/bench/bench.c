/* bench.c - the command "muster bench": runs a benchmark or lists them. See bench.h. */
#include "bench/bench.h"
#include "bench/launch.h"
#include "bench/ops/ops.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "commands.h"
#include "os/host.h"

#include "base/buf.h"
#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

struct benchmark {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct benchmark benchmarks[] = {
    {"limits", bench_limits,
     "limits of this machine: copies, additions, cache lines between processors, TCP"},
    {"store", bench_store, "operations per second of the store and of PyTorch's store"},
    {"init", bench_init, "time from launch to the end of the first barrier, with the MPIs and torch gloo"},
    {"kernels", bench_kernels, "speed of the reduction kernels and of a plain loop"},
    {"prof", bench_prof, "what the flight recorder and profiling add to a call"},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof benchmarks[0] };

int bench_parse(const struct opt_command *command, int argc, char **argv, void *values) {
    char **operands;
    int n, status = opt_parse(command, argc, argv, values, &operands, &n);
    if (status != OPT_PROCEED || n == 0) return status;
    return opt_mistake(command, "unexpected argument '%s'", operands[0]);
}

int bench_interrupted(const char *command) {
    fprintf(stderr, "%s: interrupted\n", command);
    return EXIT_SIGNAL + launch_signal();
}

bool bench_next_item(const char **list, char separator, char item[32]) {
    if (**list == '\0') return false;
    size_t len = strcspn(*list, (char[]){separator, '\0'});
    snprintf(item, 32, "%.*s", (int)len, *list);
    *list += len + ((*list)[len] == separator);
    return true;
}

int bench_read_numbers(const struct opt_command *command, const char *option, const char *list, int most,
                       struct bench_numbers *numbers) {
    char item[32];
    long long number;
    for (numbers->n = 0; bench_next_item(&list, ',', item); numbers->at[numbers->n++] = (int)number) {
        if (!opt_read_number(item, 1, most, &number))
            return opt_mistake(command, "%s takes numbers from 1 to %d, not '%s'", option, most, item);
        if (numbers->n == BENCH_NUMBERS_MOST)
            return opt_mistake(command, "%s takes at most %d numbers", option, BENCH_NUMBERS_MOST);
        for (int i = 0; i < numbers->n; i++)
            if (numbers->at[i] == (int)number) return opt_mistake(command, "%s has %s twice", option, item);
    }
    return numbers->n > 0 ? OPT_PROCEED : opt_mistake(command, "%s needs a number", option);
}

int bench_open_output(const struct opt_command *command, const char *path, FILE **file) {
    if (path && output_file_check(path) != MST_OK)
        return opt_mistake(command, "%s", mst_last_error()->message);
    if (!path || (*file = fopen(path, "we"))) return OPT_PROCEED;
    return opt_mistake(command, "cannot write to %s: %s", path, strerror(errno));
}

const char *bench_machine(char text[BENCH_MACHINE_TEXT]) {
    char cpu[128];
    struct utsname system = {0};
    uname(&system);
    snprintf(text, BENCH_MACHINE_TEXT, "%s (%s), %ld cores, %.60s %.60s", msi_cpu_name(cpu, sizeof cpu),
             system.machine, sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release);
    return text;
}

bool bench_raise_file_limit(size_t needed) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return true;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed;
}

void bench_write_line(struct msi_buf *line, FILE *file) {
    msi_buf_add_u8(line, '\n');
    fwrite(line->data, 1, line->len, file);
    msi_buf_free(line);
}

double bench_thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

const char *bench_name(int i, const char **help) {
    if (i >= BENCHMARKS) return NULL;
    *help = benchmarks[i].help;
    return benchmarks[i].name;
}

static void list_benchmarks(void) {
    printf(
        "usage: muster bench OPERATION ... [options]\n"
        "       muster bench NAME [options]\n\n"
        "Measures communication on this machine and checks every result. Other libraries that are installed\n"
        "are measured in the same run.\n\n"
        "operations:\n ");
    for (int i = 0; i < LOOP_OPS; i++) printf(" %s", loop_op_names[i]);
    printf("\n  all (of them)\n\nbackends, for --backend:\n  through muster:   %s\n  called directly:  %s\n"
           "\ndtypes, for --dtype:\n ",
           ops_backend_names(true), ops_backend_names(false));
    for (int i = 0; i < LOOP_DTYPES; i++) printf(" %s", loop_dtypes[i].name);
    printf("\n\nother benchmarks:\n");
    for (int i = 0; i < BENCHMARKS; i++) printf("  %-8s %s\n", benchmarks[i].name, benchmarks[i].help);
    printf("\n'muster bench all --help' lists the options of operations, 'muster bench NAME --help' those of "
           "NAME.\n"
           "\nexamples:\n"
           "  muster bench all_reduce                   compare muster with the MPIs that are installed\n"
           "  muster bench all_reduce --backend native  muster alone, in the layout of nccl-tests\n"
           "  muster bench limits                       what this machine can do at best\n");
}

int cmd_bench(int argc, char **argv) {
    if (argc == 1 || (argc == 2 && !strcmp(argv[1], "--help"))) {
        list_benchmarks();
        return EXIT_DONE;
    }
    for (int i = 0; i < BENCHMARKS; i++)
        if (!strcmp(argv[1], benchmarks[i].name)) return benchmarks[i].run(argc - 1, argv + 1);
    return bench_ops(argc, argv);
}
