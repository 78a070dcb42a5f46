/*
 * worker_env.c - builds the ranks' environment once; per rank and generation, a few strings are rewritten
 * in place.
 * The main thread makes and owns it; a child sees its own copy of the moment it was forked in.
 */
#include "worker_env.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Never inherited: each is set below, or would mislead a rank if an outer launcher's value reached it. */
static const char *const replaced[] = {
    "RANK",
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
};
enum {
    N_REPLACED = sizeof replaced / sizeof replaced[0],
    OWNED_MAX = N_REPLACED + 1,
    ERROR_FILE_MAX = PATH_MAX + 128
};

static bool is_replaced(const char *entry) {
    size_t len = strcspn(entry, "=");

    for (size_t i = 0; i < N_REPLACED; i++)
        if (strlen(replaced[i]) == len && memcmp(replaced[i], entry, len) == 0) return true;
    return false;
}

__attribute__((format(printf, 2, 3))) static int add(char **owned, const char *format, ...) {
    va_list args;
    size_t at = 0;

    while (owned[at] != NULL) at++;
    va_start(args, format);
    int n = vasprintf(&owned[at], format, args);
    va_end(args);
    if (n >= 0) return 0;
    owned[at] = NULL;
    return -ENOMEM;
}

static int add_facts(char **owned, const struct worker_env_facts *f) {
    int rc = 0;

    rc |= add(owned, "WORLD_SIZE=%d", f->world_size);
    rc |= add(owned, "LOCAL_WORLD_SIZE=%d", f->local_world_size);
    rc |= add(owned, "GROUP_RANK=%d", f->group_rank);
    rc |= add(owned, "GROUP_WORLD_SIZE=%d", f->group_world_size);
    rc |= add(owned, "ROLE_WORLD_SIZE=%d", f->world_size);
    rc |= add(owned, "ROLE_NAME=default");
    rc |= add(owned, "MASTER_ADDR=%s", f->master_addr);
    rc |= add(owned, "MASTER_PORT=%d", f->master_port);
    rc |= add(owned, "TORCHELASTIC_MAX_RESTARTS=%d", f->max_restarts);
    rc |= add(owned, "TORCHELASTIC_RUN_ID=%s", f->run_id);
    rc |= add(owned, "TORCHELASTIC_USE_AGENT_STORE=True");
    /* Else every rank would start a thread per core. */
    if (f->local_world_size > 1 && getenv("OMP_NUM_THREADS") == NULL) rc |= add(owned, "OMP_NUM_THREADS=1");
    return rc == 0 ? 0 : -ENOMEM;
}

int worker_env_open(struct worker_env *env, const struct worker_env_facts *facts) {
    size_t n = 0, at = 0;

    *env = (struct worker_env){0};
    while (environ[n] != NULL) n++;
    env->owned = calloc(OWNED_MAX + 1, sizeof env->owned[0]);
    env->vars = calloc(WORKER_ENV_PER_RANK + 1 + OWNED_MAX + n + 1, sizeof env->vars[0]);
    env->log_dir = facts->log_dir;
    if (facts->log_dir != NULL) env->error_file = malloc(ERROR_FILE_MAX);
    bool whole =
        env->owned != NULL && env->vars != NULL && (env->error_file != NULL) == (facts->log_dir != NULL);
    if (!whole || add_facts(env->owned, facts) != 0) {
        worker_env_close(env);
        return -ENOMEM;
    }
    for (int i = 0; i < WORKER_ENV_PER_RANK; i++) env->vars[at++] = env->per_rank[i];
    if (env->error_file != NULL) env->vars[at++] = env->error_file;
    for (size_t i = 0; env->owned[i] != NULL; i++) env->vars[at++] = env->owned[i];
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(environ[i])) env->vars[at++] = environ[i];
    worker_env_restart(env, 0);
    return 0;
}

void worker_env_close(struct worker_env *env) {
    for (size_t i = 0; env->owned != NULL && env->owned[i] != NULL; i++) free(env->owned[i]);
    free(env->error_file);
    free(env->owned);
    free(env->vars);
    *env = (struct worker_env){0};
}

void worker_env_restart(struct worker_env *env, int n) {
    env->generation = n;
    snprintf(env->per_rank[3], WORKER_ENV_TEXT, "TORCHELASTIC_RESTART_COUNT=%d", n);
}

char **worker_env_of(struct worker_env *env, int rank, int local_rank) {
    snprintf(env->per_rank[0], WORKER_ENV_TEXT, "RANK=%d", rank);
    snprintf(env->per_rank[1], WORKER_ENV_TEXT, "LOCAL_RANK=%d", local_rank);
    snprintf(env->per_rank[2], WORKER_ENV_TEXT, "ROLE_RANK=%d", rank);
    if (env->error_file != NULL)
        snprintf(env->error_file, ERROR_FILE_MAX, "TORCHELASTIC_ERROR_FILE=%s/attempt_%d/%d/error.json",
                 env->log_dir, env->generation, local_rank);
    return env->vars;
}
