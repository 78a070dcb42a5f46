/* routes.h - whether an output stream of a rank goes to the launcher, to a file, to both or nowhere. */
#ifndef MUSTER_TOOL_RUN_OUTPUT_ROUTES_H
#define MUSTER_TOOL_RUN_OUTPUT_ROUTES_H

#include <muster/status.h>

#include <stdbool.h>

enum { ROUTE_SHOWN = 1, ROUTE_LOGGED = 2 };

struct routes {
    int n;
    bool any_logged;
    unsigned char *of; /* ROUTE_ bits; two streams per rank, in the order of enum output_stream */
};

/* Options of the command line; NULL: not given. */
struct routes_options {
    const char *redirects; /* "3" or "0:1,1:3": 1 stdout, 2 stderr, 3 both go to files only */
    const char *tee;       /* the same, to files and to the launcher's output */
    const char *filter;    /* "0,2": the local ranks whose output is shown */
    bool log_all;          /* without redirects and tee, all output also goes to files */
};

/* Makes the routes of n ranks. */
mst_status routes_read(struct routes *routes, int n, const struct routes_options *options);
void routes_free(struct routes *routes);

/* ROUTE_ bits; if routes is NULL, everything is shown. */
unsigned routes_of(const struct routes *routes, int local_rank, int stream);

#endif
