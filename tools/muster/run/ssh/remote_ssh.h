/* remote_ssh.h - one ssh process: its arguments, its standard input, its start. */
#ifndef MUSTER_TOOL_RUN_SSH_REMOTE_SSH_H
#define MUSTER_TOOL_RUN_SSH_REMOTE_SSH_H

#include "run/ssh/remote.h"

/*
 * Starts ssh for an agent with out and err as its standard output and error. Sets the host's pid and feeder,
 * which the caller ends. 0, or a negative errno.
 */
int remote_ssh_start(struct remote_host *host, int error_fd, int out, int err);

#endif
