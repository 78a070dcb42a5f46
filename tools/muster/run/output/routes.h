/* routes.h - whether an output stream of a rank goes to the launcher, to a file, to both or nowhere. */
#ifndef MUSTER_TOOL_RUN_OUTPUT_ROUTES_H
#define MUSTER_TOOL_RUN_OUTPUT_ROUTES_H

#include "run/run_options.h"

#include <muster/status.h>

#include <stdbool.h>

enum { ROUTE_SHOWN = 1, ROUTE_LOGGED = 2 };

struct routes {
    int n;
    bool any_logged;
    unsigned char *of; /* ROUTE_ bits; two streams per rank, in the order of enum output_stream */
};

/* Makes the routes from --log-dir, --redirects, --tee and --local-ranks-filter; then call routes_free. */
mst_status routes_read(struct routes *routes, int n, const struct run_options *options);
void routes_free(struct routes *routes);

/* ROUTE_ bits. */
unsigned routes_of(const struct routes *routes, int local_rank, int stream);

#endif
