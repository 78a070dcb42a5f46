/*
 * status.h - the data of "muster status".
 *
 *   status.c    the command line, and which job is meant;  jobs.c  the jobs of this host
 *   gather.c    asks the launchers of the job and reads their answers (status_keys.h)
 *   ranks.c     what each rank does, from the answers of all nodes and the diagnosis
 *   members.c   the worlds in a store that no launcher serves
 *   print.c     all of it as tables and as JSON
 *
 * Answers are not trusted: numbers are checked against limits, control characters are removed from texts. Out
 * of memory ends the program. One thread.
 */
#ifndef MUSTER_TOOL_STATUS_STATUS_H
#define MUSTER_TOOL_STATUS_STATUS_H

#include "report/flight.h"
#include "status/jobs.h"

#include "base/json.h"
#include "os/wait.h"

#include <muster/muster.h>

/* A rank that waits for less is not reported as waiting, nor the other as late: it may be on its way. */
#define STATUS_WAIT_SECONDS 1.0

enum { STATUS_UNKNOWN_RANK = -2 };

/* A launcher of the job. */
struct status_node {
    int64_t id;
    char host[MSI_HOST_MAX];
    bool gone;             /* it has disconnected */
    bool answered;         /* its answer is the one to this request */
    struct msi_buf answer; /* "": none */
    char muster[32], phase[16], run[JOBS_RUN_MAX];
    int64_t format, asked, pid, generation, nodes, world_size, first_rank, n;
    struct msi_str ranks; /* JSON, in answer */
    char listens[4608];   /* what its processes listen on; "": nothing */
    char secret[48];      /* which secret members have; "": not known */
    bool open_store;
};

struct status_rank {
    const struct status_node *node; /* NULL: not known */
    bool known;                     /* the node has described it */
    int64_t pid;
    char phase[16], process[4], call[64], site[128], error[256];
    bool under_way;                 /* the call has not returned */
    double age;                     /* seconds, like those below; negative: not known */
    double ended;                   /* since when */
    int64_t exit_code, exit_signal; /* -1: none */
    int64_t operations;             /* begun so far; -1: not known */
    /* From the flight recorder: */
    const struct msi_flight_view *view; /* NULL: none */
    const struct msi_flight_op *op;     /* the operation that it is in; NULL: none */
    double last;                        /* since its last operation began */
    double in_call;                     /* since op began */
    int waits_for;                      /* a rank; -1: none; STATUS_UNKNOWN_RANK: one without a recorder */
    bool late;                          /* another rank waits for it */
};

struct status_job {
    const char *address;
    struct status_node *nodes;
    int n_nodes;
    const struct status_node *newest; /* the node whose answer has the newest generation; NULL: no answer */
    struct status_rank *ranks;        /* newest->world_size of them */
    struct report_job report;         /* flight recorders and diagnosis */
    bool stuck;                       /* a rank has been waiting for another */
};

/* gather.c: asks and waits for the answers. Without launchers n_nodes is 0. Free it in any case. */
mst_status status_ask(mst_store *store, struct status_job *job);
void status_free(struct status_job *job);
/* Reads a value, which the caller frees; an empty one if there is none. */
mst_status status_read_value(mst_store *store, const char *key, struct msi_buf *value);
/* Copies a text without its control characters. */
void status_copy(struct msi_json_text text, char *to, size_t size);

/* ranks.c: reads the ranks from the answers. */
void status_read_ranks(struct status_job *job);
/* "waiting", "stopped", "exited 3", ... in text or elsewhere. */
enum { STATUS_STATE = 32 };
const char *status_state(const struct status_rank *rank, char text[STATUS_STATE]);

/* print.c */
void status_print(const struct status_job *job);
void status_print_json(const struct status_job *job);
void status_print_cards(const struct job_card *cards, int n, bool json);

/* members.c: prints the worlds in the store of a job whose launcher does not answer, or that has none. */
mst_status status_print_worlds(mst_store *store, const char *address, bool json);

#endif
