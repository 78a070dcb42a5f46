/*
 * trace_line.h - parses one line of a trace: an event or a description of the rank. Texts point into the
 * line. Missing numbers are REPORT_UNKNOWN. A number outside its limits or a value of another type makes the
 * line malformed.
 */
#ifndef MUSTER_TOOL_REPORT_TRACE_LINE_H
#define MUSTER_TOOL_REPORT_TRACE_LINE_H

#include "base/json.h"

/* A text is missing if its p is NULL. */
struct report_line {
    struct msi_json_text phase, name, cat, id;
    int64_t tid, ts, dur; /* ts and dur in ns */
    /* of args */
    struct msi_json_text call, dtype, op, backend, algorithm, site, function, dir, status, host, program,
        title, group_id;
    int64_t group, seq, bytes, peer, tag, queued, waited, device; /* the last three in ns */
    int64_t version, rank, size, pid, unix_ns, error_ns, dropped, end;
    struct msi_str ranks; /* an array */
};

/*
 * Parses a line without its newline. A "[" may precede the event, a "," or "]" may follow it; a line of
 * brackets alone has no phase. False: the line is malformed.
 */
bool report_parse_line(struct msi_str text, struct report_line *line);

/* A line without the blanks, brackets and the comma around its event. */
struct msi_str report_trim_line(struct msi_str text);

/* Parses an array of exactly n numbers from 0 to most. */
bool report_parse_numbers(struct msi_str array, int n, int32_t most, int32_t *numbers);

#endif
