/* actions.h - the table of actions of "muster store". */
#ifndef MUSTER_TOOL_STORE_ACTIONS_H
#define MUSTER_TOOL_STORE_ACTIONS_H

#include "cli/options.h"

#include <muster/muster.h>

struct store_options {
    const char *host;
    long port;
    double timeout;
    const char *port_file;
    bool open;
};

struct store_session {
    struct store_options options;
    char **operands;
    int n;              /* operands */
    long long number;   /* the second operand, if the action takes a number */
    mst_cancel *cancel; /* fired by SIGINT, and by SIGTERM while serving */
    mst_store *store;
};

struct store_action {
    const char *name;
    const char *operands; /* in the help text */
    int min_operands, max_operands;
    bool serves;       /* hosts a store instead of connecting to one */
    bool takes_number; /* the second operand is a number */
    int (*run)(struct store_session *session);
    const char *help;
};

extern const struct store_action store_actions[];
extern const size_t store_n_actions;

/* Writes "host:port", with brackets around an IPv6 address; returns text. */
enum { STORE_ADDRESS = 300 };
const char *store_address(const char *host, int port, char text[STORE_ADDRESS]);

/* Prints the last error and returns its exit status. */
int store_failed(mst_status status);

#endif
