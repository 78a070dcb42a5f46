/*
 * agent_script.h - the shell script that starts an agent, a launcher on another host. Pure.
 *
 * The script goes through ssh's standard input. ssh's command line holds only agent_script_command, so no
 * login shell, csh and fish included, parses the user's words, no process list shows the values of variables,
 * and the length of a command line sets no limit. The agent's ranks read what follows the script.
 */
#ifndef MUSTER_TOOL_RUN_SSH_AGENT_SCRIPT_H
#define MUSTER_TOOL_RUN_SSH_AGENT_SCRIPT_H

#include "cli/text.h"

/* The shell prints this line just before it becomes the agent; earlier output is not the agent's. */
#define AGENT_MARK "muster-agent-begins-here"

struct agent_script {
    const char *directory;    /* absolute */
    const char *muster;       /* a path, or a name in the other host's PATH */
    const char *secret;       /* of the job, on descriptor 3 of the agent; "": none */
    struct msi_str exports;   /* written by agent_script_add_export */
    struct msi_str arguments; /* of muster, written by agent_script_add_argument */
};

/* Can a shell set a variable of this name, which ends at '=' or NUL? */
bool agent_script_can_set(const char *name);

/* name ends at '=' or NUL and has passed agent_script_can_set. */
void agent_script_add_export(struct msi_buf *exports, const char *name, const char *value);
void agent_script_add_argument(struct msi_buf *arguments, const char *argument);

/* Appends the script to text. */
void agent_script_write(const struct agent_script *script, struct msi_buf *text);

/* Appends the command that reads a script of len bytes from standard input and runs it. */
void agent_script_command(size_t len, struct msi_buf *text);

#endif
