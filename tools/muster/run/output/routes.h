/* routes.h - where each stream of each rank goes: onto the launcher's output, into a file, both or nowhere. */
#ifndef MUSTER_TOOL_RUN_OUTPUT_ROUTES_H
#define MUSTER_TOOL_RUN_OUTPUT_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

enum { ROUTE_SHOWN = 1, ROUTE_LOGGED = 2 };

struct routes {
    int n;
    bool any_logged;
    unsigned char *of; /* ROUTE_ bits; two streams per rank, as enum output_stream has them */
};

/* What the command line says, NULL where it says nothing. */
struct routes_words {
    const char *redirects; /* "3" or "0:1,1:3": 1 stdout, 2 stderr, 3 both go to files only */
    const char *tee;       /* the same, to files as well */
    const char *filter;    /* "0,2": whose output is shown */
    bool log_all;          /* without the first two, everything goes to files as well */
};

/* Makes the routes of n ranks. 0, or -1 with why set. */
int routes_read(struct routes *routes, int n, const struct routes_words *words, char *why, size_t why_size);
void routes_free(struct routes *routes);

/* ROUTE_ bits; everything is shown where routes is NULL. */
unsigned routes_of(const struct routes *routes, int local_rank, int stream);

#endif
