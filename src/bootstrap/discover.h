/*
 * discover.h - which rank of which world this process is, and where the world meets: from the options, the init
 * method, and what the environment says (launch.h).
 */
#ifndef MSI_BOOTSTRAP_DISCOVER_H
#define MSI_BOOTSTRAP_DISCOVER_H

#include "base/settings.h"
#include "bootstrap/launch.h"
#include "os/wait.h"
#include "wire/url.h"

#include <muster/discover.h>
#include <muster/group.h>

enum { MSI_RUN_MAX = 100 };

struct msi_place {
    int rank, world_size;
    struct msi_url url;    /* where to meet; scheme HASH where one process needs to meet nobody */
    bool hosted;           /* rank 0 hosts the tcp store; else somebody outside the world does */
    char run[MSI_RUN_MAX]; /* tells jobs and attempts in one store apart */
    const char *source;    /* where rank and size came from, for people */
    char met_by[200];      /* where the url came from, for people */
    const char
        *advice; /* how to tell ranks of this launcher where rank 0 is; NULL: no launcher, or no need */
    const char *backend; /* that runs the world's groups, in one word: all ranks must say the same */
};

/*
 * Finds the place. MST_ERR_CONFIG names the variables that are missing, malformed or contradict each other. Talks to
 * nobody, except to the launcher through PMI or PMIx where only that can tell.
 */
mst_status msi_discover(const mst_init_options *options, const struct msi_settings *settings,
                        const struct msi_wait *wait, struct msi_place *place);

/* msi_launch_find, less PMIx where its library cannot be loaded and the environment has a guess. */
mst_status msi_discover_launch(bool discovery, const struct msi_settings *settings,
                               struct msi_launch *launch);

/* Agrees with the other ranks on host and port, where that is open; *launch then has them. */
mst_status msi_discover_meet(const struct msi_settings *settings, const struct msi_wait *wait,
                             struct msi_launch *launch);

/* One process that nobody launched is rank 0 of 1. Does nothing if somebody did. */
void msi_discover_alone(struct msi_launch *launch);

/* MST_ERR_CONFIG if rank, size, host or port are not known, with what must be set. */
mst_status msi_discover_missing(const struct msi_launch *launch, int rank, int size);

/* Says in one line what was found: in any case, or where the log is at info. */
void msi_discover_say(bool always, const struct msi_launch *launch);

/* Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as far as they are known. */
mst_status msi_discover_set_env(const struct msi_launch *launch);

#endif
