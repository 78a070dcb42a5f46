/* actions.h - what "muster store" can do, one entry each. */
#ifndef MUSTER_TOOL_STORE_ACTIONS_H
#define MUSTER_TOOL_STORE_ACTIONS_H

#include "cli/options.h"

#include <muster/muster.h>

struct store_options {
    const char *host;
    long port;
    double timeout;
    const char *port_file;
};

struct store_session {
    struct store_options options;
    int timeout_ms;
    mst_cancel *cancel; /* fired by SIGINT, and while serving by SIGTERM */
    mst_store *store;
};

struct store_action {
    const char *name;
    const char *operands; /* as help shows them */
    int min_operands, max_operands;
    bool serves;       /* hosts the store instead of connecting to one */
    bool takes_number; /* as its second operand */
    int (*run)(struct store_session *session, char **operands, int n);
    const char *help;
};

extern const struct store_action store_actions[];
extern const size_t store_n_actions;

/* Prints the last failure and returns the exit status it stands for. */
int store_failed(mst_status status);

/* Blocks until a signal that the session handles has come, and returns its number. */
int store_wait_for_signal(void);

#endif
