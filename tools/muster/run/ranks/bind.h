/*
 * bind.h - which processors each rank may run on: the launcher's own, shared out by core or by NUMA node.
 *
 * Shares are runs of neighbours in the order of nodes, packages and cores, as equal as can be, and disjoint as
 * long as there are enough of them; with more ranks than cores (or nodes), neighbours share one. The threads of
 * a core stay together.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_BIND_H
#define MUSTER_TOOL_RUN_RANKS_BIND_H

#include <sched.h>
#include <stddef.h>

enum bind_how { BIND_NONE, BIND_CORES, BIND_NUMA };

struct bind {
    enum bind_how how;
    int n;
    size_t set_size;     /* bytes of one set, as sched_setaffinity takes it */
    unsigned char *sets; /* n of them */
};

/* Reads "none", "cores" or "numa"; option is how a message calls it. 0, or -1 with why set. */
int bind_read(const char *option, const char *text, enum bind_how *how, char *why, size_t why_size);

/*
 * Shares allowed, a set of set_size bytes, out among n ranks; system is /sys/devices/system, and where it tells
 * nothing, every processor is a core of one node. 0, or a negative errno.
 */
int bind_share(struct bind *bind, enum bind_how how, int n, const char *system, const cpu_set_t *allowed,
               size_t set_size);

/* The same for the processors that the launcher may use. BIND_NONE makes a bind without sets. */
int bind_open(struct bind *bind, enum bind_how how, int n);
void bind_close(struct bind *bind);

/* The rank's processors; NULL where it is not bound. */
const cpu_set_t *bind_of(const struct bind *bind, int local_rank);

/* Writes the rank's processors as "0-3,8" and returns text. */
char *bind_describe(const struct bind *bind, int local_rank, char *text, size_t size);

#endif
