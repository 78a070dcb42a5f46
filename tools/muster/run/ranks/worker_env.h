/* worker_env.h - the environment of the ranks: the launcher's own, with torchrun's variables set. */
#ifndef MUSTER_TOOL_RUN_RANKS_WORKER_ENV_H
#define MUSTER_TOOL_RUN_RANKS_WORKER_ENV_H

#include "base/buf.h"

#include <muster/status.h>

enum { WORKER_ENV_PER_RANK = 3, WORKER_ENV_TEXT = 64 };

/* A generation, as seen from one node. */
struct node_assignment {
    int generation; /* from 0 on */
    int first_rank, world_size;
    int node, nodes;    /* node is -1 if this node has no ranks in it */
    const char *run_id; /* of the job */
};

/* What all ranks of this node have in common. */
struct worker_env_facts {
    int local_world_size;
    const char *master_addr;
    int master_port;
    int max_restarts;
    const char *run_id;       /* on a single node, and on the coordinator */
    int states;               /* descriptor of the rank states, or -1 */
    const char *log_dir;      /* of the run, for the ranks' error files; NULL: they have none */
    const char *const *extra; /* NAME=VALUE, or NAME for the launcher's value; the last of a name counts */
    size_t n_extra;
    bool bare; /* inherit PATH, HOME and the like only */
};

struct worker_env {
    char **vars;          /* NULL-terminated; the strings that change with the rank come first */
    size_t n_common;      /* where vars ends, except that MUSTER_JOIN follows for some ranks */
    struct msi_buf owned; /* the strings that all ranks share, each with its NUL */
    const struct worker_env_facts *facts;
    int generation;
    char state[WORKER_ENV_TEXT];
    char *error_file; /* TORCHELASTIC_ERROR_FILE=..., or NULL without log_dir */
    char per_rank[WORKER_ENV_PER_RANK][WORKER_ENV_TEXT];
};

/* Checks the values of --env. */
mst_status worker_env_check(const char *const *extra, size_t n_extra);

/* facts passed worker_env_check. It and the inherited strings are borrowed. 0, or a negative errno. */
int worker_env_open(struct worker_env *env, const struct worker_env_facts *facts,
                    const struct node_assignment *assignment);
void worker_env_close(struct worker_env *env);

/* The environment of one rank, valid until the next call. join: it joins a world that runs already. */
char **worker_env_of(struct worker_env *env, int rank, int local_rank, bool join);

#endif
