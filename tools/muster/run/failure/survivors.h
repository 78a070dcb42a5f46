/*
 * survivors.h - --survive and --replace: counts the ranks of a generation that run, are done or have died,
 * and decides what follows from a death. A single node has one for its ranks, a coordinator for those of all
 * nodes. No I/O.
 */
#ifndef MUSTER_TOOL_RUN_FAILURE_SURVIVORS_H
#define MUSTER_TOOL_RUN_FAILURE_SURVIVORS_H

#include <stdbool.h>

enum { SURVIVORS_LISTED = 16, SURVIVORS_TEXT = 768 };

struct survive_options {
    int min;     /* ranks that must be left; 0: no --survive, the first failure ends the job */
    int replace; /* replacements in all generations; 0: as many as the job has ranks; -1: none */
};

/* What a rank did, of itself. */
enum rank_event {
    RANK_DONE,       /* it exited with code 0 */
    RANK_DIED,       /* it ended otherwise */
    RANK_UNADMITTED, /* a replacement that waited to join when no rank was left to admit it has ended */
    RANK_JOINED,     /* a replacement has joined the world */
};

enum survivors_verdict { SURVIVORS_GO_ON, SURVIVORS_REPLACE, SURVIVORS_FAIL };

struct survivors {
    struct survive_options options; /* set by the owner */
    /* Private: */
    int size, running, done;
    int waiting;  /* of those that run: replacements that have not joined the world */
    int replaced; /* in all generations */
    int deaths;
    char list[SURVIVORS_LISTED][SURVIVORS_TEXT];
};

/* A generation of size ranks starts. */
void survivors_begin(struct survivors *survivors, int size);

/*
 * An event of a rank; waited: it was a replacement that had not joined the world. text says which rank and
 * how it ended, in one line. After RANK_DONE and RANK_JOINED the others go on.
 */
enum survivors_verdict survivors_handle(struct survivors *survivors, enum rank_event event, bool waited,
                                        const char *text);

/* A node was lost with its ranks, some of which were waiting. They cannot be replaced. */
enum survivors_verdict survivors_node_lost(struct survivors *survivors, int ranks, int waiting,
                                           const char *text);

/* Writes the text and what follows from it. */
void survivors_describe(const struct survivors *survivors, enum survivors_verdict verdict, const char *text,
                        char out[SURVIVORS_TEXT]);

/* Do only replacements run that have not joined the world? Then no rank can admit them. */
bool survivors_all_wait(const struct survivors *survivors);

/* Calls say for each line about the ranks that died, if any did. */
void survivors_summarize(const struct survivors *survivors, void (*say)(void *arg, const char *line),
                         void *arg);

#endif
