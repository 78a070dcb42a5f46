/*
 * rendezvous.h - where the launchers of a job find each other, and which of them hosts the store: reads
 * --nnodes, --node-rank, --master-addr, --master-port and the --rdzv options. The main thread uses it before
 * anything is started.
 */
#ifndef MUSTER_TOOL_RUN_NODES_RENDEZVOUS_H
#define MUSTER_TOOL_RUN_NODES_RENDEZVOUS_H

#include "run/run_options.h"

#include "base/address.h"

#include <muster/muster.h>

#include <stdbool.h>

/* ANY: it hosts the store unless another launcher does. */
enum rendezvous_role { RENDEZVOUS_HOST, RENDEZVOUS_JOIN, RENDEZVOUS_ANY };

struct rendezvous {
    enum rendezvous_role role;
    int min, max;    /* nodes */
    bool multi_node; /* there are other launchers */
    int node_rank;   /* -1: any */
    struct msi_address address;
    double join_seconds, last_call_seconds;
};

/* Reads the command line; rendezvous is written only on success. */
mst_status rendezvous_read(const struct run_options *options, struct rendezvous *rendezvous);

/*
 * Hosts the store, or finds that another launcher does; *store is NULL in the second case. If the port is
 * taken and nothing answers there, it tries again until the join timeout. Afterwards role is HOST or JOIN,
 * and the port is the real one.
 */
mst_status rendezvous_open(struct rendezvous *rendezvous, mst_store **store);

/* Seconds after which a launcher that waits for others says so. */
double rendezvous_report_after(void);

#endif
