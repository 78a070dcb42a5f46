/*
 * discover.h - finds this process's rank, the world size and the store's address: from the options, the init
 * method and the launcher's environment (launch.h).
 */
#ifndef MSI_BOOTSTRAP_DISCOVER_H
#define MSI_BOOTSTRAP_DISCOVER_H

#include "base/settings.h"
#include "bootstrap/launch.h"
#include "os/wait.h"
#include "wire/url.h"

#include <muster/discover.h>
#include <muster/group.h>

enum { MSI_RUN_MAX = 100, MSI_PROCESS_MAX = MSI_HOST_MAX + 32 };

/* What msi_join needs to know. */
struct msi_join_spec {
    int rank, world_size;
    struct msi_url url;    /* the store; scheme HASH for a world of one process */
    bool hosted;           /* rank 0 hosts the tcp store; else a process outside the world does */
    char run[MSI_RUN_MAX]; /* distinguishes jobs and restarts in one store */
    const char *source;    /* where rank and size came from, for messages */
    char url_from[200];    /* where the url came from, for messages */
    const char *advice;    /* how to set rank 0's address with this launcher; NULL: not needed */
    const char *backend;   /* of the world; the same on all ranks */
    char *rank_0;   /* MSI_PROCESS_MAX bytes; msi_join writes "host a, pid 12" of rank 0, if it knows */
    uint32_t nonce; /* random; distinguishes this call from other processes with the same rank */
    /* Called from time to time while ranks are missing: fails if one of them will never come. NULL: none. */
    mst_status (*check)(void *context);
    void *check_context;
};

/*
 * MST_ERR_CONFIG names the variables that are missing, malformed or contradictory. Communicates only with the
 * launcher, through PMI or PMIx, and only if the environment does not name the address.
 */
mst_status msi_discover(const mst_init_options *options, const struct msi_settings *settings,
                        const struct msi_wait *wait, struct msi_join_spec *spec);

/* As msi_launch_find, but without PMIx if its library cannot be loaded and the environment has a guess. */
mst_status msi_discover_launch(bool discovery, const struct msi_settings *settings,
                               struct msi_launch *launch);

/* Agrees with the other ranks on host and port if they are not known, and stores them in *launch. */
mst_status msi_discover_address(const struct msi_settings *settings, const struct msi_wait *wait,
                                struct msi_launch *launch);

/* Without a launcher the process becomes rank 0 of 1. */
void msi_discover_alone(struct msi_launch *launch);

/* MST_ERR_CONFIG if rank, size, host or port are not known; the message lists the variables to set. */
mst_status msi_discover_missing(const struct msi_launch *launch, int rank, int size);

/* Logs the result in one line: always, or at level info. */
void msi_discover_say(bool always, const struct msi_launch *launch);

/* Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, if known. */
mst_status msi_discover_set_env(const struct msi_launch *launch);

#endif
