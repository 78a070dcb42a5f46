/* run_options.c - the table of options of "muster run". Constant data, any thread. */
#include "run/run_options.h"

#define FIELD(name)              offsetof(struct run_options, name), 0, 0
#define RANGE(name, least, most) offsetof(struct run_options, name), least, most

static const struct opt options[] = {
    {"nproc-per-node", 'n', OPT_STRING | OPT_STAYS_HERE, "N|cpu|gpu|auto",
     "ranks to start on this host (default 1), or one per processor, per\n"
     "NVIDIA device, or per device if there are any; also -np N",
     FIELD(nproc)},
    {"prof", 0, OPT_FLAG | OPT_STAYS_HERE, NULL, "profile communication; rank 0 prints a table at the end",
     FIELD(prof)},
    {"trace", 0, OPT_STRING | OPT_STAYS_HERE, "DIR",
     "write a trace of each rank to DIR, and its last operations after a\n"
     "failure, for 'muster report DIR'",
     FIELD(trace)},
    {"env", 0, OPT_STRINGS | OPT_STAYS_HERE, "NAME=VALUE",
     "set a variable for the ranks; NAME alone copies the launcher's value;\n"
     "may be repeated",
     FIELD(env)},
    {"no-env", 0, OPT_FLAG, NULL, "pass on only PATH, HOME and the like of the launcher's variables",
     FIELD(no_env)},
    {"bind", 0, OPT_STRING, "cores|numa|none",
     "bind each rank to processors: an equal share of the cores, a NUMA\n"
     "node, or not at all (default)",
     FIELD(bind)},
    {"numa-binding", 0, OPT_STRING, "node|cores|none", "the same as --bind; node means numa",
     FIELD(numa_binding)},
    {"no-prefix", 0, OPT_FLAG, NULL,
     "do not prefix lines with their rank; ranks write to the output directly", FIELD(no_prefix)},
    {"verbose", 'v', OPT_FLAG, NULL, "print the address of the store, the run id and the bindings",
     FIELD(verbose)},
    {"log-dir", 0, OPT_STRING, "DIR",
     "write the output of the ranks to DIR/<run id>/attempt_<k>/<local rank>/\n"
     "stdout.log and stderr.log; all of it, without the next two options",
     FIELD(log_dir)},
    {"redirects", 'r', OPT_STRING, "WHAT",
     "write to these files only: 1 stdout, 2 stderr, 3 both,\n"
     "or by local rank, such as 0:1,1:3",
     FIELD(redirects)},
    {"tee", 't', OPT_STRING, "WHAT", "write to these files and show it; WHAT as for --redirects", FIELD(tee)},
    {"local-ranks-filter", 0, OPT_STRING, "RANKS", "show the output of these local ranks only, such as 0,2",
     FIELD(filter)},
    {"max-restarts", 0, OPT_NUMBER, "N", "restart all ranks after a failure, at most N times (default 0)",
     RANGE(max_restarts, 0, 1000000)},
    {"survive", 0, OPT_NUMBER | OPT_MAY_OMIT, "MIN",
     "do not end the other ranks when a rank dies, as long as MIN are left\n"
     "(default 1); the program must recover, for example with\n"
     "mst_shrink_world",
     RANGE(survive, 1, 1000000)},
    {"replace", 0, OPT_NUMBER | OPT_MAY_OMIT, "N",
     "start a new process for a rank that died, at most N times (default: the\n"
     "number of ranks); it joins when the others call mst_grow_world; implies\n"
     "--survive",
     RANGE(replace, 1, 1000000)},
    {"shutdown-timeout", 0, OPT_SECONDS, "SECONDS", "kill ranks that do not end within this time (default 5)",
     RANGE(shutdown_timeout, 0, 86400)},
    {"signals-to-handle", 0, OPT_STRING, "SIGNALS",
     "signals that are sent on to the ranks and end the job\n"
     "(default " SIGNALS_DEFAULT "); otherwise SIGUSR1 is\n"
     "sent on to the ranks and SIGUSR2 shows what each rank does",
     FIELD(signals)},
    {"hosts", 0, OPT_STRING | OPT_STAYS_HERE, "HOSTS",
     "start ranks on these hosts over ssh, such as a,b:2,user@c:4;\n"
     "a host without a number starts as many as -n says",
     FIELD(hosts)},
    {"hostfile", 0, OPT_STRING | OPT_STAYS_HERE, "FILE",
     "the same from a file with lines such as: host slots=2", FIELD(hostfile)},
    {"ssh", 0, OPT_STRING | OPT_STAYS_HERE, "COMMAND",
     "use this command in place of ssh, such as 'ssh -p 2222 -i key'", FIELD(ssh)},
    {"ssh-local", 0, OPT_FLAG | OPT_STAYS_HERE, NULL, "use ssh for this host, too, if it is among the hosts",
     FIELD(ssh_local)},
    {"remote-muster", 0, OPT_STRING | OPT_STAYS_HERE, "PATH",
     "the muster program on the other hosts (default: the path of this one)", FIELD(remote_muster)},
    {"nnodes", 0, OPT_STRING | OPT_STAYS_HERE, "N",
     "nodes of the job (default 1), each started with the same options;\n"
     "MIN:MAX starts with MIN nodes and lets more join, up to MAX",
     FIELD(nnodes)},
    {"rdzv-endpoint", 0, OPT_STRING | OPT_STAYS_HERE, "HOST:PORT",
     "where the nodes meet: the launcher on HOST hosts the store and\n"
     "coordinates, the others join it (default port 29400)",
     FIELD(rdzv_endpoint)},
    {"rdzv-id", 0, OPT_STRING | OPT_STAYS_HERE, "ID",
     "the name of the job; launchers with another name do not join it", FIELD(rdzv_id)},
    {"rdzv-conf", 0, OPT_STRING, "CONF",
     "join_timeout=SECONDS: how long to wait for MIN nodes (default 600);\n"
     "last_call_timeout=SECONDS: how long to wait for more after that,\n"
     "up to MAX (default 30)",
     FIELD(rdzv_conf)},
    {"node-rank", 0, OPT_NUMBER | OPT_STAYS_HERE, "R", "the number of this node; node 0 hosts the store",
     RANGE(node_rank, 0, 65535)},
    {"master-addr", 0, OPT_STRING | OPT_STAYS_HERE, "HOST", "with --node-rank: the address of node 0",
     FIELD(master_addr)},
    {"master-port", 0, OPT_NUMBER | OPT_STAYS_HERE, "PORT",
     "the port of the store; 0, the default on one node, takes a free port;\n"
     "the default on several nodes is 29500",
     RANGE(master_port, 0, 65535)},
    {"open-store", 0, OPT_FLAG | OPT_STAYS_HERE, NULL,
     "let clients use the store without authentication, as PyTorch's do: who\n"
     "reaches its port can read and change it",
     FIELD(open_store)},
    {"tls", 0, OPT_FLAG | OPT_STAYS_HERE, NULL,
     "encrypt connections to the store and between ranks (TLS 1.3); set\n"
     "MUSTER_TLS=1 for other commands that use the store",
     FIELD(tls)},
    {"standalone", 0, OPT_FLAG | OPT_STAYS_HERE, NULL, "one node and a free port, which is the default",
     FIELD(standalone)},
    {"rdzv-backend", 0, OPT_STRING, "c10d|static", "accepted as by torchrun; both mean the same here",
     FIELD(rdzv_backend)},
    {"monitor-interval", 0, OPT_SECONDS, "SECONDS", "ignored: ranks are watched without polling",
     RANGE(monitor_interval, 0, 86400)},
    {"agent", 0, OPT_NUMBER | OPT_STAYS_HERE | OPT_HIDDEN, "COLOURS",
     "internal: set by --hosts on other hosts", RANGE(agent, 0, 3)},
    {"agent-secret", 0, OPT_FLAG | OPT_STAYS_HERE | OPT_HIDDEN, NULL,
     "internal: the secret of the job comes on descriptor 3", FIELD(agent_secret)},
};

const struct opt_command run_command = {
    .name = "muster run",
    .operands = "program [argument ...]",
    .summary = "Starts N copies of a program as the ranks of one world: on this host, on hosts that it\n"
               "reaches over ssh (--hosts), or as one node of a job with a launcher on each node\n"
               "(--nnodes). Environment variables give each rank its number, as torchrun does. When a rank\n"
               "fails, the others are ended, unless --survive is given. Then all are restarted\n"
               "(--max-restarts), or the launcher exits with the code of the rank that failed first, on\n"
               "every host.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .stops_at_operand = true,
    .examples = "  muster run -n 4 ./program                          four ranks on this machine\n"
                "  muster run -n 4 --prof ./program                   and a table of communication times\n"
                "  muster run --hosts a,b:2 -n 4 ./program            four ranks on a, two on b\n"
                "  muster run -n 2 --open-store python3 train.py      a PyTorch script, as with torchrun\n",
};
