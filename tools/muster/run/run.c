/*
 * run.c - "muster run": parses and checks the command line, hosts the store and runs the job. Runs on the
 * main thread; the store's server has its own thread.
 */
#include "commands.h"
#include "run/job/job.h"
#include "run/nodes/rendezvous.h"
#include "run/nodes/run_hosts.h"
#include "run/ranks/nproc.h"
#include "run/ranks/program.h"
#include "run/ranks/spawn.h"
#include "run/run_options.h"
#include "run/secret.h"
#include "status/jobs.h"

#include "auth/sha256.h"
#include "base/error.h"
#include "base/hash.h"
#include "os/host.h"
#include "store/store.h"

#include <muster/muster.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    FILES_OF_LAUNCHER = 64,
    FILES_PER_RANK = 5, /* two pipes, a pidfd and store connections */
    FILES_PER_RANK_MIN = 3,
    LOGS_PER_RANK = 2,
    FILES_PER_AGENT = 4, /* two pipes and store connections */
    LINGER_MS = 3000,    /* how long the store serves other launchers after the job has ended */
};

/* All that a job needs. A zeroed member is not open. */
struct launch {
    struct run_hosts hosts; /* hosts.n is 0 without --hosts and --hostfile */
    struct rendezvous rendezvous;
    char *program;
    struct routes routes;
    struct bind bind;
    struct rlimit files;
    struct reaper reaper;
    mst_store *store;
    char random_id[17];
    char secret[RUN_SECRET_TEXT]; /* "": the user's, or a file */
    struct logs logs;
    struct rank_states states;
    struct node_agent_options agent;
    struct worker_env_facts facts;
    struct job_options job;
};

/* Raises the launcher's limit on open files; the ranks get the limit before that. */
static mst_status raise_file_limit(struct launch *l) {
    int n = l->job.workers.n, per_rank = FILES_PER_RANK_MIN + (l->routes.any_logged ? LOGS_PER_RANK : 0);
    int least = n * per_rank + run_hosts_others(&l->hosts) * FILES_PER_AGENT + FILES_OF_LAUNCHER;
    rlim_t wish = (rlim_t)least + (rlim_t)n * (FILES_PER_RANK - FILES_PER_RANK_MIN);
    if (getrlimit(RLIMIT_NOFILE, &l->files) != 0) return msi_fail_errno(errno, "cannot set up the launcher");
    struct rlimit raised = l->files;
    if (raised.rlim_cur >= wish) return MST_OK;
    raised.rlim_cur = wish < raised.rlim_max ? wish : raised.rlim_max;
    if (raised.rlim_cur < (rlim_t)least)
        return msi_fail(MST_ERR_LIMIT, NULL,
                        "%d ranks need %d open files, but the limit is %llu (ulimit -Hn)", n, least,
                        (unsigned long long)raised.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return MST_OK;
    return msi_fail_errno(errno, "cannot set up the launcher");
}

static mst_status open_reaper(struct launch *l) {
    int rc = reaper_open(&l->reaper, l->job.workers.n + run_hosts_others(&l->hosts));
    return rc == 0 ? MST_OK : msi_fail_errno(-rc, "cannot set up the launcher");
}

static void print_facts(const struct launch *l) {
    int n = l->job.workers.n;
    char cpus[1024], store[MSI_ADDRESS_TEXT_MAX];
    msi_address_format(&l->rendezvous.address, store);
    if (!l->job.agent)
        fprintf(stderr, "muster run: %d ranks, run %s, store at %s\n", n, l->facts.run_id, store);
    else
        fprintf(stderr, "muster run: %d ranks here, store at %s, %s\n", n, store,
                l->store ? "hosted by this node" : "hosted by another node");
    if (l->facts.log_dir) fprintf(stderr, "muster run: logs in %s\n", l->facts.log_dir);
    for (int i = 0; i < n && bind_of(&l->bind, i); i++)
        fprintf(stderr, "muster run: local rank %d is bound to processors %s\n", i,
                bind_describe(&l->bind, i, cpus, sizeof cpus));
}

/* Nodes that share a file system need separate directories. */
static mst_status open_logs(struct launch *l, const struct run_options *o) {
    char name[RUN_ID_MAX + MSI_HOST_MAX + 16], host[MSI_HOST_MAX];
    if (!l->routes.any_logged) return MST_OK;
    if (l->job.agent)
        snprintf(name, sizeof name, "%s_%s_%d", l->facts.run_id, msi_host_name(host), (int)getpid());
    else
        snprintf(name, sizeof name, "%s", l->facts.run_id);
    mst_status st = logs_open(&l->logs, o->log_dir, name, &l->routes);
    if (st != MST_OK) return st;
    if (!o->log_dir) fprintf(stderr, "muster run: the ranks' logs are in %s\n", l->logs.dir);
    l->job.output.logs = &l->logs;
    l->facts.log_dir = l->logs.dir;
    return MST_OK;
}

/* Determines where the output goes. */
static mst_status open_routes(struct launch *l, const struct run_options *o) {
    if (o->no_prefix && (o->log_dir || o->redirects || o->tee || o->filter))
        return msi_fail(MST_ERR_INVALID, NULL,
                        "with --no-prefix the output can be neither logged nor filtered; remove it, or "
                        "--log-dir, --redirects, --tee and --local-ranks-filter");
    if (o->log_dir && !o->log_dir[0]) return msi_fail(MST_ERR_INVALID, NULL, "--log-dir is empty");
    return routes_read(&l->routes, l->job.workers.n, o);
}

static mst_status open_binding(struct launch *l, const struct run_options *o) {
    enum bind_how how = BIND_NONE;
    mst_status st = MST_OK;
    if (o->bind && o->numa_binding)
        return msi_fail(MST_ERR_INVALID, NULL, "--bind and --numa-binding set the same option; remove one");
    if (o->bind) st = bind_read("bind", o->bind, &how);
    if (o->numa_binding) st = bind_read("numa-binding", o->numa_binding, &how);
    return st == MST_OK ? bind_open(&l->bind, how, l->job.workers.n) : st;
}

/* A host without ranks need not have the program. */
static mst_status find_ranks(struct launch *l, const struct run_options *o, const char *name) {
    bool hosts = l->hosts.hosts.n > 0, none = hosts && l->hosts.here < 0;
    mst_status st = none ? MST_OK : nproc_read(hosts ? l->hosts.nproc_here : o->nproc, &l->job.workers.n);
    if (st == MST_OK) st = program_find(name, &l->program);
    l->job.workers.program = l->program;
    return none ? MST_OK : st;
}

static mst_status read_nodes(struct launch *l, const struct run_options *o) {
    if (!o->hosts && !o->hostfile) return rendezvous_read(o, &l->rendezvous);
    mst_status st = run_hosts_open(&l->hosts, o);
    return st == MST_OK ? run_hosts_rendezvous(&l->hosts, o, &l->rendezvous) : st;
}

/* Describes the job to the ranks and to the other launchers. */
static mst_status describe(struct launch *l, const struct run_options *o) {
    uint64_t random;
    msi_random(&random, sizeof random);
    snprintf(l->random_id, sizeof l->random_id, "%016llx", (unsigned long long)random);
    bool hosts = l->hosts.hosts.n > 0;
    l->facts = (struct worker_env_facts){
        .local_world_size = l->job.workers.n,
        .master_addr = l->rendezvous.address.host,
        .master_port = l->rendezvous.address.port,
        .run_id = o->rdzv_id ? o->rdzv_id : l->random_id,
        .max_restarts = (int)o->max_restarts,
        .extra = o->env.list,
        .n_extra = o->env.n,
        .bare = o->no_env,
    };
    l->agent = (struct node_agent_options){
        .rendezvous = &l->rendezvous,
        .store = l->store,
        .run_id = l->store ? l->facts.run_id : o->rdzv_id,
        .n = l->job.workers.n,
        .max_restarts = (int)o->max_restarts,
        .survive = l->job.survive,
        .shutdown_seconds = o->shutdown_timeout,
        .hosts = l->hosts.hosts.list,
        .quiet = o->agent >= 0 || hosts,
    };
    l->job.store = l->store;
    if (l->rendezvous.multi_node) l->job.agent = &l->agent;
    if (run_hosts_others(&l->hosts) > 0) l->job.remote = &l->hosts.remote;
    return hosts ? run_hosts_prepare(&l->hosts, o, &l->facts, &l->job.workers, l->secret) : MST_OK;
}

/* --replace implies --survive, whose default is 1 rank. */
static struct survive_options read_survive(const struct run_options *o) {
    bool survives = o->survive >= 0 || o->replace >= 0;
    return (struct survive_options){.min = !survives        ? 0
                                           : o->survive > 1 ? (int)o->survive
                                                            : 1,
                                    .replace = (int)o->replace};
}

/* Launchers that were started by hand on several nodes do not make a secret: each would make another one. */
static mst_status open_secret(struct launch *l, const struct run_options *o) {
    if (o->open_store) setenv("MUSTER_STORE_OPEN", "1", 1);
    if (o->tls) setenv("MUSTER_TLS", "1", 1);
    bool by_hand = l->rendezvous.multi_node && l->hosts.hosts.n == 0;
    return by_hand && !o->agent_secret ? MST_OK : run_secret_open(o->agent_secret, l->secret);
}

/* Starts the reaper before the store, because it must not inherit the store's threads and sockets. */
static mst_status prepare(struct launch *l, const struct run_options *o, char **operands) {
    l->job = (struct job_options){
        .workers = {.argv = operands, .bind = &l->bind, .reaper = &l->reaper, .files = &l->files},
        .output = {.colours = (int)o->agent, .routes = &l->routes, .raw = o->no_prefix},
        .facts = &l->facts,
        .states = &l->states,
        .max_restarts = (int)o->max_restarts,
        .survive = read_survive(o),
        .shutdown_seconds = o->shutdown_timeout,
        .verbose = o->verbose,
        .trace = run_prof_directory(o),
    };
    mst_status st = read_nodes(l, o);
    if (st == MST_OK) st = signals_read(o->signals, &l->job.signals);
    if (st == MST_OK) st = worker_env_check(o->env.list, o->env.n);
    if (st == MST_OK) st = find_ranks(l, o, operands[0]);
    if (st == MST_OK && !l->rendezvous.multi_node && l->job.survive.min > l->job.workers.n)
        st = msi_fail(MST_ERR_INVALID, NULL, "--survive=%d needs more ranks than the %d of this job",
                      l->job.survive.min, l->job.workers.n);
    spawn_prepare();
    if (st == MST_OK) st = open_routes(l, o);
    if (st == MST_OK) st = open_binding(l, o);
    if (st == MST_OK) st = raise_file_limit(l);
    if (st == MST_OK) st = open_reaper(l);
    if (st == MST_OK) st = open_secret(l, o);
    if (st == MST_OK) st = rendezvous_open(&l->rendezvous, &l->store);
    if (st == MST_OK) st = describe(l, o);
    return st == MST_OK ? open_logs(l, o) : st;
}

static int run(struct launch *l, const struct run_options *o) {
    rank_states_open(&l->states, l->job.workers.n);
    l->facts.states = l->states.segment.fd;
    if (o->verbose) print_facts(l);
    struct msi_segment card = jobs_announce(&l->rendezvous.address, l->agent.run_id, l->job.workers.argv);
    int status = job_run(&l->job);
    msi_segment_close(&card);
    rank_states_close(&l->states);
    return status;
}

static void release(struct launch *l) {
    logs_close(&l->logs);
    if (l->store && l->rendezvous.multi_node) l->store->linger_ms = LINGER_MS;
    mst_store_free(l->store);
    reaper_close(&l->reaper);
    bind_close(&l->bind);
    routes_free(&l->routes);
    free(l->program);
    run_hosts_close(&l->hosts);
    msi_wipe(l->secret, sizeof l->secret);
}

static int check_and_run(struct run_options *o, char **operands, int n_operands) {
    struct launch launch = {0};
    enum bind_how how;
    /* The program may have become the value of the option. */
    if (n_operands == 0 && o->bind && bind_read("bind", o->bind, &how) != MST_OK)
        return opt_failed(&run_command);
    if (n_operands == 0)
        return opt_mistake(&run_command,
                           "a program is missing; usage: muster run [options] program [argument ...]");
    if (run_prof_set(o) != MST_OK) return opt_failed(&run_command);
    mst_status st = prepare(&launch, o, operands);
    int status = st == MST_OK ? run(&launch, o) : opt_failed(&run_command);
    release(&launch);
    return status;
}

int cmd_run(int argc, char **argv) {
    struct run_options o = RUN_OPTIONS_DEFAULT;
    char **operands;
    int n_operands;
    int status = opt_parse(&run_command, argc, argv, &o, &operands, &n_operands);
    if (status == OPT_PROCEED) status = check_and_run(&o, operands, n_operands);
    free(o.env.list);
    return status;
}
