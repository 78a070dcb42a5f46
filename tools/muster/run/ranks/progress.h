/*
 * progress.h - watches, through their states, how the ranks of this host join their world. It shows which
 * ranks are missing when that takes long, and detects a rank that ended without joining while others wait for
 * it.
 *
 * Ranks that do not use muster have empty states; then nothing is shown. The loop's thread runs it.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_PROGRESS_H
#define MUSTER_TOOL_RUN_RANKS_PROGRESS_H

#include "run/output/output.h"
#include "run/ranks/rank_states.h"
#include "run/ranks/workers.h"

enum { PROGRESS_WHY = 512 }; /* bytes for the text of on_absent */

struct progress {
    /* Set by the owner: */
    uv_loop_t *loop;
    const struct rank_states *states;
    const struct workers *workers;
    struct output *output;
    bool may_redraw; /* only the output writes to the terminal */
    bool survive;    /* the death of a rank does not end the others */
    /* The worker ended without joining the world in which others wait; why says so. */
    void (*on_absent)(void *arg, const struct worker *worker, const char *why);
    void *arg;
    /* Private: */
    uv_timer_t timer;
    bool terminal;
    uint64_t since;    /* loop time at which a rank was first seen to wait for others; 0: none waits */
    uint64_t next_say; /* milliseconds after since */
    uint64_t pause;    /* until the next look */
    int absent;        /* the local rank that was absent at the last look, or -1 */
    bool shown;        /* a status line is on the terminal */
};

void progress_init(struct progress *progress);
/* Closes the timer. Run the loop once more before freeing the memory. */
void progress_close(struct progress *progress);

/* Begins to watch; call it when the ranks have been started. */
void progress_start(struct progress *progress);
/* Looks again soon; call it when a rank has exited. */
void progress_look_soon(struct progress *progress);
/* Call it when the ranks have been asked to end, or have ended. */
void progress_stop(struct progress *progress);

#endif
