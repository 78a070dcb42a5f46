/*
 * launchers.h - the table of launchers: how to recognise each, and which variables hold rank, size and host.
 * Only data; launch.c reads it. docs/launch.md explains it.
 */
#ifndef MSI_BOOTSTRAP_LAUNCHERS_H
#define MSI_BOOTSTRAP_LAUNCHERS_H

#include "wire/hosts.h"

#include <stdbool.h>
#include <stddef.h>

enum { MSI_DEFAULT_PORT = 29500 }; /* torch's and DeepSpeed's */

/*
 * Launchers nest: torchrun inside mpirun inside a Slurm allocation leaves the variables of all three. The
 * innermost launcher describes this process.
 */
enum msi_depth {
    MSI_DEPTH_AGENT,   /* started every rank itself: no launcher is inside it */
    MSI_DEPTH_GIVEN,   /* RANK and WORLD_SIZE: may be stale, so they are compared with the others */
    MSI_DEPTH_MPI,     /* at most one of these at a time */
    MSI_DEPTH_MANAGER, /* job manager of a cluster */
};

/* How a number is read from a variable. */
enum msi_how {
    MSI_HOW_NUMBER, /* as it is written */
    MSI_HOW_TASKS,  /* Slurm's tasks per node, of node SLURM_NODEID */
    MSI_HOW_COUNT,  /* number of hosts in a JSON list */
    MSI_HOW_INDEX,  /* index of SM_CURRENT_HOST in a JSON list */
    MSI_HOW_ALL,    /* the world size, if this number of hosts is 1 */
    MSI_HOW_SINGLE, /* one process on each host; name gives the reason */
};

struct msi_number_rule {
    const char *name;
    enum msi_how how;
};

/* The host of rank 0, from a variable. */
struct msi_host_rule {
    const char *name;
    msi_hosts_parser *parse; /* NULL: this host, if all ranks are on it; name gives the reason */
    uint64_t n;              /* index in the list of hosts */
    int port;                /* 0: any */
    bool several;            /* applies only if the ranks are on several hosts */
    bool guess;              /* rank 0 may be elsewhere: prefer the launcher's PMIx */
};

enum { MSI_RULES = 3 };

struct msi_launcher {
    const char *name, *title;
    const char *needs[4], *without[2]; /* matches if all of needs and none of without are set */
    const char *step;                  /* does not match if this names a Slurm step that srun did not start */
    enum msi_depth depth;
    bool pmi;     /* ranks can agree on an address through PMI_FD or PMI_PORT */
    bool generic; /* job managers set its variables too; prefer the manager */
    struct msi_number_rule rank[MSI_RULES], size[MSI_RULES], local_rank[MSI_RULES], local_size[MSI_RULES];
    struct msi_host_rule host[MSI_RULES]; /* the first one whose variable is set applies, after MASTER_ADDR */
    const char *job[2];                   /* variables that identify the job */
    const char *advice;                   /* remedy if the ranks span hosts and rank 0's host is not known */
};

/* In order of precedence; the last row stands for no launcher. */
extern const struct msi_launcher msi_launchers[];
extern const size_t msi_launcher_count;

#endif
