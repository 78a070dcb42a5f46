/*
 * worker_env.c - builds the ranks' environment once per generation, and rewrites a few strings for each rank.
 * See worker_env.h. The main thread owns it; a child reads it between vfork and exec.
 */
#include "run/ranks/worker_env.h"

#include "run/output/logs.h"

#include "base/error.h"
#include "base/rank_state.h"
#include "base/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_VARIABLE "MUSTER_JOIN"

/* Never inherited: each is set below, or belongs to an outer launcher. */
static const char *const replaced[] = {"RANK",
                                       "LOCAL_RANK",
                                       "ROLE_RANK",
                                       "WORLD_SIZE",
                                       "LOCAL_WORLD_SIZE",
                                       "GROUP_RANK",
                                       "GROUP_WORLD_SIZE",
                                       "ROLE_WORLD_SIZE",
                                       "ROLE_NAME",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "TORCHELASTIC_RESTART_COUNT",
                                       "TORCHELASTIC_MAX_RESTARTS",
                                       "TORCHELASTIC_RUN_ID",
                                       "TORCHELASTIC_USE_AGENT_STORE",
                                       "TORCHELASTIC_ERROR_FILE",
                                       JOIN_VARIABLE,
                                       MSI_RANK_STATE_VARIABLE};
enum {
    N_REPLACED = sizeof replaced / sizeof replaced[0],
    OWNED_MAX = N_REPLACED + 1,
    ERROR_FILE_MAX = PATH_MAX + 128
};

static const char error_variable[] = "TORCHELASTIC_ERROR_FILE=";

/* Inherited with --no-env: what most programs need. */
static const char *const kept_when_bare[] = {"PATH",
                                             "HOME",
                                             "USER",
                                             "LOGNAME",
                                             "SHELL",
                                             "TERM",
                                             "LANG",
                                             "TZ",
                                             "TMPDIR",
                                             "MUSTER_SECRET_FILE",
                                             "MUSTER_STORE_OPEN",
                                             "XDG_CONFIG_HOME",
                                             MSI_SECRET_VARIABLE};
enum { N_KEPT = sizeof kept_when_bare / sizeof kept_when_bare[0] };

/* Each argument is NAME or NAME=VALUE. */
static bool same_name(const char *a, const char *b) {
    size_t len = strcspn(a, "=");
    return strcspn(b, "=") == len && memcmp(a, b, len) == 0;
}

static bool is_among(const char *entry, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (same_name(entry, names[i])) return true;
    return false;
}

static char *find_own(const char *name) {
    for (size_t i = 0; environ[i]; i++)
        if (same_name(environ[i], name)) return environ[i];
    return NULL;
}

static bool is_inherited(const char *entry, const struct worker_env_facts *f) {
    if (is_among(entry, replaced, N_REPLACED) || is_among(entry, f->extra, f->n_extra)) return false;
    return !f->bare || is_among(entry, kept_when_bare, N_KEPT) || strncmp(entry, "LC_", 3) == 0;
}

mst_status worker_env_check(const char *const *extra, size_t n_extra) {
    for (size_t i = 0; i < n_extra; i++) {
        int len = (int)strcspn(extra[i], "=");
        if (len == 0)
            return msi_fail(MST_ERR_INVALID, NULL, "--env takes NAME=VALUE or NAME, not '%s'", extra[i]);
        if (is_among(extra[i], replaced, N_REPLACED))
            return msi_fail(MST_ERR_INVALID, NULL, "--env cannot set %.*s: the launcher sets it", len,
                            extra[i]);
        if (!extra[i][len] && !find_own(extra[i]))
            return msi_fail(MST_ERR_INVALID, NULL, "--env %s has no value, and the launcher has none for it",
                            extra[i]);
    }
    return MST_OK;
}

/* Appends the variables that all ranks share, each with its NUL. */
static void add_facts(struct msi_buf *to, const struct worker_env_facts *f, const struct node_assignment *a) {
    const char *threads = find_own("OMP_NUM_THREADS");
    bool has_threads =
        is_among("OMP_NUM_THREADS", f->extra, f->n_extra) || (threads && is_inherited(threads, f));
    msi_buf_add_format(to, "WORLD_SIZE=%d%c", a->world_size, 0);
    msi_buf_add_format(to, "LOCAL_WORLD_SIZE=%d%c", f->local_world_size, 0);
    msi_buf_add_format(to, "GROUP_RANK=%d%c", a->node, 0);
    msi_buf_add_format(to, "GROUP_WORLD_SIZE=%d%c", a->nodes, 0);
    msi_buf_add_format(to, "ROLE_WORLD_SIZE=%d%c", a->world_size, 0);
    msi_buf_add_format(to, "ROLE_NAME=default%c", 0);
    msi_buf_add_format(to, "MASTER_ADDR=%s%c", f->master_addr, 0);
    msi_buf_add_format(to, "MASTER_PORT=%d%c", f->master_port, 0);
    msi_buf_add_format(to, "TORCHELASTIC_RESTART_COUNT=%d%c", a->generation, 0);
    msi_buf_add_format(to, "TORCHELASTIC_MAX_RESTARTS=%d%c", f->max_restarts, 0);
    msi_buf_add_format(to, "TORCHELASTIC_RUN_ID=%s%c", a->run_id, 0);
    msi_buf_add_format(to, "TORCHELASTIC_USE_AGENT_STORE=True%c", 0);
    /* Otherwise each rank would start a thread per core. */
    if (f->local_world_size > 1 && !has_threads) msi_buf_add_format(to, "OMP_NUM_THREADS=1%c", 0);
}

int worker_env_open(struct worker_env *env, const struct worker_env_facts *facts,
                    const struct node_assignment *assignment) {
    size_t n = 0, at = 0;
    *env = (struct worker_env){.facts = facts, .generation = assignment->generation};
    while (environ[n]) n++;
    add_facts(&env->owned, facts, assignment);
    env->vars = calloc(WORKER_ENV_PER_RANK + 2 + OWNED_MAX + n + facts->n_extra + 2, sizeof env->vars[0]);
    if (facts->log_dir) env->error_file = malloc(ERROR_FILE_MAX);
    if (env->owned.failed || !env->vars || (facts->log_dir && !env->error_file)) {
        worker_env_close(env);
        return -ENOMEM;
    }
    for (int i = 0; i < WORKER_ENV_PER_RANK; i++) env->vars[at++] = env->per_rank[i];
    if (env->error_file) env->vars[at++] = env->error_file;
    if (facts->states >= 0) env->vars[at++] = env->state;
    for (char *var = (char *)env->owned.data, *end = var + env->owned.len; var < end; var += strlen(var) + 1)
        env->vars[at++] = var;
    for (size_t i = 0; i < n; i++)
        if (is_inherited(environ[i], facts)) env->vars[at++] = environ[i];
    for (size_t i = 0; i < facts->n_extra; i++) {
        const char *entry = facts->extra[i];
        if (is_among(entry, facts->extra + i + 1, facts->n_extra - i - 1)) continue;
        /* execve does not change the strings although it takes char *. */
        env->vars[at++] = strchr(entry, '=') ? (char *)(uintptr_t)entry : find_own(entry);
    }
    env->n_common = at;
    return 0;
}

void worker_env_close(struct worker_env *env) {
    msi_buf_free(&env->owned);
    free(env->error_file);
    free(env->vars);
}

char **worker_env_of(struct worker_env *env, int rank, int local_rank, bool join) {
    static char joins[] = JOIN_VARIABLE "=1";
    env->vars[env->n_common] = join ? joins : NULL;
    snprintf(env->per_rank[0], WORKER_ENV_TEXT, "RANK=%d", rank);
    snprintf(env->per_rank[1], WORKER_ENV_TEXT, "LOCAL_RANK=%d", local_rank);
    snprintf(env->per_rank[2], WORKER_ENV_TEXT, "ROLE_RANK=%d", rank);
    snprintf(env->state, WORKER_ENV_TEXT, MSI_RANK_STATE_VARIABLE "=/proc/%d/fd/%d:%d", (int)getpid(),
             env->facts->states, local_rank);
    if (env->error_file)
        logs_path(stpcpy(env->error_file, error_variable), ERROR_FILE_MAX - sizeof error_variable,
                  env->facts->log_dir, env->generation, local_rank, "error.json");
    return env->vars;
}
