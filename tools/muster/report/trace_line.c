/* trace_line.c - see trace_line.h. */
#include "report/trace_line.h"
#include "report/fields.h"
#include "report/report.h"

#define WHOLE_MOST  9007199254740992LL /* 2^53: JavaScript has exact integers up to here */
#define TIME_LIMITS -REPORT_TIME_MOST, REPORT_TIME_MOST

#define FIELD(key, type, member, ...)                                                                        \
    REPORT_FIELD(key, type, offsetof(struct report_line, member), __VA_ARGS__)

static const struct report_field args_fields[] = {
    FIELD("call", TEXT, call, 0, 0),
    FIELD("group", NUMBER, group, 0, WHOLE_MOST),
    FIELD("seq", NUMBER, seq, 0, WHOLE_MOST),
    FIELD("bytes", NUMBER, bytes, 0, WHOLE_MOST),
    FIELD("dtype", TEXT, dtype, 0, 0),
    FIELD("op", TEXT, op, 0, 0),
    FIELD("backend", TEXT, backend, 0, 0),
    FIELD("algorithm", TEXT, algorithm, 0, 0),
    FIELD("site", TEXT, site, 0, 0),
    FIELD("function", TEXT, function, 0, 0),
    FIELD("queued", US, queued, TIME_LIMITS),
    FIELD("waited", US, waited, TIME_LIMITS),
    FIELD("device", US, device, TIME_LIMITS),
    FIELD("peer", NUMBER, peer, -INT32_MAX, INT32_MAX),
    FIELD("tag", NUMBER, tag, -INT32_MAX, INT32_MAX),
    FIELD("dir", TEXT, dir, 0, 0),
    FIELD("status", TEXT, status, 0, 0),
    FIELD("name", TEXT, title, 0, 0),
    FIELD("id", TEXT, group_id, 0, 0),
    FIELD("version", NUMBER, version, 0, WHOLE_MOST),
    FIELD("rank", NUMBER, rank, 0, WHOLE_MOST),
    FIELD("size", NUMBER, size, 0, WHOLE_MOST),
    FIELD("host", TEXT, host, 0, 0),
    FIELD("pid", NUMBER, pid, 0, WHOLE_MOST),
    FIELD("program", TEXT, program, 0, 0),
    FIELD("unix_ns", NUMBER, unix_ns, INT64_MIN, INT64_MAX),
    FIELD("ranks", RAW, ranks, 0, 0),
    FIELD("ts", US, end, TIME_LIMITS),
    FIELD("error_ns", NUMBER, error_ns, 0, WHOLE_MOST),
    FIELD("dropped", NUMBER, dropped, 0, WHOLE_MOST),
    {0},
};

static const struct report_field event_fields[] = {
    FIELD("ph", TEXT, phase, 0, 0),
    FIELD("name", TEXT, name, 0, 0),
    FIELD("tid", NUMBER, tid, 0, WHOLE_MOST),
    FIELD("ts", US, ts, TIME_LIMITS),
    FIELD("cat", TEXT, cat, 0, 0),
    FIELD("dur", US, dur, TIME_LIMITS),
    FIELD("id", TEXT, id, 0, 0),
    {REPORT_KEY("args", OBJECT), 0, 0, 0, args_fields, NULL},
    {0},
};

static void set_unknown(const struct report_field *fields, struct report_line *line) {
    for (const struct report_field *f = fields; f->key; f++)
        if (f->type == REPORT_NUMBER || f->type == REPORT_US)
            *(int64_t *)(void *)((char *)line + f->offset) = REPORT_UNKNOWN;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

struct msi_str report_trim_line(struct msi_str text) {
    const char *at = text.p, *end = at + text.n;
    while (at < end && (is_blank(*at) || *at == '[')) at++;
    while (at < end && (is_blank(end[-1]) || end[-1] == ']' || end[-1] == ',')) end--;
    return msi_str(at, (size_t)(end - at));
}

bool report_parse_line(struct msi_str text, struct report_line *line) {
    static struct report_line empty;
    if (empty.tid != REPORT_UNKNOWN) {
        set_unknown(event_fields, &empty);
        set_unknown(args_fields, &empty);
    }
    *line = empty;
    text = report_trim_line(text);
    if (text.n == 0) return true;
    struct msi_json in = msi_json_of(text.p, text.n);
    report_read_object(&in, event_fields, line);
    return msi_json_end(&in);
}

bool report_parse_numbers(struct msi_str array, int n, int32_t most, int32_t *numbers) {
    struct msi_json in = msi_json_of(array.p, array.n);
    int64_t number = 0;
    int found = 0;
    if (!msi_json_array(&in)) return false;
    while (found <= n && msi_json_item(&in) && report_read_number(&in, 0, most, &number))
        if (found++ < n) numbers[found - 1] = (int32_t)number;
    return msi_json_end(&in) && found == n;
}
