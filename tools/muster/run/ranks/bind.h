/*
 * bind.h - binds ranks to processors: divides the launcher's processors among the ranks by core or by NUMA
 * node.
 *
 * Each share is a run of neighbours in the order of nodes, packages and cores. Shares are as equal as
 * possible, and disjoint if there are enough cores (or nodes); otherwise neighbouring ranks share one. The
 * hardware threads of a core stay together.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_BIND_H
#define MUSTER_TOOL_RUN_RANKS_BIND_H

#include <muster/status.h>

#include <sched.h>
#include <stddef.h>

enum bind_how { BIND_NONE, BIND_CORES, BIND_NUMA };

struct bind {
    enum bind_how how;
    int n;
    size_t set_size;     /* bytes of one set, as sched_setaffinity takes it */
    unsigned char *sets; /* n of them, or NULL */
};

/* Reads "none", "cores" or "numa"; option is its name in messages. */
mst_status bind_read(const char *option, const char *text, enum bind_how *how);

/* The processors of this process, to be freed with CPU_FREE; NULL with errno set if they are unknown. */
cpu_set_t *bind_allowed(size_t *set_size);

/*
 * Divides allowed, a set of set_size bytes, among n ranks. system is /sys/devices/system; without topology
 * there, every processor counts as a core of one node. 0, or a negative errno.
 */
int bind_share(struct bind *bind, enum bind_how how, int n, const char *system, const cpu_set_t *allowed,
               size_t set_size);

/* Divides the launcher's processors. BIND_NONE makes a bind without sets. */
mst_status bind_open(struct bind *bind, enum bind_how how, int n);
void bind_close(struct bind *bind);

/* The processors of a rank, or NULL if it is not bound. */
const cpu_set_t *bind_of(const struct bind *bind, int local_rank);

/* Writes the processors of a rank as "0-3,8" and returns text. */
char *bind_describe(const struct bind *bind, int local_rank, char *text, size_t size);

#endif
