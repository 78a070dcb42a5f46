/*
 * progress.h - watches, through the states, how the ranks of this host come together: says who is missing when a start
 * takes long, and notices that a rank has ended which others wait for in vain.
 *
 * A job that does not use muster has nothing on its states, and nothing is said. All of it runs on the loop's thread.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_PROGRESS_H
#define MUSTER_TOOL_RUN_RANKS_PROGRESS_H

#include "run/output/output.h"
#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

enum { PROGRESS_WHY = 512 };

struct progress_options {
    uv_loop_t *loop;
    const struct states *states;
    const struct workers *workers;
    struct output *output;
    bool may_redraw; /* nobody but the output writes to the terminal */
    /* The worker exited with 0 without joining the world that others wait in; why says so. */
    void (*on_absent)(void *arg, const struct worker *worker, const char *why);
    void *arg;
};

struct progress {
    struct progress_options options;
    uv_timer_t timer;
    bool terminal;
    uint64_t since;    /* the loop's time when ranks were first seen to wait for others; 0: none does */
    uint64_t next_say; /* milliseconds after since */
    uint64_t pause;    /* until the next look */
    int absent;        /* the local rank that was found absent at the last look; -1: none */
    bool shown;        /* a line that is to be taken back */
};

void progress_init(struct progress *progress, const struct progress_options *options);
/* Run the loop once more before its memory goes. */
void progress_close(struct progress *progress);

/* The ranks were started. */
void progress_start(struct progress *progress);
/* One has exited. */
void progress_look_soon(struct progress *progress);
/* They were asked to end, or have ended. */
void progress_stop(struct progress *progress);

#endif
