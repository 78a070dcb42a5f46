/*
 * launch.h - reads the launcher's environment variables: rank, world size, and the host of rank 0. Follows
 * the table in launchers.h; does no I/O.
 *
 * The first launcher of the table that matches is used. Exception: PMI_RANK, which job managers set too,
 * yields to a manager with the same rank and size. Values that this launcher does not give come from others
 * that agree with it about rank and size. MASTER_ADDR and MASTER_PORT override all of them.
 */
#ifndef MSI_BOOTSTRAP_LAUNCH_H
#define MSI_BOOTSTRAP_LAUNCH_H

#include "bootstrap/launchers.h"

enum { MSI_JOB_MAX = 40 };

/* A number, and the variable or reason that it comes from. */
struct msi_launch_value {
    int value; /* -1: not known */
    const char *from;
};

/* How rank 0's address becomes known. */
enum msi_address_source {
    MSI_ADDRESS_FROM_ENV,  /* the environment names it, or it is not known */
    MSI_ADDRESS_FROM_PMI,  /* the ranks agree on it through the launcher's PMI: see pmi.h */
    MSI_ADDRESS_FROM_PMIX, /* or through its PMIx; host is the fallback */
};

struct msi_launch {
    const struct msi_launcher *launcher;
    struct msi_launch_value rank, size, local_rank, local_size, port;
    char host[MSI_HOST_MAX]; /* "": not known */
    const char *host_from;
    char job[MSI_JOB_MAX]; /* "": not known */
    enum msi_address_source source;
};

/*
 * discovery false: reads only RANK, WORLD_SIZE and the like. MST_ERR_CONFIG names a malformed variable. The
 * values are not checked against each other, because the caller may override some of them.
 */
mst_status msi_launch_find(bool discovery, struct msi_launch *launch);

/* MST_ERR_CONFIG lists the variables that contradict each other. */
mst_status msi_launch_check(bool discovery, const struct msi_launch *launch);

/* Uses the environment alone, even if the launcher has PMIx. */
void msi_launch_forgo_pmix(struct msi_launch *launch);

/* A port derived from the job's name: the same for all its ranks, most likely unique. */
int msi_launch_port(const char *job);

/* The variable's value; NULL if it is not set or empty. */
const char *msi_variable(const char *name);

/* Reads a variable that must hold a number; leaves *value unchanged if it is not set. */
mst_status msi_variable_number(const char *name, int least, int most, int *value);

#endif
