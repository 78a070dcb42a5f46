/* run_options.h - the options of "muster run". */
#ifndef MUSTER_TOOL_RUN_RUN_OPTIONS_H
#define MUSTER_TOOL_RUN_RUN_OPTIONS_H

#include "cli/options.h"
#include "run/ranks/signals.h"

#include <stdbool.h>

/* The characters of a run id, which is part of keys and file names. */
enum { RUN_ID_MAX = 65 };
#define RUN_ID_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

struct run_options {
    const char *nproc, *nnodes;
    long node_rank; /* -1: not given */
    const char *master_addr;
    long master_port; /* -1: not given */
    const char *rdzv_endpoint, *rdzv_id, *rdzv_backend, *rdzv_conf;
    const char *signals;
    long max_restarts;
    long survive, replace;   /* -1: not given; 0: without a value */
    double monitor_interval; /* ignored; torchrun has it */
    double shutdown_timeout;
    const char *log_dir, *redirects, *tee, *filter;
    bool no_prefix;
    const char *bind, *numa_binding; /* two names of one option */
    struct opt_strings env;
    bool no_env;
    bool prof;
    const char *trace;
    bool verbose;
    bool standalone;
    bool open_store;
    bool tls;
    bool agent_secret;            /* internal: the secret of the job comes on a descriptor */
    const char *hosts, *hostfile; /* at most one of the two */
    const char *ssh, *remote_muster;
    bool ssh_local;
    long agent; /* -1: no; else another host's launcher started this one: output_options.colours */
};

/* The defaults. */
#define RUN_OPTIONS_DEFAULT                                                                                  \
    {                                                                                                        \
        .nproc = "1", .nnodes = "1", .node_rank = -1, .master_port = -1, .agent = -1, .survive = -1,         \
        .replace = -1, .signals = SIGNALS_DEFAULT, .shutdown_timeout = 5                                     \
    }

extern const struct opt_command run_command;

/*
 * profiling.c: creates the directory of --trace and appends the variables of --prof and --trace to o->env, as
 * if --env had named them last. The value of MUSTER_TRACE goes to the launcher's own environment.
 */
mst_status run_prof_set(struct run_options *o);

/* The directory to which the ranks of this host write traces, or NULL. */
const char *run_prof_directory(const struct run_options *o);

#endif
