/*
 * agent_argv.h - what the agents of a job are told: the words of their command lines, and the variables that their shells
 * set first. Most of it is the same for all of them and is put together once.
 */
#ifndef MUSTER_TOOL_RUN_SSH_AGENT_ARGV_H
#define MUSTER_TOOL_RUN_SSH_AGENT_ARGV_H

#include "cli/text.h"
#include "run/run_options.h"

#include <limits.h>

/* Where the agents find the store, and what they run. */
struct agent_job {
    const char *address;
    int port;
    const char *run_id;
    const char *program; /* as found on this machine, NULL: it is not there; then operands[0] */
    char **operands;     /* the program and its arguments, NULL at the end */
};

/* Strings that belong to the list, NULL at the end. */
struct agent_list {
    char **items;
    size_t n;
    bool failed; /* memory ran out */
};

struct agent_words {
    const struct agent_job *job;
    int nodes;
    struct agent_list common; /* of all command lines */
    struct agent_list set;    /* NAME=VALUE */
    char directory[PATH_MAX], muster[PATH_MAX];
};

/* For a job of so many nodes. job is borrowed. 0, or -1 with why set; then nothing is held. */
int agent_words_open(struct agent_words *words, const struct run_options *options,
                     const struct agent_job *job, int nodes, char *why, size_t why_size);
void agent_words_close(struct agent_words *words);

/* Adds the script of the agent that is that node, with -n nproc. 0, or -1 without memory. */
int agent_words_write(const struct agent_words *words, int node, const char *nproc, struct msi_buf *script);

#endif
