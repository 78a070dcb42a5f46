/*
 * run.c - "muster run": reads the command line, checks that it can be carried out, hosts the store and hands
 * over to the job. Runs on the main thread; the store's server brings a thread of its own.
 */
#include "commands.h"
#include "job.h"
#include "nproc.h"
#include "options.h"
#include "program.h"
#include "spawn.h"

#include <muster/muster.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    RUN_ID_BYTES = 8,
    FILES_OF_OUR_OWN = 64,
    FILES_PER_RANK = 5, /* two pipes, a pidfd, and what the store may need for it */
    FILES_PER_RANK_MIN = 3,
};

static const char master_addr[] = "127.0.0.1";

struct run_options {
    const char *nproc;
    int n; /* what nproc amounts to */
    long master_port;
    long max_restarts;
    double monitor_interval; /* accepted for torchrun's sake */
    double shutdown_timeout;
    bool no_prefix;
    bool standalone;
};

static const struct opt options[] = {
    {"nproc-per-node", 'n', OPT_STRING, "N",
     "how many ranks to start (default 1), or: cpu, gpu, auto\n"
     "for one per processor, per NVIDIA device, per device if there are any",
     offsetof(struct run_options, nproc), 0, 0},
    {"standalone", 0, OPT_FLAG, NULL, "one node and a free port, which is what happens anyway",
     offsetof(struct run_options, standalone), 0, 0},
    {"master-port", 0, OPT_NUMBER, "PORT", "where the ranks meet; 0, the default, takes a free port",
     offsetof(struct run_options, master_port), 0, 65535},
    {"max-restarts", 0, OPT_NUMBER, "N", "how often all ranks are started again after one failed (default 0)",
     offsetof(struct run_options, max_restarts), 0, 1000000},
    {"monitor-interval", 0, OPT_SECONDS, "SECONDS", "ignored: ranks are watched without polling",
     offsetof(struct run_options, monitor_interval), 0, 86400},
    {"shutdown-timeout", 0, OPT_SECONDS, "SECONDS",
     "how long ranks may take to end before they are killed (default 5)",
     offsetof(struct run_options, shutdown_timeout), 0, 86400},
    {"no-prefix", 0, OPT_FLAG, NULL, "leave the ranks' output alone: no rank in front, no gathering of lines",
     offsetof(struct run_options, no_prefix), 0, 0},
};

static const struct opt_command command = {
    .name = "muster run",
    .operands = "program [argument ...]",
    .summary =
        "Starts N copies of a program on this host, as the ranks of one world. The environment tells\n"
        "each its rank, as torchrun does. The first rank to fail ends the others; then all are started\n"
        "again, if that is wanted, or its exit code is the launcher's.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .stops_at_operand = true,
};

/* Lets the launcher hold what n ranks need; *before is what the ranks are to have. */
static int raise_file_limit(int n, struct rlimit *before) {
    rlim_t least = (rlim_t)(n * FILES_PER_RANK_MIN + FILES_OF_OUR_OWN);
    rlim_t wish = (rlim_t)(n * FILES_PER_RANK + FILES_OF_OUR_OWN);

    if (getrlimit(RLIMIT_NOFILE, before) != 0) return -errno;
    struct rlimit raised = *before;
    if (raised.rlim_cur >= wish) return 0;
    raised.rlim_cur = wish < raised.rlim_max ? wish : raised.rlim_max;
    if (raised.rlim_cur < least) return -EMFILE;
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? 0 : -errno;
}

static int make_run_id(char id[2 * RUN_ID_BYTES + 1]) {
    unsigned char bytes[RUN_ID_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return -errno;
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int host_store(const struct run_options *o, mst_store **store) {
    char url[64];

    snprintf(url, sizeof url, "tcp://%s:%ld", master_addr, o->master_port);
    if (mst_store_open(url, store, .is_master = true) == MST_OK) return OPT_PROCEED;
    const mst_error_info *e = mst_last_error();
    return opt_mistake(&command, "cannot host the store: %s%s%s", e->message, e->remedy[0] ? "; " : "",
                       e->remedy);
}

static int run_with_store(const struct run_options *o, const mst_store *store, struct job_options job) {
    char run_id[2 * RUN_ID_BYTES + 1];
    struct worker_env env;
    struct worker_env_facts facts = {
        .world_size = job.n,
        .local_world_size = job.n,
        .group_rank = 0,
        .group_world_size = 1,
        .master_addr = master_addr,
        .master_port = mst_store_port(store),
        .run_id = run_id,
        .max_restarts = (int)o->max_restarts,
    };
    int rc = make_run_id(run_id);

    if (rc == 0) rc = worker_env_open(&env, &facts);
    if (rc != 0) return opt_mistake(&command, "cannot set up the environment: %s", strerror(-rc));
    job.env = &env;
    job.prefix = !o->no_prefix;
    job.max_restarts = (int)o->max_restarts;
    job.shutdown_seconds = o->shutdown_timeout;
    int status = job_run(&job);
    worker_env_close(&env);
    return status;
}

/* The warden comes first: it must share neither the store's threads nor its sockets. */
static int run_program(const struct run_options *o, const char *program, char **argv) {
    struct warden warden;
    struct rlimit files;
    mst_store *store;
    struct job_options job = {
        .n = o->n, .program = program, .argv = argv, .warden = &warden, .files = &files};
    int rc = raise_file_limit(o->n, &files);

    if (rc == -EMFILE)
        return opt_mistake(&command, "%d ranks need %d open files, and the limit is %llu (ulimit -Hn)", o->n,
                           o->n * FILES_PER_RANK_MIN + FILES_OF_OUR_OWN, (unsigned long long)files.rlim_max);
    if (rc == 0) rc = warden_open(&warden, job.n);
    if (rc != 0) return opt_mistake(&command, "cannot set up the launcher: %s", strerror(-rc));
    int status = host_store(o, &store);
    if (status == OPT_PROCEED) {
        status = run_with_store(o, store, job);
        mst_store_free(store);
    }
    warden_close(&warden);
    return status;
}

int cmd_run(int argc, char **argv) {
    struct run_options o = {.nproc = "1", .shutdown_timeout = 5};
    char why[1024];
    char **operands, *program;
    int n_operands;
    int status = opt_parse(&command, argc, argv, &o, &operands, &n_operands);

    if (status != OPT_PROCEED) return status;
    if (n_operands == 0)
        return opt_mistake(&command, "which program? usage: muster run [options] program [argument ...]");
    if (program_find(operands[0], &program, why, sizeof why) != 0) return opt_mistake(&command, "%s", why);
    if (nproc_read(o.nproc, &o.n, why, sizeof why) != 0) return opt_mistake(&command, "%s", why);
    spawn_prepare();
    status = run_program(&o, program, operands);
    free(program);
    return status;
}
