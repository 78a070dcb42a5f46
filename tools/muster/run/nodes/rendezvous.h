/*
 * rendezvous.h - where the launchers of a job meet, and which of them hosts the store: what --nnodes, --node-rank, --master-addr,
 * --master-port, --rdzv-endpoint, --rdzv-conf and their like amount to.
 */
#ifndef MUSTER_TOOL_RUN_NODES_RENDEZVOUS_H
#define MUSTER_TOOL_RUN_NODES_RENDEZVOUS_H

#include "run/nodes/node_msg.h"
#include "run/run_options.h"

#include "base/address.h"

#include <muster/muster.h>

#include <stdbool.h>

enum meeting_role { MEETING_HOST, MEETING_JOIN, MEETING_WHOEVER_CAN };

struct meeting {
    enum meeting_role role;
    int min, max;  /* nodes */
    bool company;  /* there are launchers beside this one */
    int node_rank; /* -1: any */
    struct msi_address address;
    double join_seconds, last_call_seconds;
};

/* Reads the command line. 0, or -1 with why set. */
int meeting_read(const struct run_options *options, struct meeting *meeting, char *why, size_t why_size);

/*
 * Hosts the store, or finds that another launcher does; *store is NULL in the second case. If the port is taken and
 * nobody answers there, it tries again until the join timeout. Afterwards role is one of the first two, and the port is
 * the real one. 0, or -1 with why set.
 */
int meeting_open(struct meeting *meeting, mst_store **store, char *why, size_t why_size);

/* Seconds after which a launcher that waits for others says so. */
double meeting_report_after(void);

#endif
