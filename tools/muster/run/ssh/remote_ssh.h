/* remote_ssh.h - one ssh process: its words, its standard input, its start. */
#ifndef MUSTER_TOOL_RUN_SSH_REMOTE_SSH_H
#define MUSTER_TOOL_RUN_SSH_REMOTE_SSH_H

#include "run/ranks/spawn.h"
#include "run/ssh/remote.h"

enum { REMOTE_SSH_WORDS = 24 };

/*
 * Starts ssh for an agent with out and err as its standard output and error; pid and, where there is one, *feeder are
 * then the caller's to end. 0, or a negative errno.
 */
int remote_ssh_start(const struct remote_options *options, int index, int error_fd, int out, int err,
                     pid_t *pid, pid_t *feeder);

#endif
