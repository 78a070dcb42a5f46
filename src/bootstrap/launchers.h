/*
 * launchers.h - the launchers that muster knows: how each is recognised, and which variable says what. Data alone;
 * launch.h reads it. docs/launch.md has the table in words.
 */
#ifndef MSI_BOOTSTRAP_LAUNCHERS_H
#define MSI_BOOTSTRAP_LAUNCHERS_H

#include "wire/hosts.h"

#include <stdbool.h>
#include <stddef.h>

enum { MSI_DEFAULT_PORT = 29500 }; /* torch's and DeepSpeed's */

/*
 * Launchers are nested: torchrun in a job of mpirun in an allocation of Slurm leaves the variables of all three. The
 * innermost is right about this process.
 */
enum msi_depth {
    MSI_DEPTH_AGENT, /* started every rank itself and says so: nothing is further in */
    MSI_DEPTH_GIVEN, /* RANK and WORLD_SIZE, from anybody: may be stale, so the others are compared with it */
    MSI_DEPTH_MPI,   /* at most one of these at a time */
    MSI_DEPTH_MANAGER, /* of a cluster's jobs */
};

/* How a number is read from a variable. */
enum msi_how {
    MSI_HOW_NUMBER, /* as it is written */
    MSI_HOW_TASKS,  /* Slurm's tasks per node, of node SLURM_NODEID */
    MSI_HOW_COUNT,  /* how many hosts a JSON list has */
    MSI_HOW_INDEX,  /* where SM_CURRENT_HOST is in a JSON list */
    MSI_HOW_ALL,    /* all ranks, if this number of hosts is 1 */
    MSI_HOW_SINGLE, /* name says why there is one process on each host */
};

struct msi_number_rule {
    const char *name;
    enum msi_how how;
};

/* Where rank 0 is, from what a variable holds. */
struct msi_where_rule {
    const char *name;
    msi_hosts_parser *parse; /* NULL: name says why it is this host, which holds if it holds all ranks */
    uint64_t n;              /* which host of the list */
    int port;                /* to go with it; 0: any */
    bool several;            /* only if the ranks are on several hosts */
    bool guess;              /* rank 0 may be elsewhere: the launcher's PMIx is asked first, if it has one */
};

enum { MSI_RULES = 3 };

struct msi_launcher {
    const char *name, *title;
    const char *needs[4], *without[2]; /* recognised by these variables, unless one of those is set */
    const char *step; /* nor if this holds the number of one of Slurm's steps that srun did not start */
    enum msi_depth depth;
    bool pmi;     /* ranks can agree where to meet through PMI_FD or PMI_PORT */
    bool generic; /* its variables are also set by managers, which know better */
    struct msi_number_rule rank[MSI_RULES], size[MSI_RULES], local_rank[MSI_RULES], local_size[MSI_RULES];
    struct msi_where_rule
        where[MSI_RULES]; /* the first whose variable is set counts; MASTER_ADDR comes before */
    const char *job[2];   /* tell this job from others on the same hosts */
    const char *advice;   /* where the ranks span hosts and nothing says where rank 0 is */
};

/* In the order in which they are looked for; the last is no launcher. */
extern const struct msi_launcher msi_launchers[];
extern const size_t msi_launcher_count;

#endif
