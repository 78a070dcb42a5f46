/*
 * launch.h - what the environment says about this process: which launcher started it, as which rank of how many, and
 * where rank 0 is. Reads variables by the table in launchers.h; talks to nobody.
 *
 * The order is the table's. The first launcher that is recognised is taken, except that PMI_RANK, which managers set
 * too, gives way to a manager that says the same. What the one taken leaves open is taken from others that agree with
 * it about rank and size. MASTER_ADDR and MASTER_PORT come before everything.
 */
#ifndef MSI_BOOTSTRAP_LAUNCH_H
#define MSI_BOOTSTRAP_LAUNCH_H

#include "bootstrap/launchers.h"

enum { MSI_JOB_MAX = 40 };

/* A number and the variable, or for people the reason, that it is known from. */
struct msi_found {
    int value; /* -1: not known */
    const char *from;
};

/* How rank 0's address becomes known. */
enum msi_meet {
    MSI_MEET_TOLD, /* by the environment, or not at all */
    MSI_MEET_PMI,  /* the ranks agree on it through the launcher's PMI: see pmi.h */
    MSI_MEET_PMIX, /* or through its PMIx: see pmix.h; host is then a guess, in case that PMIx cannot be had */
};

struct msi_launch {
    const struct msi_launcher *launcher;
    struct msi_found rank, size, local_rank, local_size, port;
    char host[MSI_HOST_MAX]; /* "": not known */
    const char *host_from;
    char job[MSI_JOB_MAX]; /* "": nothing tells this job from others */
    enum msi_meet meet;
};

/*
 * discovery false: RANK, WORLD_SIZE and their like alone. MST_ERR_CONFIG names a variable that is malformed. What is
 * found is not checked yet: the caller may know some of it better.
 */
mst_status msi_launch_find(bool discovery, struct msi_launch *launch);

/* MST_ERR_CONFIG lists the variables that contradict each other. */
mst_status msi_launch_check(bool discovery, const struct msi_launch *launch);

/* Goes by the environment alone, also where PMIx could be asked. */
void msi_launch_forgo_pmix(struct msi_launch *launch);

/* A port that goes with a job: the same for all its ranks, and most likely another than other jobs have. */
int msi_launch_port(const char *job);

/* The variable's value; NULL if it is not set or empty. */
const char *msi_variable(const char *name);

/* A variable that must hold a number; *value is left alone where it is not set. */
mst_status msi_variable_number(const char *name, int least, int most, int *value);

#endif
