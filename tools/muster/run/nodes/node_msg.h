/*
 * node_msg.h - the messages between the launchers of a job's nodes, as lines of text. Pure.
 *
 * Members send notices to the coordinator; the coordinator sends orders to the members. Each direction is a
 * log in the store that only grows, so all readers see the same lines in the same order. A line is a letter,
 * numbers and, for some kinds, a text in which line ends are escaped. The readers reject everything else,
 * because any process that reaches the store can write to the logs.
 */
#ifndef MUSTER_TOOL_RUN_NODES_NODE_MSG_H
#define MUSTER_TOOL_RUN_NODES_NODE_MSG_H

#include <stdbool.h>

enum {
    NODE_MOST = 65536,               /* nodes of a job, and ranks of one node */
    NODE_TEXT_MAX = 16384,           /* bytes of a text, with its NUL */
    NODE_HOST_MAX = 256,             /* bytes of a host name, with its NUL */
    NODE_RUN_ID_MAX = 256,           /* likewise */
    NODE_LINE_MOST = NODE_MOST * 32, /* bytes of a line: ORDER_START, which names all nodes, is the longest */
    NODE_TICKET_MOST = 999999999,
    NODE_RANKS_MOST = 999999999, /* of a job */
};

/* The key that the coordinator sets when the job has ended: its store may answer for some more seconds. */
#define NODE_ENDED_KEY "muster/launch/ended"

enum notice_kind {
    NOTICE_JOIN = 'J',    /* a node wants to take part */
    NOTICE_FAILED = 'N',  /* one of its ranks failed; text: which rank and how, in one line */
    NOTICE_RANK = 'L',    /* with --survive: an event of a rank; text: how it ended, in one line */
    NOTICE_STOPPED = 'S', /* all its ranks have exited; text: the report of the first failure */
    NOTICE_LEAVE = 'Q',   /* a signal tells it to end */
    NOTICE_DIED = 'D',    /* its launcher has disconnected; the store writes this notice */
};

struct notice {
    enum notice_kind kind;
    int ticket;     /* number of the node in order of arrival; the coordinator's own node has 0 */
    int generation; /* FAILED, RANK, STOPPED */
    /* JOIN */
    int node_rank; /* -1: any */
    int n;         /* ranks */
    int min, max;  /* --nnodes of its command line */
    int pid;
    /* RANK */
    int serial; /* of these notices of the node, from 1: a line may have been appended twice */
    int event;  /* enum rank_event */
    int waited; /* 1: it was a replacement that had not joined */
    /* STOPPED */
    int rank;    /* the rank that failed; -1: none; RANK: the rank of the event */
    int status;  /* the exit status that follows from that */
    int culprit; /* the rank that the failed rank blames; -1: none */
    int final;   /* 1: a restart would fail in the same way */
    /* LEAVE */
    int signal;
    const char *text; /* JOIN: the host; points into the line that was read */
};

enum order_kind {
    ORDER_REFUSE = 'R', /* the node with this ticket must end with this status; text: why */
    ORDER_START = 'G',  /* start the ranks of a generation */
    ORDER_STOP = 'X',   /* end the ranks of a generation; text: why */
    ORDER_SIGNAL = 'P', /* send a signal to the ranks of a generation */
    ORDER_RANK = 'L',   /* the answer when a rank has died: the others go on, or it is replaced */
    ORDER_ALONE = 'A',  /* whether only replacements run that nobody can admit */
    ORDER_END = 'E',    /* the job ends with this status; text: why */
};

/* The ranks of one node. */
struct node_ranks {
    int ticket, first_rank, n;
    const char *host; /* not part of the order */
};

struct order {
    enum order_kind kind;
    int ticket;               /* REFUSE */
    int generation;           /* START, STOP, SIGNAL, RANK, ALONE */
    int signal;               /* SIGNAL; STOP: for the ranks; 0: SIGTERM after a grace period */
    int status;               /* REFUSE, END */
    int rank, replace;        /* RANK */
    int alone;                /* ALONE */
    int world_size, nodes;    /* START */
    struct node_ranks *ranks; /* START: one entry for each of the nodes, in rank order; the reader frees it */
    const char *text;
};

/* Each returns a line with its newline, which the caller frees; NULL without memory. */
char *notice_write(const struct notice *notice);
char *order_write(const struct order *order);
/* Which host has which ranks of a generation, for error messages of ranks: see bootstrap/report.h. */
char *node_hosts_write(const char *run_id, int generation, const struct node_ranks *ranks, int n);
/* What the coordinator publishes first; without a newline. */
char *job_info_write(const char *run_id);

/* Reads a line without its newline and changes it; false if it is malformed. */
bool notice_read(char *line, struct notice *notice);
bool order_read(char *line, struct order *order);
bool job_info_read(const char *text, char run_id[NODE_RUN_ID_MAX]);

#endif
