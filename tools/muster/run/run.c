/*
 * run.c - "muster run": parses and checks the command line, hosts the store and runs the job. Runs on the
 * main thread; the store's server has its own thread.
 */
#include "commands.h"
#include "run/job/job.h"
#include "run/nodes/rendezvous.h"
#include "run/nodes/run_hosts.h"
#include "run/profiling.h"
#include "run/ranks/nproc.h"
#include "run/ranks/program.h"
#include "run/ranks/spawn.h"
#include "run/run_options.h"

#include "base/hash.h"
#include "os/host.h"
#include "store/store.h"

#include <muster/muster.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILES_OF_LAUNCHER = 64,
    FILES_PER_RANK = 5, /* two pipes, a pidfd and store connections */
    FILES_PER_RANK_MIN = 3,
    LOGS_PER_RANK = 2,
    FILES_PER_AGENT = 4, /* two pipes and store connections */
    LINGER_MS = 3000,    /* how long the store serves other launchers after the job has ended */
};

static int least_files(const struct job_options *job, int agents) {
    int per_rank = FILES_PER_RANK_MIN + (job->routes->any_logged ? LOGS_PER_RANK : 0);
    return job->n * per_rank + agents * FILES_PER_AGENT + FILES_OF_LAUNCHER;
}

/* Raises the launcher's limit on open files; *before is the limit that the ranks get. */
static int raise_file_limit(const struct job_options *job, int agents, struct rlimit *before) {
    rlim_t least = (rlim_t)least_files(job, agents);
    rlim_t wish = least + (rlim_t)(job->n * (FILES_PER_RANK - FILES_PER_RANK_MIN));
    if (getrlimit(RLIMIT_NOFILE, before) != 0) return -errno;
    struct rlimit raised = *before;
    if (raised.rlim_cur >= wish) return 0;
    raised.rlim_cur = wish < raised.rlim_max ? wish : raised.rlim_max;
    if (raised.rlim_cur < least) return -EMFILE;
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? 0 : -errno;
}

static void print_facts(const struct worker_env_facts *facts, const struct job_options *job) {
    struct msi_address address = {.port = facts->master_port};
    char cpus[1024], store[MSI_ADDRESS_TEXT_MAX];
    snprintf(address.host, sizeof address.host, "%s", facts->master_addr);
    msi_address_format(&address, store);
    if (!job->agent)
        fprintf(stderr, "muster run: %d ranks, run %s, store at %s\n", job->n, facts->run_id, store);
    else
        fprintf(stderr, "muster run: %d ranks here, store at %s, %s\n", job->n, store,
                job->agent->store ? "hosted by this node" : "hosted by another node");
    if (facts->log_dir) fprintf(stderr, "muster run: logs in %s\n", facts->log_dir);
    for (int i = 0; i < job->n && bind_of(job->bind, i); i++)
        fprintf(stderr, "muster run: local rank %d is bound to processors %s\n", i,
                bind_describe(job->bind, i, cpus, sizeof cpus));
}

static int run_with_facts(const struct run_options *o, struct worker_env_facts *facts,
                          struct job_options job) {
    struct rank_states states;
    rank_states_open(&states, job.n);
    job.states = &states;
    facts->states = states.fd;
    job.facts = facts;
    if (o->verbose) print_facts(facts, &job);
    int status = job_run(&job);
    rank_states_close(&states);
    return status;
}

/* Nodes that share a file system need separate directories. */
static void name_logs(char *name, size_t size, const char *run_id, bool several) {
    char host[MSI_HOST_MAX];
    if (several)
        snprintf(name, size, "%s_%s_%d", run_id, msi_host_name(host), (int)getpid());
    else
        snprintf(name, size, "%s", run_id);
}

static int run_with_logs(const struct run_options *o, struct worker_env_facts *facts,
                         struct job_options job) {
    struct logs logs;
    char name[RUN_ID_MAX + MSI_HOST_MAX + 16];
    if (!job.routes->any_logged) return run_with_facts(o, facts, job);
    name_logs(name, sizeof name, facts->run_id, job.agent != NULL);
    if (logs_open(&logs, o->log_dir, name, job.routes) != MST_OK) return opt_failed(&run_command);
    if (!o->log_dir) fprintf(stderr, "muster run: the ranks' logs are in %s\n", logs.dir);
    job.logs = &logs;
    facts->log_dir = logs.dir;
    int status = run_with_facts(o, facts, job);
    logs_close(&logs);
    return status;
}

/* Starts launchers on other hosts together with the ranks of this one. */
static int run_with_agents(const struct run_options *o, struct run_hosts *hosts,
                           struct worker_env_facts *facts, struct job_options job) {
    struct agent_job there = {
        .address = facts->master_addr,
        .port = facts->master_port,
        .run_id = facts->run_id,
        .program = job.program,
        .operands = job.argv,
    };
    if (run_hosts_prepare(hosts, o, &there) != MST_OK) return opt_failed(&run_command);
    struct remote_options remote = {
        .agents = hosts->agents,
        .n = hosts->n_agents,
        .ssh = o->ssh,
        .program = hosts->ssh,
    };
    if (remote.n > 0) job.remote = &remote;
    return run_with_logs(o, facts, job);
}

static int run_with_rendezvous(const struct run_options *o, const struct rendezvous *rendezvous,
                               struct run_hosts *hosts, mst_store *store, struct job_options job) {
    char random_id[17];
    uint64_t random;
    msi_random(&random, sizeof random);
    snprintf(random_id, sizeof random_id, "%016llx", (unsigned long long)random);
    const char *run_id = o->rdzv_id ? o->rdzv_id : random_id;
    struct node_agent_options agent = {
        .rendezvous = rendezvous,
        .store = store,
        .run_id = store ? run_id : o->rdzv_id,
        .n = job.n,
        .max_restarts = job.max_restarts,
        .shutdown_seconds = job.shutdown_seconds,
        .quiet = o->agent >= 0,
    };
    struct worker_env_facts facts = {
        .local_world_size = job.n,
        .master_addr = rendezvous->address.host,
        .master_port = rendezvous->address.port,
        .run_id = run_id,
        .max_restarts = job.max_restarts,
        .extra = o->env.list,
        .n_extra = o->env.n,
        .bare = o->no_env,
    };
    job.store = store;
    if (rendezvous->multi_node) job.agent = &agent;
    if (!hosts) return run_with_logs(o, &facts, job);
    agent.names = hosts->names;
    agent.quiet = true;
    return run_with_agents(o, hosts, &facts, job);
}

/* Starts the reaper first, because it must not inherit the store's threads and sockets. */
static int run_job(const struct run_options *o, struct rendezvous *rendezvous, struct run_hosts *hosts,
                   struct job_options job) {
    struct reaper reaper;
    struct rlimit files;
    mst_store *store;
    int agents = run_hosts_others(hosts);
    int rc = raise_file_limit(&job, agents, &files);
    job.reaper = &reaper;
    job.files = &files;
    if (rc == -EMFILE)
        return opt_mistake(&run_command, "%d ranks need %d open files, but the limit is %llu (ulimit -Hn)",
                           job.n, least_files(&job, agents), (unsigned long long)files.rlim_max);
    if (rc == 0) rc = reaper_open(&reaper, job.n + agents);
    if (rc != 0) return opt_mistake(&run_command, "cannot set up the launcher: %s", strerror(-rc));
    int status = EXIT_USAGE;
    if (rendezvous_open(rendezvous, &store) == MST_OK) {
        status = run_with_rendezvous(o, rendezvous, hosts, store, job);
        if (store && rendezvous->multi_node) store->linger_ms = LINGER_MS;
        mst_store_free(store);
    } else {
        opt_failed(&run_command);
    }
    reaper_close(&reaper);
    return status;
}

/* Determines where the output goes. */
static int open_routes(const struct run_options *o, struct routes *routes) {
    struct routes_options wanted = {o->redirects, o->tee, o->filter, o->log_dir != NULL};
    if (o->no_prefix && (o->log_dir || o->redirects || o->tee || o->filter))
        return opt_mistake(&run_command,
                           "with --no-prefix the output can be neither logged nor filtered; drop it, or "
                           "--log-dir, --redirects, --tee and --local-ranks-filter");
    if (o->log_dir && !o->log_dir[0]) return opt_mistake(&run_command, "--log-dir is empty");
    return routes_read(routes, o->n, &wanted) == MST_OK ? OPT_PROCEED : opt_failed(&run_command);
}

static int open_binding(const struct run_options *o, struct bind *bind) {
    enum bind_how how = BIND_NONE;
    mst_status st = MST_OK;
    if (o->bind && o->numa_binding)
        return opt_mistake(&run_command, "--bind and --numa-binding set the same thing; drop one");
    if (o->bind) st = bind_read("bind", o->bind, &how);
    if (o->numa_binding) st = bind_read("numa-binding", o->numa_binding, &how);
    if (st == MST_OK) st = bind_open(bind, how, o->n);
    return st == MST_OK ? OPT_PROCEED : opt_failed(&run_command);
}

static int run_program(const struct run_options *o, struct rendezvous *rendezvous, struct run_hosts *hosts,
                       const struct signals *signals, const char *program, char **argv) {
    struct routes routes;
    struct bind bind;
    struct job_options job = {
        .n = o->n,
        .program = program,
        .argv = argv,
        .routes = &routes,
        .bind = &bind,
        .prefix = !o->no_prefix,
        .max_restarts = (int)o->max_restarts,
        .shutdown_seconds = o->shutdown_timeout,
        .signals = *signals,
        .verbose = o->verbose,
        .colours = (int)o->agent,
        .trace = run_prof_directory(o),
    };
    int status = open_routes(o, &routes);
    if (status != OPT_PROCEED) return status;
    status = open_binding(o, &bind);
    if (status == OPT_PROCEED) {
        status = run_job(o, rendezvous, hosts, job);
        bind_close(&bind);
    }
    routes_free(&routes);
    return status;
}

/* A host without ranks need not have the program. */
static mst_status find_ranks(struct run_options *o, const struct run_hosts *hosts, const char *name,
                             char **program) {
    bool none = hosts && hosts->here < 0;
    *program = NULL;
    o->n = 0;
    mst_status st = none ? MST_OK : nproc_read(hosts ? hosts->nproc_here : o->nproc, &o->n);
    if (st == MST_OK) st = program_find(name, program);
    return none ? MST_OK : st;
}

static int run_here(struct run_options *o, struct run_hosts *hosts, char **operands) {
    struct rendezvous rendezvous;
    struct signals signals;
    char *program;
    mst_status st = hosts ? run_hosts_rendezvous(hosts, o, &rendezvous) : rendezvous_read(o, &rendezvous);
    if (st != MST_OK || signals_read(o->signals, &signals) != MST_OK ||
        worker_env_check(o->env.list, o->env.n) != MST_OK ||
        find_ranks(o, hosts, operands[0], &program) != MST_OK)
        return opt_failed(&run_command);
    spawn_prepare();
    int status = run_program(o, &rendezvous, hosts, &signals, program, operands);
    free(program);
    return status;
}

static int check_and_run(struct run_options *o, char **operands, int n_operands) {
    struct run_hosts hosts;
    if (n_operands == 0)
        return opt_mistake(&run_command,
                           "a program is missing; usage: muster run [options] program [argument ...]");
    if (run_prof_open(o) != MST_OK) return opt_failed(&run_command);
    if (!o->hosts && !o->hostfile) return run_here(o, NULL, operands);
    if (run_hosts_open(&hosts, o) != MST_OK) return opt_failed(&run_command);
    int status = run_here(o, &hosts, operands);
    run_hosts_close(&hosts);
    return status;
}

int cmd_run(int argc, char **argv) {
    struct run_options o = RUN_OPTIONS_DEFAULT;
    char **operands;
    int n_operands;
    int status = opt_parse(&run_command, argc, argv, &o, &operands, &n_operands);
    if (status == OPT_PROCEED) status = check_and_run(&o, operands, n_operands);
    run_prof_close(&o);
    free(o.env.list);
    return status;
}
