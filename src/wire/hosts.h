/*
 * hosts.h - lists of hosts as launchers write them into the environment. Pure text, no look-ups, nothing is expanded:
 * a list may stand for millions of hosts and costs no more than its length.
 *
 * Each parser writes the n-th host (from 0) and, where count is not NULL, how many there are. name is the variable's,
 * for messages. MST_ERR_CONFIG says what is malformed, and where; the outputs are then left alone.
 */
#ifndef MSI_WIRE_HOSTS_H
#define MSI_WIRE_HOSTS_H

#include "base/address.h"

#include <muster/status.h>

enum { MSI_HOSTS_MAX = 1 << 24 }; /* hosts in a list, tasks on a node */

typedef mst_status msi_hosts_parser(const char *name, const char *text, uint64_t n, char host[MSI_HOST_MAX],
                                    uint64_t *count);

/* "gpu5": a name or an address, as it is. */
msi_hosts_parser msi_hosts_plain;
/* "10.0.0.4:6000", "[::1]:6000" or without the port, which is left out. */
msi_hosts_parser msi_hosts_port;
/* Slurm's "n[01-03,7],gpu5", "rack[0-1]node[1-4]-ib". */
msi_hosts_parser msi_hosts_slurm;
/* A JSON list of names: ["algo-1","algo-2"]. */
msi_hosts_parser msi_hosts_json;
/* LSF's "launch 1 node1 42 node2 42": names, each with its slots. */
msi_hosts_parser msi_hosts_lsf;
/* Open MPI's "1234.0;tcp://10.0.0.4,192.168.1.4:38121;tcp6://[fd00::2]:43733": the addresses of one host. */
msi_hosts_parser msi_hosts_orte;

/* Where host stands in a JSON list of names. */
mst_status msi_hosts_json_find(const char *name, const char *text, const char *host, uint64_t *at);

/* How many tasks Slurm's "2(x3),1" gives to a node (from 0). */
mst_status msi_tasks_at(const char *name, const char *text, uint64_t node, uint64_t *tasks);

#endif
