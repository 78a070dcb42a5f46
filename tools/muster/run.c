/*
 * run.c - "muster run": reads the command line, checks that it can be carried out, hosts the store and hands
 * over to the job. Runs on the main thread; the store's server brings a thread of its own.
 */
#include "commands.h"
#include "job.h"
#include "nproc.h"
#include "program.h"
#include "run_options.h"
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
    LOGS_PER_RANK = 2,
};

static const char master_addr[] = "127.0.0.1";

static int least_files(const struct job_options *job) {
    int per_rank = FILES_PER_RANK_MIN + (job->routes->any_logged ? LOGS_PER_RANK : 0);
    return job->n * per_rank + FILES_OF_OUR_OWN;
}

/* Lets the launcher hold what the ranks need; *before is what the ranks are to have. */
static int raise_file_limit(const struct job_options *job, struct rlimit *before) {
    rlim_t least = (rlim_t)least_files(job);
    rlim_t wish = least + (rlim_t)(job->n * (FILES_PER_RANK - FILES_PER_RANK_MIN));

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
    return opt_mistake(&run_command, "cannot host the store: %s%s%s", e->message, e->remedy[0] ? "; " : "",
                       e->remedy);
}

static void tell(const struct worker_env_facts *facts, const struct job_options *job) {
    char cpus[1024];

    fprintf(stderr, "muster run: %d ranks, run %s, store at %s:%d\n", job->n, facts->run_id,
            facts->master_addr, facts->master_port);
    if (facts->log_dir != NULL) fprintf(stderr, "muster run: logs in %s\n", facts->log_dir);
    for (int i = 0; i < job->n && bind_of(job->bind, i) != NULL; i++)
        fprintf(stderr, "muster run: rank %d is bound to processors %s\n", job->first_rank + i,
                bind_describe(job->bind, i, cpus, sizeof cpus));
}

static int run_with_env(const struct run_options *o, struct worker_env_facts *facts, struct job_options job) {
    struct worker_env env;
    struct slates slates;

    slates_open(&slates, job.n, facts->world_size);
    job.slates = &slates;
    facts->slates = slates.fd;
    int rc = worker_env_open(&env, facts);
    if (rc != 0) slates_close(&slates);
    if (rc != 0) return opt_mistake(&run_command, "cannot set up the environment: %s", strerror(-rc));
    job.env = &env;
    if (o->verbose) tell(facts, &job);
    int status = job_run(&job);
    worker_env_close(&env);
    slates_close(&slates);
    return status;
}

static int run_with_logs(const struct run_options *o, struct worker_env_facts *facts,
                         struct job_options job) {
    struct logs logs;
    char why[1024];

    if (!job.routes->any_logged) return run_with_env(o, facts, job);
    if (logs_open(&logs, o->log_dir, facts->run_id, job.routes, why, sizeof why) != 0)
        return opt_mistake(&run_command, "%s", why);
    if (o->log_dir == NULL) fprintf(stderr, "muster run: the ranks' logs are in %s\n", logs.dir);
    job.logs = &logs;
    facts->log_dir = logs.dir;
    int status = run_with_env(o, facts, job);
    logs_close(&logs);
    return status;
}

static int run_with_store(const struct run_options *o, const mst_store *store, struct job_options job) {
    char run_id[2 * RUN_ID_BYTES + 1];
    struct worker_env_facts facts = {
        .world_size = job.n,
        .local_world_size = job.n,
        .group_rank = 0,
        .group_world_size = 1,
        .master_addr = master_addr,
        .master_port = mst_store_port(store),
        .run_id = run_id,
        .max_restarts = job.max_restarts,
        .extra = o->env.list,
        .n_extra = o->env.n,
        .bare = o->no_env,
    };
    int rc = make_run_id(run_id);

    if (rc != 0) return opt_mistake(&run_command, "cannot name the run: %s", strerror(-rc));
    return run_with_logs(o, &facts, job);
}

/* The warden comes first: it must share neither the store's threads nor its sockets. */
static int run_job(const struct run_options *o, struct job_options job) {
    struct warden warden;
    struct rlimit files;
    mst_store *store;
    int rc = raise_file_limit(&job, &files);

    job.warden = &warden;
    job.files = &files;
    if (rc == -EMFILE)
        return opt_mistake(&run_command, "%d ranks need %d open files, and the limit is %llu (ulimit -Hn)",
                           job.n, least_files(&job), (unsigned long long)files.rlim_max);
    if (rc == 0) rc = warden_open(&warden, job.n);
    if (rc != 0) return opt_mistake(&run_command, "cannot set up the launcher: %s", strerror(-rc));
    int status = host_store(o, &store);
    if (status == OPT_PROCEED) {
        status = run_with_store(o, store, job);
        mst_store_free(store);
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

static int run_program(const struct run_options *o, const char *program, char **argv) {
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
    };
    int status = plan_output(o, &routes);

    if (status != OPT_PROCEED) return status;
    status = plan_binding(o, &bind);
    if (status == OPT_PROCEED) {
        status = run_job(o, job);
        bind_close(&bind);
    }
    routes_free(&routes);
    return status;
}

static int check_and_run(struct run_options *o, char **operands, int n_operands) {
    char why[1024];
    char *program;

    if (n_operands == 0)
        return opt_mistake(&run_command, "which program? usage: muster run [options] program [argument ...]");
    if (nproc_read(o->nproc, &o->n, why, sizeof why) != 0 ||
        worker_env_check(o->env.list, o->env.n, why, sizeof why) != 0 ||
        program_find(operands[0], &program, why, sizeof why) != 0)
        return opt_mistake(&run_command, "%s", why);
    spawn_prepare();
    int status = run_program(o, program, operands);
    free(program);
    return status;
}

int cmd_run(int argc, char **argv) {
    struct run_options o = {.nproc = "1", .shutdown_timeout = 5};
    char **operands;
    int n_operands;
    int status = opt_parse(&run_command, argc, argv, &o, &operands, &n_operands);

    if (status == OPT_PROCEED) status = check_and_run(&o, operands, n_operands);
    free(o.env.list);
    return status;
}
