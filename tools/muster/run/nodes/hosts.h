/*
 * hosts.h - the hosts that --hosts and --hostfile name, and how many ranks each of them runs.
 *
 *   --hosts     a,b:2,[fe80::1]:3,user@c:4
 *   --hostfile  one host per line: "host", "host:N" or "host slots=N"; '#' begins a comment
 *
 * A host that is named twice gets the ranks of both entries, at the position of the first. An IPv6 address
 * needs brackets only before a number of ranks. No accepted name can be mistaken for an option of ssh. The
 * main thread uses it before anything is started; all but hosts_read_file is pure.
 */
#ifndef MUSTER_TOOL_RUN_NODES_HOSTS_H
#define MUSTER_TOOL_RUN_NODES_HOSTS_H

#include <muster/status.h>

#include <stddef.h>

enum {
    HOSTS_MAX = 4096,
    HOSTS_RANKS_MAX = 16384,  /* on one host, as for -n */
    HOSTS_NAME_MAX = 256,     /* bytes of user@host, with the NUL */
    HOSTS_LINE_MAX = 1024,    /* bytes of a line of a file */
    HOSTS_FILE_MAX = 1 << 20, /* bytes of a file */
};

struct host {
    char name[HOSTS_NAME_MAX]; /* host or user@host, without brackets, as ssh takes it */
    int ranks;                 /* sum of the numbers that were given */
    int open;                  /* how often it was named without a number */
};

struct hosts {
    struct host *list;
    int n;
};

/* On failure hosts is unchanged. A list holds at least one host. */
mst_status hosts_read_list(const char *text, struct hosts *hosts);
mst_status hosts_read_lines(const char *file, const char *text, size_t len, struct hosts *hosts);
/* Reads a pipe too, but only for some seconds. */
mst_status hosts_read_file(const char *path, struct hosts *hosts);

void hosts_free(struct hosts *hosts);

/*
 * Writes the host's own -n to text if each open entry stands for nproc, the value of -n: a number, or a word
 * such as "cpu" that only the host itself can count.
 */
enum { HOSTS_NPROC_MAX = 32 };
mst_status hosts_nproc(const struct host *host, const char *nproc, char text[HOSTS_NPROC_MAX]);

#endif
