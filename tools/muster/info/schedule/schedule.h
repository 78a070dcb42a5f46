/* schedule.h - "muster info --schedule": when the stages of a pipeline do what, as text or as a picture. */
#ifndef MUSTER_TOOL_INFO_SCHEDULE_SCHEDULE_H
#define MUSTER_TOOL_INFO_SCHEDULE_SCHEDULE_H

#include "base/buf.h"
#include "cli/options.h"
#include "pipeline/schedule/check.h"
#include "pipeline/schedule/text.h"
#include "pipeline/schedule/time.h"

#include <stdio.h>

/* 0 and NULL: not given. */
struct schedule_options {
    const char *kind; /* NULL: --schedule was not given */
    const char *svg;
    long stages, micros, chunks, batches, tokens, inner, backward;
    long stage; /* -1: not given */
    bool json;
};

/* Prints the schedule and returns the exit status. */
int info_schedule(const struct opt_command *command, const struct schedule_options *wanted);

/* A schedule with the time of each action, in units of a forward. */
struct schedule_view {
    struct msi_schedule schedule;
    struct msi_timing timing;
    int backward; /* units of time that a backward takes */
};

/* The colours of cells: two for each direction, which alternate between chunks, and one for prompts. */
enum { SCHEDULE_FORWARD, SCHEDULE_BACKWARD = 2, SCHEDULE_PROMPT = 4 };

/* A compute action with its time; its label is "F3" or "B3", with chunks "F3a", streaming "P3" or "T3". */
struct schedule_cell {
    int colour; /* SCHEDULE_FORWARD, or one more for every second chunk, … */
    long start, end;
    char text[24];
};

/* Finds the next compute at or after *at in a stage and moves *at behind it; false if none is left. */
bool schedule_next_cell(const struct schedule_view *view, int stage, uint32_t *at,
                        struct schedule_cell *cell);

/* Append "1f1b: 4 stages, 8 micro-batches" and "bubble 27.3 % = (p-1)/(m+p-1) = 3/11". */
void schedule_add_title(const struct schedule_view *view, struct msi_buf *to);
void schedule_add_bubble(const struct schedule_view *view, struct msi_buf *to);

/* Prints the chart. */
void schedule_print_chart(const struct schedule_view *view);
/* Prints all of it; returns the exit status. */
int schedule_print_json(const struct schedule_view *view);
void schedule_write_svg(const struct schedule_view *view, FILE *out);

#endif
