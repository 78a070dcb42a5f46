/*
 * run.c - "muster run": reads the command line, checks that it can be carried out, hosts the store and hands
 * over to the job. Runs on the main thread; the store's server brings a thread of its own.
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

#include "os/host.h"
#include "store/store.h"

#include <muster/muster.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    RUN_ID_BYTES = 8,
    FILES_OF_OUR_OWN = 64,
    FILES_PER_RANK = 5, /* two pipes, a pidfd, and what the store may need for it */
    FILES_PER_RANK_MIN = 3,
    LOGS_PER_RANK = 2,
    FILES_PER_AGENT = 4, /* two pipes, and what the store needs for a launcher elsewhere */
    FAREWELL_MS =
        3000, /* how long the store stays for launchers that have yet to hear that the job is over */
};

static int least_files(const struct job_options *job, int agents) {
    int per_rank = FILES_PER_RANK_MIN + (job->routes->any_logged ? LOGS_PER_RANK : 0);
    return job->n * per_rank + agents * FILES_PER_AGENT + FILES_OF_OUR_OWN;
}

/* Lets the launcher hold what the ranks need; *before is what the ranks are to have. */
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

/* Prints the last error as one line and returns exit status 2. */
static int mistake(void) {
    const mst_error_info *e = mst_last_error();
    return opt_mistake(&run_command, "%s%s%s", e->message, e->remedy[0] ? "; " : "", e->remedy);
}

static int make_run_id(char id[2 * RUN_ID_BYTES + 1]) {
    unsigned char bytes[RUN_ID_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return -errno;
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void tell(const struct worker_env_facts *facts, const struct job_options *job) {
    struct msi_address address = {.port = facts->master_port};
    char cpus[1024], store[MSI_ADDRESS_TEXT_MAX];

    snprintf(address.host, sizeof address.host, "%s", facts->master_addr);
    msi_address_format(&address, store);
    if (job->agent == NULL)
        fprintf(stderr, "muster run: %d ranks, run %s, store at %s\n", job->n, facts->run_id, store);
    else
        fprintf(stderr, "muster run: %d ranks here, store at %s, %s\n", job->n, store,
                job->agent->store != NULL ? "hosted by this node" : "which this node joins");
    if (facts->log_dir != NULL) fprintf(stderr, "muster run: logs in %s\n", facts->log_dir);
    for (int i = 0; i < job->n && bind_of(job->bind, i) != NULL; i++)
        fprintf(stderr, "muster run: local rank %d is bound to processors %s\n", i,
                bind_describe(job->bind, i, cpus, sizeof cpus));
}

static int run_with_facts(const struct run_options *o, struct worker_env_facts *facts,
                          struct job_options job) {
    struct states states;

    rank_states_open(&states, job.n);
    job.states = &states;
    facts->states = states.fd;
    job.facts = facts;
    if (o->verbose) tell(facts, &job);
    int status = job_run(&job);
    rank_states_close(&states);
    return status;
}

/* Nodes that share a file system must not share a directory. */
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
    char why[1024], name[RUN_ID_MAX + MSI_HOST_MAX + 16];

    if (!job.routes->any_logged) return run_with_facts(o, facts, job);
    name_logs(name, sizeof name, facts->run_id, job.agent != NULL);
    if (logs_open(&logs, o->log_dir, name, job.routes, why, sizeof why) != 0)
        return opt_mistake(&run_command, "%s", why);
    if (o->log_dir == NULL) fprintf(stderr, "muster run: the ranks' logs are in %s\n", logs.dir);
    job.logs = &logs;
    facts->log_dir = logs.dir;
    int status = run_with_facts(o, facts, job);
    logs_close(&logs);
    return status;
}

/* The launchers on other hosts, which are started together with the ranks of this one. */
static int run_with_agents(const struct run_options *o, struct run_hosts *hosts,
                           struct worker_env_facts *facts, struct job_options job) {
    struct agent_job there = {
        .address = facts->master_addr,
        .port = facts->master_port,
        .run_id = facts->run_id,
        .program = job.program,
        .operands = job.argv,
    };
    if (run_hosts_prepare(hosts, o, &there) != MST_OK) return mistake();
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
    char random_id[2 * RUN_ID_BYTES + 1], endpoint[MSI_ADDRESS_TEXT_MAX];
    int rc = make_run_id(random_id);

    if (rc != 0) return opt_mistake(&run_command, "cannot name the run: %s", strerror(-rc));
    const char *run_id = o->rdzv_id != NULL ? o->rdzv_id : random_id;
    struct node_agent_options agent = {
        .store = store,
        .endpoint = msi_address_format(&rendezvous->address, endpoint),
        .run_id = store != NULL ? run_id : o->rdzv_id,
        .min_nodes = rendezvous->min,
        .max_nodes = rendezvous->max,
        .node_rank = rendezvous->node_rank,
        .n = job.n,
        .max_restarts = job.max_restarts,
        .join_seconds = rendezvous->join_seconds,
        .last_call_seconds = rendezvous->last_call_seconds,
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
    if (hosts == NULL) return run_with_logs(o, &facts, job);
    agent.names = hosts->names;
    agent.quiet = true;
    return run_with_agents(o, hosts, &facts, job);
}

/* The warden comes first: it must share neither the store's threads nor its sockets. */
static int run_job(const struct run_options *o, struct rendezvous *rendezvous, struct run_hosts *hosts,
                   struct job_options job) {
    struct warden warden;
    struct rlimit files;
    mst_store *store;
    int agents = run_hosts_others(hosts);
    int rc = raise_file_limit(&job, agents, &files);

    job.warden = &warden;
    job.files = &files;
    if (rc == -EMFILE)
        return opt_mistake(&run_command, "%d ranks need %d open files, and the limit is %llu (ulimit -Hn)",
                           job.n, least_files(&job, agents), (unsigned long long)files.rlim_max);
    if (rc == 0) rc = warden_open(&warden, job.n + agents);
    if (rc != 0) return opt_mistake(&run_command, "cannot set up the launcher: %s", strerror(-rc));
    int status = EXIT_USAGE;
    if (rendezvous_open(rendezvous, &store) == MST_OK) {
        status = run_with_rendezvous(o, rendezvous, hosts, store, job);
        if (store != NULL && rendezvous->multi_node) store->linger_ms = FAREWELL_MS;
        mst_store_free(store);
    } else {
        mistake();
    }
    warden_close(&warden);
    return status;
}

/* Where the output goes; what cannot be together is a mistake. */
static int plan_output(const struct run_options *o, struct routes *routes) {
    struct routes_words words = {o->redirects, o->tee, o->filter, o->log_dir != NULL};
    char why[512];

    if (o->no_prefix && (o->log_dir || o->redirects || o->tee || o->filter))
        return opt_mistake(&run_command,
                           "--no-prefix leaves the output alone, so it can be neither logged nor "
                           "filtered: drop it, or --log-dir, --redirects, --tee and "
                           "--local-ranks-filter");
    if (o->log_dir != NULL && o->log_dir[0] == '\0') return opt_mistake(&run_command, "--log-dir is empty");
    if (routes_read(routes, o->n, &words, why, sizeof why) != 0) return opt_mistake(&run_command, "%s", why);
    return OPT_PROCEED;
}

static int plan_binding(const struct run_options *o, struct bind *bind) {
    enum bind_how how = BIND_NONE;
    char why[256];

    if (o->bind != NULL && o->numa_binding != NULL)
        return opt_mistake(&run_command, "--bind and --numa-binding are one thing; drop either");
    if (o->bind != NULL && bind_read("bind", o->bind, &how, why, sizeof why) != 0)
        return opt_mistake(&run_command, "%s", why);
    if (o->numa_binding != NULL && bind_read("numa-binding", o->numa_binding, &how, why, sizeof why) != 0)
        return opt_mistake(&run_command, "%s", why);
    int rc = bind_open(bind, how, o->n);
    if (rc == 0) return OPT_PROCEED;
    return opt_mistake(&run_command, "cannot find out which processors there are: %s", strerror(-rc));
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
    int status = plan_output(o, &routes);

    if (status != OPT_PROCEED) return status;
    status = plan_binding(o, &bind);
    if (status == OPT_PROCEED) {
        status = run_job(o, rendezvous, hosts, job);
        bind_close(&bind);
    }
    routes_free(&routes);
    return status;
}

/* Where this host has no ranks, the program need not be here. */
static int find_ranks(struct run_options *o, const struct run_hosts *hosts, const char *name, char **program,
                      char *why, size_t why_size) {
    bool none = hosts != NULL && hosts->here < 0;
    const char *nproc = hosts != NULL ? hosts->nproc_here : o->nproc;

    *program = NULL;
    o->n = 0;
    if (!none && nproc_read(nproc, &o->n, why, why_size) != 0) return -1;
    return program_find(name, program, why, why_size) == 0 || none ? 0 : -1;
}

static int run_here(struct run_options *o, struct run_hosts *hosts, char **operands) {
    char why[1024];
    struct rendezvous rendezvous;
    struct signals signals;
    char *program;

    if ((hosts ? run_hosts_rendezvous(hosts, o, &rendezvous) : rendezvous_read(o, &rendezvous)) != MST_OK)
        return mistake();
    if (signals_read(o->signals, &signals, why, sizeof why) != 0 ||
        worker_env_check(o->env.list, o->env.n, why, sizeof why) != 0 ||
        find_ranks(o, hosts, operands[0], &program, why, sizeof why) != 0)
        return opt_mistake(&run_command, "%s", why);
    spawn_prepare();
    int status = run_program(o, &rendezvous, hosts, &signals, program, operands);
    free(program);
    return status;
}

static int check_and_run(struct run_options *o, char **operands, int n_operands) {
    struct run_hosts hosts;
    char why[1024];

    if (n_operands == 0)
        return opt_mistake(&run_command, "which program? usage: muster run [options] program [argument ...]");
    if (run_prof_open(o, why, sizeof why) != 0) return opt_mistake(&run_command, "%s", why);
    if (o->hosts == NULL && o->hostfile == NULL) return run_here(o, NULL, operands);
    if (run_hosts_open(&hosts, o) != MST_OK) return mistake();
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
