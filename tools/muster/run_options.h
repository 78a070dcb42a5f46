/* run_options.h - what the command line of "muster run" says. */
#ifndef MUSTER_TOOL_RUN_OPTIONS_H
#define MUSTER_TOOL_RUN_OPTIONS_H

#include "options.h"

#include <stdbool.h>

struct run_options {
    const char *nproc;
    int n; /* what nproc amounts to */
    long master_port;
    long max_restarts;
    double monitor_interval; /* accepted for torchrun's sake */
    double shutdown_timeout;
    const char *log_dir, *redirects, *tee, *filter;
    bool no_prefix;
    const char *bind, *numa_binding; /* two names of one thing */
    struct opt_strings env;
    bool no_env;
    bool verbose;
    bool standalone;
    const char *hosts, *hostfile; /* at most one of the two */
    const char *ssh, *remote_muster;
    bool ssh_local;
};

/* What holds where an option was not given. */
#define RUN_OPTIONS_DEFAULT                                                                                  \
    { .nproc = "1", .shutdown_timeout = 5 }

extern const struct opt_command run_command;

#endif
