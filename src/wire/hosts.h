/*
 * hosts.h - parses lists of hosts that launchers put into the environment. Pure. Lists are not expanded: the
 * cost depends on the length of the text, not on the number of hosts.
 *
 * Each parser returns the n-th host (from 0) and, if count is not NULL, the number of hosts. name is the
 * variable's name, for messages. MST_ERR_CONFIG: malformed; outputs are unchanged.
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
/* "10.0.0.4:6000", "[::1]:6000" or without port; the port is dropped. */
msi_hosts_parser msi_hosts_port;
/* Slurm's "n[01-03,7],gpu5", "rack[0-1]node[1-4]-ib". */
msi_hosts_parser msi_hosts_slurm;
/* A JSON list of names: ["algo-1","algo-2"]. */
msi_hosts_parser msi_hosts_json;
/* LSF's "launch 1 node1 42 node2 42": names and slots. */
msi_hosts_parser msi_hosts_lsf;
/* Open MPI's "1234.0;tcp://10.0.0.4,192.168.1.4:38121;tcp6://[fd00::2]:43733": the addresses of one host. */
msi_hosts_parser msi_hosts_orte;

/* The index of host in a JSON list of names. */
mst_status msi_hosts_json_find(const char *name, const char *text, const char *host, uint64_t *at);

/* The number of tasks of a node (from 0) in Slurm's "2(x3),1". */
mst_status msi_tasks_at(const char *name, const char *text, uint64_t node, uint64_t *tasks);

#endif
