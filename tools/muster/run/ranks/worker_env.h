/*
 * worker_env.h - the environment of the ranks: the launcher's own with torchrun's variables set.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_WORKER_ENV_H
#define MUSTER_TOOL_RUN_RANKS_WORKER_ENV_H

#include <stdbool.h>
#include <stddef.h>

enum { WORKER_ENV_PER_RANK = 3, WORKER_ENV_TEXT = 64 };

/* What is the same for all ranks of this node and generation. */
struct worker_env_facts {
    int world_size;
    int local_world_size;
    int group_rank; /* the node's number */
    int group_world_size;
    const char *master_addr;
    int master_port;
    int generation; /* the first is 0 */
    int max_restarts;
    const char *run_id;
    int states;          /* descriptor of the states, -1: none */
    const char *log_dir; /* of the run, for the files in which ranks explain errors; NULL: they have none */
    const char *const *extra; /* NAME=VALUE, or NAME for the launcher's value; the last of a name counts */
    size_t n_extra;
    bool bare; /* of the launcher's environment, take almost nothing */
};

struct worker_env {
    char **vars;  /* NULL-terminated; those that are rewritten come first */
    char **owned; /* allocated strings among them, NULL-terminated */
    const char *log_dir;
    int states;
    char state[WORKER_ENV_TEXT];
    char *error_file; /* the variable, NULL where there is no log_dir */
    int generation;
    char per_rank[WORKER_ENV_PER_RANK][WORKER_ENV_TEXT];
};

/* Can extra be set? 0, or -1 with why set. */
int worker_env_check(const char *const *extra, size_t n_extra, char *why, size_t why_size);

/* 0, or a negative errno. facts passed worker_env_check. The inherited strings are borrowed from the process's environment. */
int worker_env_open(struct worker_env *env, const struct worker_env_facts *facts);
void worker_env_close(struct worker_env *env);

/* The environment of one rank, valid until the next call. */
char **worker_env_of(struct worker_env *env, int rank, int local_rank);

#endif
