/*
 * remote.h - the agents on other hosts: each is a launcher that was started over ssh and runs the ranks of
 * its host.
 *
 *   WAITING --at most START_AT_ONCE--> STARTING --its mark was read--> SERVING --ssh exited--> ENDED
 *                                         +------ssh exited, or timeout----------------------> ENDED
 *
 *  1. ssh runs without a terminal and in batch mode, so it cannot prompt. It dies with the launcher.
 *  2. The output of ssh is kept while an agent is starting; if the start fails, its last line is the reason.
 *     After the mark, lines go to the launcher's output.
 *  3. The script tells the agent what to do; all later messages go through the store.
 *  4. All of it runs on the loop's thread; the ssh processes die when that thread exits.
 */
#ifndef MUSTER_TOOL_RUN_SSH_REMOTE_H
#define MUSTER_TOOL_RUN_SSH_REMOTE_H

#include "cli/text.h"
#include "run/output/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <uv.h>

enum { REMOTE_WHY_MAX = 512, REMOTE_EARLY_MAX = 4096 };

enum remote_state { REMOTE_WAITING, REMOTE_STARTING, REMOTE_SERVING, REMOTE_ENDED };

/* An agent to start. */
struct remote_agent {
    const char *host; /* as ssh takes it */
    struct msi_buf script;
    bool reads_stdin; /* its first rank reads the launcher's standard input */
};

struct remote_host {
    struct remote *all;
    int index;
    const char *name;
    enum remote_state state;
    bool served;    /* it has been SERVING */
    int exec_error; /* errno, if ssh could not be executed */
    int code;       /* once ENDED: exit code of ssh, which is 255 or the agent's; -1: a signal ended ssh */
    char why[REMOTE_WHY_MAX]; /* once ENDED without SERVING: the reason, as one line */
    pid_t pid, feeder;        /* 0: none */
    uv_timer_t timeout;
    uv_poll_t polls[OUTPUT_STREAMS]; /* while STARTING */
    int fds[OUTPUT_STREAMS];         /* -1: handed to the output, or closed */
    char early[OUTPUT_STREAMS][REMOTE_EARLY_MAX];
    size_t early_len[OUTPUT_STREAMS];
};

struct remote_options {
    uv_loop_t *loop;
    struct output *output; /* has a source for each agent */
    struct remote_agent *agents;
    int n;
    const char *ssh;     /* a shell command to use in place of ssh; NULL: program */
    char *program;       /* the path of ssh */
    _Atomic int *groups; /* as in struct reaper, one for each */
    const struct rlimit *files;
    void (*on_end)(const struct remote_host *host, void *arg);
    void *arg;
};

struct remote {
    struct remote_options options;
    struct remote_host *hosts;
    int next;     /* the first that is WAITING */
    int starting; /* how many are STARTING */
    int left;     /* how many are not ENDED */
    int exec_errors[2];
    uv_signal_t child_signal;
    bool watching; /* child_signal is open */
};

/*
 * remote_ssh.c: starts ssh for an agent with out and err as its standard output and error. Sets the host's
 * pid and feeder, which the caller ends. 0, or a negative errno.
 */
int remote_ssh_start(struct remote_host *host, int error_fd, int out, int err);

/*
 * remote_local.c: is it localhost, a loopback address, or this machine's name or address? False for
 * user@host.
 */
bool remote_is_here(const char *name);

/*
 * Starts the agents. options is copied, what it points to is borrowed. 0, or a negative errno and no process
 * runs. The loop calls on_end later for each agent that was started.
 */
int remote_start(struct remote *remote, const struct remote_options *options);

/* Starts no more agents; kills the ssh of those that are STARTING or, if wanted, SERVING; on_end follows. */
void remote_kill(struct remote *remote, bool serving);

/*
 * Kills, reaps and closes. Run the loop until all handles are closed between remote_end and remote_free. Both
 * accept a zeroed struct.
 */
void remote_end(struct remote *remote);
void remote_free(struct remote *remote);

#endif
