/*
 * agent_script.h - what a shell on another host is to do in order to become an agent.
 *
 * The script goes through ssh's standard input, and ssh's command line holds only agent_command: no login shell, csh or
 * fish included, gets to read anything of the user's, no list of processes shows the values of variables, and no limit
 * on the length of a command line applies. The agent's ranks read what follows the script.
 */
#ifndef MUSTER_TOOL_RUN_SSH_AGENT_SCRIPT_H
#define MUSTER_TOOL_RUN_SSH_AGENT_SCRIPT_H

#include "cli/text.h"

/* What the agent's shell prints, as a line of its own, once all is well: what comes before is not the agent's. */
#define AGENT_MARK "muster-agent-begins-here"

struct agent_script {
    const char *directory;    /* absolute */
    const char *muster;       /* a path, or a name to be found in PATH over there */
    const char *const *set;   /* NAME=VALUE to be set; NULL at the end */
    const char *const *words; /* the arguments of muster; NULL at the end */
};

/* May a variable of this name, which ends at '=' or NUL, be set by a shell? */
bool agent_script_can_set(const char *name);

/* Adds the script to text. Every name in set passed agent_script_can_set. */
void agent_script_write(const struct agent_script *script, struct msi_buf *text);

/* Adds the command that reads a script of len bytes from standard input and becomes it. */
void agent_script_command(size_t len, struct msi_buf *text);

#endif
