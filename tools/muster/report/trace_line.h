/*
 * trace_line.h - one line of a trace: an event, or what describes the rank. Texts point into the line. Numbers that are missing are
 * PAGE_UNKNOWN; those beyond all sense, and values of another type, make the line a malformed one.
 */
#ifndef MUSTER_TOOL_REPORT_TRACE_LINE_H
#define MUSTER_TOOL_REPORT_TRACE_LINE_H

#include "base/json.h"

/* p NULL: it is missing. */
struct page_line {
    struct msi_json_text phase, name, cat, id;
    int64_t tid, ts, dur; /* ts and dur in ns */
    /* of args */
    struct msi_json_text call, dtype, op, backend, algorithm, site, function, dir, status, host, program,
        title, group_id;
    int64_t group, seq, bytes, peer, tag, queued, waited, device; /* the last three in ns */
    int64_t version, rank, size, pid, unix_ns, error_ns, dropped, end;
    struct msi_str ranks; /* an array */
};

/* Reads a line without its newline; a "[" before and a "," or "]" behind are allowed. False: it is malformed. A line with nothing but
 * brackets is fine and has no phase. */
bool page_line_read(const char *text, size_t len, struct page_line *line);

/* Takes off what a line has around its event: blanks, brackets, the comma. */
void page_line_trim(const char **text, size_t *len);

/* Reads an array of exactly n numbers from 0 to most. */
bool page_line_numbers(struct msi_str array, int n, int32_t most, int32_t *numbers);

#endif
