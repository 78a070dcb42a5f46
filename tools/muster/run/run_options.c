/* run_options.c - the options of "muster run", which also make its --help. Constant data, any thread. */
#include "run/run_options.h"

#include <stddef.h>

static const struct opt options[] = {
    {"nproc-per-node", 'n', OPT_STRING | OPT_STAYS_HERE, "N",
     "how many ranks to start (default 1), or: cpu, gpu, auto\n"
     "for one per processor, per NVIDIA device, per device if there are any",
     offsetof(struct run_options, nproc), 0, 0},
    {"nnodes", 0, OPT_STRING | OPT_STAYS_HERE, "N",
     "of how many nodes this is one (default 1), each started with the same\n"
     "options; MIN:MAX: it runs with MIN, and takes in more up to MAX",
     offsetof(struct run_options, nnodes), 0, 0},
    {"rdzv-endpoint", 0, OPT_STRING | OPT_STAYS_HERE, "HOST:PORT",
     "where several nodes meet: the launcher that is on HOST hosts the store\n"
     "and decides, the others join it (port 29400 unless given)",
     offsetof(struct run_options, rdzv_endpoint), 0, 0},
    {"node-rank", 0, OPT_NUMBER | OPT_STAYS_HERE, "R",
     "which of the nodes this is; the one with 0 hosts the store", offsetof(struct run_options, node_rank), 0,
     65535},
    {"master-addr", 0, OPT_STRING | OPT_STAYS_HERE, "HOST", "with --node-rank: the address of node 0",
     offsetof(struct run_options, master_addr), 0, 0},
    {"master-port", 0, OPT_NUMBER | OPT_STAYS_HERE, "PORT",
     "where the ranks meet; 0, the default on one node, takes a free port,\n"
     "several nodes take 29500 unless told otherwise",
     offsetof(struct run_options, master_port), 0, 65535},
    {"rdzv-id", 0, OPT_STRING | OPT_STAYS_HERE, "ID",
     "the job's name; a launcher that has another does not join it", offsetof(struct run_options, rdzv_id), 0,
     0},
    {"rdzv-conf", 0, OPT_STRING, "CONF",
     "join_timeout=SECONDS: how long to wait for MIN nodes (default 600);\n"
     "last_call_timeout=SECONDS: and then for more, up to MAX (default 30)",
     offsetof(struct run_options, rdzv_conf), 0, 0},
    {"rdzv-backend", 0, OPT_STRING, "NAME", "c10d or static, which mean the same here",
     offsetof(struct run_options, rdzv_backend), 0, 0},
    {"standalone", 0, OPT_FLAG | OPT_STAYS_HERE, NULL,
     "one node and a free port, which is what happens anyway", offsetof(struct run_options, standalone), 0,
     0},
    {"max-restarts", 0, OPT_NUMBER, "N", "how often all ranks are started again after one failed (default 0)",
     offsetof(struct run_options, max_restarts), 0, 1000000},
    {"monitor-interval", 0, OPT_SECONDS, "SECONDS", "ignored: ranks are watched without polling",
     offsetof(struct run_options, monitor_interval), 0, 86400},
    {"shutdown-timeout", 0, OPT_SECONDS, "SECONDS",
     "how long ranks may take to end before they are killed (default 5)",
     offsetof(struct run_options, shutdown_timeout), 0, 86400},
    {"signals-to-handle", 0, OPT_STRING, "SIGNALS",
     "those on which the ranks get the same signal and the job ends\n"
     "(default " SIGNALS_DEFAULT "); else SIGUSR1 is passed on,\n"
     "and SIGUSR2 shows what each rank does",
     offsetof(struct run_options, signals), 0, 0},
    {"log-dir", 0, OPT_STRING, "DIR",
     "keep what the ranks write in DIR/<run id>/attempt_<k>/<local rank>/\n"
     "stdout.log and stderr.log; without the next two, all of it",
     offsetof(struct run_options, log_dir), 0, 0},
    {"redirects", 'r', OPT_STRING, "WHAT",
     "what goes to these files only: 1 stdout, 2 stderr, 3 both,\n"
     "or by local rank, such as 0:1,1:3",
     offsetof(struct run_options, redirects), 0, 0},
    {"tee", 't', OPT_STRING, "WHAT", "what goes to these files and is shown; as --redirects",
     offsetof(struct run_options, tee), 0, 0},
    {"local-ranks-filter", 0, OPT_STRING, "RANKS", "show the output of these ranks only, such as 0,2",
     offsetof(struct run_options, filter), 0, 0},
    {"bind", 0, OPT_STRING, "HOW",
     "give each rank processors of its own: cores (an equal share), numa\n"
     "(by NUMA node) or none, the default",
     offsetof(struct run_options, bind), 0, 0},
    {"numa-binding", 0, OPT_STRING, "HOW", "the same; node means numa",
     offsetof(struct run_options, numa_binding), 0, 0},
    {"env", 0, OPT_STRINGS | OPT_STAYS_HERE, "NAME=VALUE",
     "set a variable for the ranks; NAME alone takes the launcher's; may be repeated",
     offsetof(struct run_options, env), 0, 0},
    {"no-env", 0, OPT_FLAG, NULL, "of the launcher's variables, pass on PATH, HOME and the like only",
     offsetof(struct run_options, no_env), 0, 0},
    {"prof", 0, OPT_FLAG | OPT_STAYS_HERE, NULL,
     "record what communication costs; rank 0 prints the table at the end",
     offsetof(struct run_options, prof), 0, 0},
    {"trace", 0, OPT_STRING | OPT_STAYS_HERE, "DIR",
     "each rank writes a trace to DIR, and after a failure its last operations,\n"
     "for 'muster report DIR'",
     offsetof(struct run_options, trace), 0, 0},
    {"hosts", 0, OPT_STRING | OPT_STAYS_HERE, "HOSTS",
     "start ranks on these hosts over ssh, such as a,b:2,user@c:4;\n"
     "without a number, as many as -n says",
     offsetof(struct run_options, hosts), 0, 0},
    {"hostfile", 0, OPT_STRING | OPT_STAYS_HERE, "FILE",
     "the same from a file with lines such as: host slots=2", offsetof(struct run_options, hostfile), 0, 0},
    {"ssh", 0, OPT_STRING | OPT_STAYS_HERE, "COMMAND",
     "what to use in place of ssh, such as 'ssh -p 2222 -i key'", offsetof(struct run_options, ssh), 0, 0},
    {"ssh-local", 0, OPT_FLAG | OPT_STAYS_HERE, NULL, "use ssh for this host, too, if it is among the hosts",
     offsetof(struct run_options, ssh_local), 0, 0},
    {"remote-muster", 0, OPT_STRING | OPT_STAYS_HERE, "PATH",
     "muster on the other hosts (default: where it is on this one)",
     offsetof(struct run_options, remote_muster), 0, 0},
    {"agent", 0, OPT_NUMBER | OPT_STAYS_HERE, "COLOURS",
     "what --hosts gives to the launchers that it starts elsewhere", offsetof(struct run_options, agent), 0,
     3},
    {"verbose", 'v', OPT_FLAG, NULL, "say where the store is, how the run is called and who is bound to what",
     offsetof(struct run_options, verbose), 0, 0},
    {"no-prefix", 0, OPT_FLAG, NULL, "leave the ranks' output alone: no rank in front, no gathering of lines",
     offsetof(struct run_options, no_prefix), 0, 0},
};

const struct opt_command run_command = {
    .name = "muster run",
    .operands = "program [argument ...]",
    .summary =
        "Starts N copies of a program as the ranks of one world: on this host, on hosts that it reaches "
        "over\n"
        "ssh (--hosts), or here as the part of a world that has a launcher on each node (--nnodes). The\n"
        "environment tells each its rank, as torchrun does. The first rank to fail ends the others; then "
        "all\n"
        "are started again, if that is wanted, or its exit code is the launcher's, on every host.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .stops_at_operand = true,
};
