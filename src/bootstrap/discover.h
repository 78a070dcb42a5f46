/*
 * discover.h - which rank of which world this process is, and where the world meets. Reads the environment;
 * talks to nobody.
 */
#ifndef MSI_BOOTSTRAP_DISCOVER_H
#define MSI_BOOTSTRAP_DISCOVER_H

#include "wire/url.h"

#include <muster/group.h>
#include <stdbool.h>

enum { MSI_RUN_MAX = 100 };

struct msi_place {
    int rank, world_size;
    struct msi_url url;    /* where to meet; scheme HASH where one process needs to meet nobody */
    bool hosted;           /* rank 0 hosts the tcp store; else somebody outside the world does */
    char run[MSI_RUN_MAX]; /* tells jobs and attempts in one store apart */
    const char *source;    /* where rank and size came from, for people */
    const char *met_by;    /* where the url came from, for people */
};

/*
 * Finds the place from explicit options, the init method, and RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
 * TORCHELASTIC_*. MST_ERR_CONFIG names the variables that are missing, malformed or contradict each other.
 */
mst_status msi_discover(const mst_init_options *options, struct msi_place *place);

#endif
