/*
 * node_msg.h - what the launchers of a job's nodes write to each other, as lines of text. Pure.
 *
 * Members write notices, the head writes orders; each kind is a log in the store that only grows, so that nothing is lost and
 * everybody reads the same in the same order. A line is a letter, numbers, and at its end a text in which line ends are
 * escaped. Whatever does not fit is no message at all: anyone who reaches the store could have written it.
 */
#ifndef MUSTER_TOOL_RUN_NODES_NODE_MSG_H
#define MUSTER_TOOL_RUN_NODES_NODE_MSG_H

#include <stdbool.h>
#include <stddef.h>

enum {
    NODE_MOST = 65536,               /* nodes of a job, and ranks of one of them */
    NODE_TEXT_MAX = 16384,           /* bytes of a text, with its NUL */
    NODE_HOST_MAX = 256,             /* of a host's name, likewise */
    NODE_LINE_MOST = NODE_MOST * 32, /* bytes of a line: an order that names all nodes is the longest */
    NODE_TICKET_MOST = 999999999,
    NODE_RANKS_MOST = 999999999, /* of a job */
};

enum notice_kind {
    NOTICE_JOIN = 'J',   /* a node wants to take part */
    NOTICE_FAILED = 'N', /* one of its ranks failed; text: in one line, who and how */
    NOTICE_STOPPED =
        'S', /* it has no ranks any more; text: the report of the failure that it takes for the cause */
    NOTICE_LEAVE = 'Q', /* it was told to end, by signal */
    NOTICE_DIED = 'D',  /* its launcher is gone; the store says so, by its will */
};

struct notice {
    enum notice_kind kind;
    int ticket;
    int generation; /* FAILED, STOPPED */
    /* JOIN */
    int node_rank; /* -1: wherever there is room */
    int n;         /* ranks */
    int min, max;  /* as its command line says */
    int pid;
    /* STOPPED */
    int rank;    /* that failed; -1: none did */
    int status;  /* the exit status that follows from that */
    int culprit; /* whom that rank blames; -1: nobody */
    bool final;  /* starting it again would be no use */
    /* LEAVE */
    int signal;
    const char *text; /* JOIN: host; into the line that was read, which is changed */
};

enum order_kind {
    ORDER_REFUSE = 'R', /* the node with that ticket is not wanted, and ends with a status; text: why */
    ORDER_GO = 'G',     /* a generation begins */
    ORDER_STOP = 'X',   /* it is to end; text: why */
    ORDER_PASS = 'P',   /* its ranks are to have a signal */
    ORDER_END = 'E',    /* the job is over, with a status; text: why */
};

/* Where a node's ranks begin. */
struct node_place {
    int ticket, first_rank, n;
    const char *host; /* not part of the order */
};

struct order {
    enum order_kind kind;
    int ticket;     /* REFUSE */
    int generation; /* GO, STOP, PASS */
    int signal; /* PASS; STOP: to pass on to the ranks; 0: SIGTERM, once they had a moment to say what they know */
    int status;                /* REFUSE, END */
    int world_size, nodes;     /* GO */
    struct node_place *places; /* GO: nodes of them, in node order; to be freed by the reader */
    const char *text;
};

/* What the head says about the job before anything else. */
struct job_card {
    int min, max;
    char id[NODE_HOST_MAX];
};

/* Each returns a line with its newline, to be freed; NULL without memory. */
char *notice_write(const struct notice *notice);
char *order_write(const struct order *order);
/* Where ranks of a generation are, for ranks that miss others: see bootstrap/report.h. */
char *node_hosts_write(const char *run_id, int generation, const struct node_place *places, int n);
/* Without a newline. */
char *job_card_write(const struct job_card *card);

/* Reads a line, which is changed; false if it is none. line has no newline. */
bool notice_read(char *line, struct notice *notice);
bool order_read(char *line, struct order *order);
bool job_card_read(char *text, struct job_card *card);

#endif
