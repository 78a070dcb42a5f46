/*
 * hosts.h - the hosts that --hosts and --hostfile name, and how many ranks each is to run.
 *
 *   --hosts     a,b:2,[fe80::1]:3,user@c:4
 *   --hostfile  one host a line: "host", "host:N" or "host slots=N"; '#' begins a comment
 *
 * A host that is named again gets the ranks of both; the first mention decides its place. An IPv6 address needs
 * brackets only where a number of ranks follows. Whatever a name holds, it is nothing that ssh would take for an option.
 * All of it but hosts_read_file is pure.
 */
#ifndef MUSTER_TOOL_RUN_NODES_HOSTS_H
#define MUSTER_TOOL_RUN_NODES_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HOSTS_MAX = 4096,
    HOSTS_RANKS_MAX = 16384,  /* on one host, as -n has it */
    HOSTS_NAME_MAX = 256,     /* bytes of user@host, with the NUL */
    HOSTS_LINE_MAX = 1024,    /* bytes of a line of a file */
    HOSTS_FILE_MAX = 1 << 20, /* bytes of a file */
};

struct host {
    char name[HOSTS_NAME_MAX]; /* host or user@host, without brackets, as ssh takes it */
    int ranks;                 /* as far as numbers were given */
    int open;                  /* how often it was named without a number */
};

struct hosts {
    struct host *list;
    int n;
};

/* The three of them: 0, or -1 with why set to one line and hosts left alone. A list holds at least one host. */
int hosts_read_list(const char *text, struct hosts *hosts, char *why, size_t why_size);
int hosts_read_lines(const char *file, const char *text, size_t len, struct hosts *hosts, char *why,
                     size_t why_size);
/* Reads a pipe as well, but for some seconds only. */
int hosts_read_file(const char *path, struct hosts *hosts, char *why, size_t why_size);

void hosts_free(struct hosts *hosts);

/*
 * How many ranks a host gets where each open mention stands for nproc, the value of -n: 0 with text set to what its
 * own -n shall be, or -1 with why set. nproc is a number or a word such as "cpu", which only the host itself can count.
 */
enum { HOSTS_NPROC_MAX = 32 };
int hosts_nproc(const struct host *host, const char *nproc, char text[HOSTS_NPROC_MAX], char *why,
                size_t why_size);

#endif
