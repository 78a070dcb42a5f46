/*
 * store.c - "muster bench store": operations per second of muster's store server and of PyTorch's under the
 * same load, alternating in one run. Each server is a child process.
 */
#include "base/median.h"
#include "bench/bench.h"
#include "bench/echo_server.h"
#include "bench/load.h"
#include "cli/options.h"
#include "commands.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench_options {
    long clients, barrier, rounds;
    double seconds;
    const char *python, *csv;
};

#define AT(field) offsetof(struct bench_options, field)

static const struct opt options[] = {
    {"clients", 'c', OPT_NUMBER, "N", "clients that send ADD, SET and GET (default 64)", AT(clients), 1,
     10000},
    {"barrier", 'b', OPT_NUMBER, "N", "clients of the barriers (default 1024)", AT(barrier), 1, 20000},
    {"rounds", 'r', OPT_NUMBER, "N", "number of trials; the median counts (default 5)", AT(rounds), 1, 100},
    {"seconds", 's', OPT_SECONDS, "S", "time of each trial (default 0.5)", AT(seconds), 0, 60},
    {"python", 0, OPT_STRING, "PATH", "Python interpreter with torch (default /usr/bin/python3)", AT(python),
     0, 0},
    {"csv", 0, OPT_STRING, "FILE", "also write the figures to FILE", AT(csv), 0, 0},
};

static const struct opt_command command = {
    .name = "muster bench store",
    .operands = "",
    .summary = "Measures muster's store server and PyTorch's in one run.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster bench store --clients 16 --barrier 64\n",
};

struct server {
    pid_t pid; /* 0: not started */
    int port;
};

static const char torch_server[] = "import signal, torch, torch.distributed as dist\n"
                                   "s = dist.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
                                   "print(s.port, torch.__version__, flush=True)\n"
                                   "signal.pause()\n";

static void stop(struct server *server) {
    if (server->pid > 0) kill(server->pid, SIGKILL);
    if (server->pid > 0) waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

/*
 * Starts a child that runs serve() or executes argv, and waits until it prints its port and version. It dies
 * with this process.
 */
static bool start(struct server *server, char *const *argv, void (*serve)(void), char version[64]) {
    int out[2];
    if (pipe2(out, O_CLOEXEC)) return false;
    fflush(stdout);
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        if (serve) serve();
        if (argv) execvp(argv[0], argv);
        _exit(127);
    }
    close(out[1]);
    FILE *greeting = fdopen(out[0], "r");
    bool ready = greeting && fscanf(greeting, "%d %63s", &server->port, version) == 2;
    if (greeting) fclose(greeting);
    if (!ready) stop(server);
    return ready;
}

static void serve_muster(void) {
    mst_store *store;
    if (mst_store_open("tcp://127.0.0.1:0", &store, .is_master = true, .open = true) != MST_OK) {
        fprintf(stderr, "%s\n", mst_error());
        _exit(1);
    }
    dprintf(STDOUT_FILENO, "%d %s\n", mst_store_port(store), mst_version());
    for (;;) pause();
}

/* What is measured. LOCAL and TCP are the same server, through its Unix socket and through TCP. */
enum target { LOCAL, TCP, TORCH, ECHO, TARGETS };
enum { ROUNDS_MOST = 100 };

/* The requests of one trial. If own is set, muster's clients use that single step instead, in dialect M. */
struct load {
    const char *name;
    struct load_step steps[2], own;
    int n_steps;
};

/*
 * PyTorch's clients do not wait for the reply of SET, so a client that publishes several keys sends them in a
 * row. The loads with 16 requests do that and end with an operation that has a reply. The get of these
 * clients is WAIT and GET.
 */
enum { LOADS = 7, ROW = 16 };
static void make_loads(struct load *loads, enum msi_dialect dialect) {
    static char value[64];
    static struct msi_str key;
    key = msi_cstr("/bench/value");
    memset(value, 'v', sizeof value);
    struct msi_store_req add = {.op = MSI_OP_ADD, .key = msi_cstr("/bench/counter"), .number = 1};
    struct msi_store_req set = {.op = MSI_OP_SET, .key = key, .value = msi_str(value, sizeof value)};
    struct msi_store_req get = {.op = MSI_OP_GET, .key = key};
    struct msi_store_req wait = {.op = MSI_OP_WAIT, .n = 1, .keys = &key};
    struct msi_store_req wait_get = {.op = MSI_OP_WAIT_GET, .n = 1, .keys = &key};
    static const char *const names[LOADS] = {
        "SET, then ADD",   "ADD", "GET", "a client's get()", "SET, 16 in a row", "ADD, 16 in a row",
        "GET, 16 in a row"};
    for (int i = 0; i < LOADS; i++) loads[i] = (struct load){.name = names[i], .n_steps = 1};
    load_add_request(&loads[0].steps[0], dialect, set, 0, 1);
    load_add_request(&loads[0].steps[0], dialect, add, 8, 1);
    load_add_request(&loads[1].steps[0], dialect, add, 8, 1);
    load_add_request(&loads[2].steps[0], dialect, get, 8 + sizeof value, 1);
    loads[3].n_steps = 2;
    load_add_request(&loads[3].steps[0], dialect, wait, 1, 1);
    load_add_request(&loads[3].steps[1], dialect, get, 8 + sizeof value, 1);
    loads[3].steps[0].ops = 0; /* WAIT and GET count as one operation */
    load_add_request(&loads[3].own, MSI_DIALECT_M, wait_get, 1 + 8 + sizeof value, 1);
    load_add_request(&loads[4].steps[0], dialect, set, 0, ROW - 1);
    load_add_request(&loads[4].steps[0], dialect, add, 8, 1);
    load_add_request(&loads[5].steps[0], dialect, add, 8, ROW);
    load_add_request(&loads[6].steps[0], dialect, get, 8 + sizeof value, ROW);
}

struct bench {
    const struct bench_options *wanted;
    struct server servers[TARGETS]; /* LOCAL and TCP are the same */
    FILE *csv;
    enum msi_dialect dialect; /* the one of torch's server */
    double rate[TARGETS][ROUNDS_MOST], cpu[TARGETS][ROUNDS_MOST];
};

static bool measure_one(struct bench *bench, enum target target, const struct load *load, long round) {
    const struct server *server = &bench->servers[target];
    struct load_clients clients;
    bool own = load->own.ops && target <= TCP;
    enum msi_dialect dialect = own ? MSI_DIALECT_M : bench->dialect;
    const struct load_step *steps = own ? &load->own : load->steps;
    int n_steps = own ? 1 : load->n_steps;
    if (target == ECHO && n_steps > 1) return true;
    if (target == ECHO)
        echo_server_expect(steps->request.len, steps->reply, bench->dialect == MSI_DIALECT_A ? 0 : 5);
    if (!load_connect(&clients, server->port, target == LOCAL, dialect, (int)bench->wanted->clients))
        return false;
    double before = load_cpu_seconds(server->pid);
    double rate = load_run(&clients, steps, n_steps, bench->wanted->seconds) * steps[n_steps - 1].ops;
    double used = load_cpu_seconds(server->pid) - before;
    load_close(&clients);
    bench->rate[target][round] = rate;
    bench->cpu[target][round] = rate > 0 ? used / (rate * bench->wanted->seconds) * 1e6 : 0;
    return rate > 0;
}

static bool measure(struct bench *bench, const struct load *load) {
    memset(bench->rate, 0, sizeof bench->rate);
    memset(bench->cpu, 0, sizeof bench->cpu);
    for (long round = 0; round < bench->wanted->rounds; round++)
        for (enum target s = 0; s < TARGETS; s++)
            if (bench->servers[s].pid > 0 && !measure_one(bench, s, load, round)) return false;
    return true;
}

static void print_row(struct bench *bench, const char *name) {
    double rate[TARGETS], cpu[TARGETS];
    for (enum target s = 0; s < TARGETS; s++) {
        rate[s] = msi_median(bench->rate[s], bench->wanted->rounds);
        cpu[s] = msi_median(bench->cpu[s], bench->wanted->rounds);
    }
    printf("%-17s", name);
    for (enum target s = 0; s < TARGETS; s++)
        if (rate[s] > 0)
            printf(" %9.0f %6.2f", rate[s], cpu[s]);
        else
            printf(" %9s %6s", "-", "-");
    if (rate[TORCH] > 0) printf("   %6.2fx %6.2fx", rate[LOCAL] / rate[TORCH], rate[TCP] / rate[TORCH]);
    printf("\n");
    fflush(stdout);
    if (!bench->csv) return;
    fprintf(bench->csv, "%s", name);
    for (enum target s = 0; s < TARGETS; s++) fprintf(bench->csv, ",%.0f,%.3f", rate[s], cpu[s]);
    fprintf(bench->csv, "\n");
}

/* The kinds of barriers: on which target, and in two steps or by the BARRIER operation. */
static const struct barrier_kind {
    const char *name;
    enum target target;
    bool two_steps;
} barriers[] = {
    {"muster, BARRIER, Unix socket", LOCAL, false},
    {"muster, BARRIER, TCP", TCP, false},
    {"muster, ADD and WAIT, TCP", TCP, true},
    {"torch, ADD and WAIT, TCP", TORCH, true},
};
enum { BARRIERS = sizeof barriers / sizeof *barriers };

static bool measure_barriers(struct bench *bench) {
    static double times[BARRIERS][ROUNDS_MOST];
    const struct bench_options *wanted = bench->wanted;
    for (long round = 0; round < wanted->rounds; round++)
        for (int w = 0; w < BARRIERS; w++) {
            struct load_clients clients;
            const struct server *server = &bench->servers[barriers[w].target];
            if (server->pid <= 0) continue;
            if (!load_connect(&clients, server->port, barriers[w].target == LOCAL,
                              barriers[w].two_steps ? bench->dialect : MSI_DIALECT_C, (int)wanted->barrier))
                return false;
            times[w][round] = load_barrier(&clients, barriers[w].two_steps);
            load_close(&clients);
            if (times[w][round] == 0) return false;
        }
    double torch = msi_median(times[BARRIERS - 1], wanted->rounds);
    printf("\nbarrier of %ld clients\n", wanted->barrier);
    for (int w = 0; w < BARRIERS; w++) {
        double seconds = msi_median(times[w], wanted->rounds);
        if (seconds == 0) continue;
        printf("  %-30s %8.2f ms", barriers[w].name, seconds * 1e3);
        if (torch > 0) printf("   %5.2fx", torch / seconds);
        printf("\n");
        if (bench->csv) fprintf(bench->csv, "barrier %s,%.6f\n", barriers[w].name, seconds);
    }
    return true;
}

static void print_head(const struct bench_options *wanted, const char *torch) {
    char machine[BENCH_MACHINE_TEXT];
    printf("muster %s%s%s; %s\n", mst_version(), *torch ? ", torch " : "", torch, bench_machine(machine));
    printf("%ld clients in one thread; median of %ld trials of %.2g s; us: the server's processor time per "
           "operation\n\n",
           wanted->clients, wanted->rounds, wanted->seconds);
    printf("%-17s %16s %16s %16s %16s   %15s\n", "", "muster, Unix", "muster, TCP", "torch, TCP", "echo, TCP",
           "muster : torch");
    printf("%-17s", "");
    for (enum target s = 0; s < TARGETS; s++) printf(" %9s %6s", "op/s", "us");
    printf("   %7s %7s\n", "Unix", "TCP");
}

static bool run(struct bench *bench) {
    struct load loads[LOADS];
    bool good = true;
    make_loads(loads, bench->dialect);
    for (int i = 0; i < LOADS; i++) {
        if (good) good = measure(bench, &loads[i]);
        if (good) print_row(bench, loads[i].name);
        load_free_step(&loads[i].steps[0]);
        load_free_step(&loads[i].steps[1]);
        load_free_step(&loads[i].own);
    }
    return good && measure_barriers(bench);
}

int bench_store(int argc, char **argv) {
    struct bench_options wanted = {64, 1024, 5, 0.5, "/usr/bin/python3", NULL};
    char version[64], torch[64] = "";
    FILE *csv = NULL;
    int exit_status = bench_parse(&command, argc, argv, &wanted);
    if (exit_status == OPT_PROCEED) exit_status = bench_open_output(&command, wanted.csv, &csv);
    if (exit_status != OPT_PROCEED) return exit_status;
    fprintf(stderr,
            "muster bench store: starts a store of muster, one of PyTorch if it is installed, and an echo "
            "server on "
            "this machine, with %ld and %ld clients, for about %.0f seconds\n",
            wanted.clients, wanted.barrier, 2 + (double)(wanted.rounds * LOADS * TARGETS) * wanted.seconds);
    bench_raise_file_limit(SIZE_MAX);
    struct bench bench = {.wanted = &wanted, .csv = csv};
    char dash_c[] = "-c";
    char *python[] = {(char *)(uintptr_t)wanted.python, dash_c, (char *)(uintptr_t)torch_server, NULL};
    bool good = start(&bench.servers[TCP], NULL, serve_muster, version) && echo_server_prepare() &&
                start(&bench.servers[ECHO], NULL, echo_server_run, version);
    bench.servers[LOCAL] = bench.servers[TCP];
    if (good && !start(&bench.servers[TORCH], python, NULL, torch))
        fprintf(stderr, "muster bench store: %s has no torch; torch is left out\n", wanted.python);
    bench.dialect = !*torch || !strncmp(torch, "1.", 2) ? MSI_DIALECT_A : MSI_DIALECT_C;
    if (good) {
        print_head(&wanted, torch);
        good = run(&bench);
    }
    for (enum target s = TCP; s < TARGETS; s++) stop(&bench.servers[s]);
    if (csv) fclose(csv);
    return good ? EXIT_DONE : EXIT_FAILED;
}
