/* survivors.c - see survivors.h. */
#include "run/failure/survivors.h"

#include <stdio.h>

void survivors_begin(struct survivors *s, int size) {
    s->size = s->running = size;
    s->done = s->waiting = s->deaths = 0;
}

static int most_replacements(const struct survivors *s) {
    return s->options.replace == 0 ? s->size : s->options.replace;
}

static void add_death(struct survivors *s, const char *text) {
    if (s->deaths < SURVIVORS_LISTED) snprintf(s->list[s->deaths], SURVIVORS_TEXT, "%s", text);
    s->deaths++;
}

static enum survivors_verdict verdict_of(const struct survivors *s) {
    return s->running + s->done < s->options.min ? SURVIVORS_FAIL : SURVIVORS_GO_ON;
}

/* Takes ranks that do not run any more out of the counts. */
static void remove_ranks(struct survivors *s, int ranks, int waiting) {
    s->running -= ranks < s->running ? ranks : s->running;
    s->waiting -= waiting < s->waiting ? waiting : s->waiting;
}

enum survivors_verdict survivors_handle(struct survivors *s, enum rank_event event, bool waited,
                                        const char *text) {
    remove_ranks(s, event != RANK_JOINED, waited);
    s->done += event == RANK_DONE;
    if (event != RANK_DIED) return verdict_of(s);
    add_death(s, text);
    /* Without another rank there is no world to join. */
    if (s->running == 0 || s->replaced >= most_replacements(s)) return verdict_of(s);
    s->running++;
    if (verdict_of(s) == SURVIVORS_FAIL) return SURVIVORS_FAIL;
    s->waiting++;
    s->replaced++;
    return SURVIVORS_REPLACE;
}

enum survivors_verdict survivors_node_lost(struct survivors *s, int ranks, int waiting, const char *text) {
    remove_ranks(s, ranks, waiting);
    add_death(s, text);
    return verdict_of(s);
}

void survivors_describe(const struct survivors *s, enum survivors_verdict verdict, const char *text,
                        char out[SURVIVORS_TEXT]) {
    int left = s->running + s->done;
    if (verdict == SURVIVORS_REPLACE)
        snprintf(out, SURVIVORS_TEXT, "%.600s; starting replacement %d of at most %d", text, s->replaced,
                 most_replacements(s));
    else if (verdict == SURVIVORS_GO_ON)
        snprintf(out, SURVIVORS_TEXT, "%.600s; continuing with %d of %d ranks", text, left, s->size);
    else
        snprintf(out, SURVIVORS_TEXT, "%.600s; %d of %d ranks left, but --survive needs %d", text, left,
                 s->size, s->options.min);
}

bool survivors_all_wait(const struct survivors *s) {
    return s->running > 0 && s->running == s->waiting;
}

void survivors_summarize(const struct survivors *s, void (*say)(void *arg, const char *line), void *arg) {
    char line[SURVIVORS_TEXT];
    if (s->deaths == 0) return;
    snprintf(line, sizeof line, "%d of %d ranks ended with code 0; these died:", s->done, s->size);
    say(arg, line);
    for (int i = 0; i < s->deaths && i < SURVIVORS_LISTED; i++) {
        snprintf(line, sizeof line, "  %.700s", s->list[i]);
        say(arg, line);
    }
    if (s->deaths <= SURVIVORS_LISTED) return;
    snprintf(line, sizeof line, "  and %d more", s->deaths - SURVIVORS_LISTED);
    say(arg, line);
}
