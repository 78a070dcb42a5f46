/*
 * remote.h - the agents on other hosts: each is a muster that was started over ssh and serves the ranks of its host.
 *
 *   WAITING --at most START_AT_ONCE at a time--> STARTING --its mark came--> SERVING --ssh ended--> ENDED
 *                                                   +-------ssh ended, or too long----------------> ENDED
 *
 *  1. ssh runs without a terminal and in batch mode: it cannot ask anything. It dies with the launcher.
 *  2. While an agent is starting, what ssh prints is kept: if it comes to nothing, its last line is the reason. From the
 *     mark on, lines go to the launcher's output as they come.
 *  3. What a host has to do is in its script; who talks to the agents from then on is the store.
 *  4. All of it runs on the loop's thread, and that is the thread the ssh processes' lives depend on.
 */
#ifndef MUSTER_TOOL_RUN_SSH_REMOTE_H
#define MUSTER_TOOL_RUN_SSH_REMOTE_H

#include "cli/text.h"
#include "run/output/output.h"
#include "run/ranks/reaper.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <uv.h>

enum { REMOTE_WHY_MAX = 512, REMOTE_EARLY_MAX = 4096 };

enum remote_state { REMOTE_WAITING, REMOTE_STARTING, REMOTE_SERVING, REMOTE_ENDED };

/* What to start where. */
struct remote_agent {
    const char *host; /* as ssh takes it */
    struct msi_buf script;
    bool reads_stdin; /* its first rank gets what the launcher is given */
};

struct remote_host {
    struct remote *all;
    int index;
    const char *name;
    enum remote_state state;
    bool served;    /* it got as far as SERVING */
    int exec_error; /* errno, if ssh could not even be run */
    int code; /* once ENDED: exit code of ssh, which is the agent's but for 255; -1 if a signal ended it */
    char why[REMOTE_WHY_MAX]; /* once ENDED without having served: the reason, as one line */
    pid_t pid, feeder;        /* 0: none */
    uv_timer_t patience;
    uv_poll_t polls[OUTPUT_STREAMS]; /* while STARTING */
    int fds[OUTPUT_STREAMS];         /* -1: the output's, or closed */
    char early[OUTPUT_STREAMS][REMOTE_EARLY_MAX];
    size_t early_len[OUTPUT_STREAMS];
};

struct remote_options {
    uv_loop_t *loop;
    struct output *output; /* has the streams of each agent */
    const struct remote_agent *agents;
    int n;
    const char *ssh;           /* the command in place of ssh, as a shell reads it; NULL: program */
    const char *program;       /* the path of ssh */
    bool raw;                  /* their output is not to be gathered by lines */
    struct reaper_slot *slots; /* one for each */
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
    int closing; /* handles that the loop has yet to let go of */
    uv_signal_t child_signal;
    bool open, watching;
};

/* Does the name mean this machine? True of localhost, loopback and its own name and addresses; never of user@host. */
bool remote_is_here(const char *name);

/*
 * Starts the agents. options is copied, what it points to is borrowed. 0, or a negative errno with nothing left running.
 * on_end is called for each agent that was begun, not before this has returned.
 */
int remote_start(struct remote *remote, const struct remote_options *options);

/* Starts no more and kills the ssh of those that are starting, or of all; on_end follows. */
void remote_cancel(struct remote *remote);
void remote_kill(struct remote *remote);

/*
 * Kills, reaps and closes. Run the loop until closing is 0 between remote_end and remote_free. Fine on a zeroed struct,
 * and a second time.
 */
void remote_end(struct remote *remote);
void remote_free(struct remote *remote);

#endif
