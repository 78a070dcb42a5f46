/* trace_line.c - see trace_line.h. */
#include "report/trace_line.h"
#include "report/report.h"

#include <math.h>

#define WHOLE_MOST 9007199254740992LL /* 2^53: JavaScript has exact integers up to here */

enum field_kind { TEXT, WHOLE, COUNT, LONG, MICROSECONDS, ARRAY };
enum level { TOP, ARGS };

struct field {
    const char *key;
    uint8_t len, level, kind;
    uint16_t offset;
};

#define FIELD(level, key, member, kind)                                                                      \
    { key, sizeof key - 1, level, kind, offsetof(struct report_line, member) }

/* In the order in which traces have them, because the search for a key starts after the previous one. */
static const struct field fields[] = {
    FIELD(TOP, "ph", phase, TEXT),
    FIELD(TOP, "name", name, TEXT),
    FIELD(TOP, "tid", tid, COUNT),
    FIELD(TOP, "ts", ts, MICROSECONDS),
    FIELD(TOP, "cat", cat, TEXT),
    FIELD(TOP, "dur", dur, MICROSECONDS),
    FIELD(TOP, "id", id, TEXT),
    FIELD(ARGS, "call", call, TEXT),
    FIELD(ARGS, "group", group, COUNT),
    FIELD(ARGS, "seq", seq, COUNT),
    FIELD(ARGS, "bytes", bytes, COUNT),
    FIELD(ARGS, "dtype", dtype, TEXT),
    FIELD(ARGS, "op", op, TEXT),
    FIELD(ARGS, "backend", backend, TEXT),
    FIELD(ARGS, "algorithm", algorithm, TEXT),
    FIELD(ARGS, "site", site, TEXT),
    FIELD(ARGS, "function", function, TEXT),
    FIELD(ARGS, "queued", queued, MICROSECONDS),
    FIELD(ARGS, "waited", waited, MICROSECONDS),
    FIELD(ARGS, "device", device, MICROSECONDS),
    FIELD(ARGS, "peer", peer, WHOLE),
    FIELD(ARGS, "tag", tag, WHOLE),
    FIELD(ARGS, "dir", dir, TEXT),
    FIELD(ARGS, "status", status, TEXT),
    FIELD(ARGS, "name", title, TEXT),
    FIELD(ARGS, "id", group_id, TEXT),
    FIELD(ARGS, "version", version, COUNT),
    FIELD(ARGS, "rank", rank, COUNT),
    FIELD(ARGS, "size", size, COUNT),
    FIELD(ARGS, "host", host, TEXT),
    FIELD(ARGS, "pid", pid, COUNT),
    FIELD(ARGS, "program", program, TEXT),
    FIELD(ARGS, "unix_ns", unix_ns, LONG),
    FIELD(ARGS, "ranks", ranks, ARRAY),
    FIELD(ARGS, "ts", end, MICROSECONDS),
    FIELD(ARGS, "error_ns", error_ns, COUNT),
    FIELD(ARGS, "dropped", dropped, COUNT),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static bool read_time(struct msi_json *in, int64_t *ns) {
    double us;
    if (!msi_json_double(in, &us)) return false;
    if (!(fabs(us) <= (double)REPORT_TIME_MOST / 1000))
        return msi_json_fail(in, "a time of less than 104 days");
    *ns = (int64_t)llround(us * 1000);
    return true;
}

static bool read_whole(struct msi_json *in, int64_t least, int64_t most, int64_t *value) {
    int64_t number;
    if (!msi_json_int(in, &number)) return false;
    if (number < least || number > most) return msi_json_fail(in, "a number within its limits");
    *value = number;
    return true;
}

static bool read_field(struct msi_json *in, const struct field *field, struct report_line *line) {
    void *to = (char *)line + field->offset;
    switch ((enum field_kind)field->kind) {
    case TEXT:
        return msi_json_string(in, to);
    case ARRAY:
        return msi_json_raw(in, to);
    case MICROSECONDS:
        return read_time(in, to);
    case LONG:
        return msi_json_int(in, to);
    case COUNT:
        return read_whole(in, 0, WHOLE_MOST, to);
    case WHOLE:
        return read_whole(in, -INT32_MAX, INT32_MAX, to);
    }
    return false;
}

static const struct field *find_field(struct msi_json_text key, enum level level, int *next) {
    for (int i = 0; i < N_FIELDS; i++) {
        int at = *next + i < N_FIELDS ? *next + i : *next + i - N_FIELDS;
        const struct field *f = &fields[at];
        if (f->level != level || f->len != key.n || key.escaped || memcmp(f->key, key.p, key.n) != 0)
            continue;
        *next = at + 1 < N_FIELDS ? at + 1 : 0;
        return f;
    }
    return NULL;
}

/* Reads the event, or its "args". */
static void read_object(struct msi_json *in, struct report_line *line, enum level level, int *next) {
    struct msi_json_text key;
    if (!msi_json_object(in)) return;
    while (msi_json_key(in, &key)) {
        const struct field *field = find_field(key, level, next);
        if (field)
            read_field(in, field, line);
        else if (level == TOP && msi_json_is(key, "args"))
            read_object(in, line, ARGS, next);
        else
            msi_json_skip(in);
    }
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

void report_trim_line(const char **text, size_t *len) {
    const char *at = *text, *end = at + *len;
    while (at < end && (is_blank(*at) || *at == '[')) at++;
    while (at < end && (is_blank(end[-1]) || end[-1] == ']' || end[-1] == ',')) end--;
    *text = at;
    *len = (size_t)(end - at);
}

/* A line without any field: numbers are REPORT_UNKNOWN. */
static const struct report_line *empty_line(void) {
    static struct report_line empty;
    if (empty.tid == REPORT_UNKNOWN) return &empty; /* made before */
    for (int i = 0; i < N_FIELDS; i++) {
        int64_t *number = (int64_t *)(void *)((char *)&empty + fields[i].offset);
        if (fields[i].kind != TEXT && fields[i].kind != ARRAY) *number = REPORT_UNKNOWN;
    }
    return &empty;
}

bool report_parse_line(const char *text, size_t len, struct report_line *line) {
    int next = 0;
    *line = *empty_line();
    report_trim_line(&text, &len);
    if (len == 0) return true;
    struct msi_json in = msi_json_of(text, len);
    read_object(&in, line, TOP, &next);
    return msi_json_end(&in);
}

bool report_parse_numbers(struct msi_str array, int n, int32_t most, int32_t *numbers) {
    struct msi_json in = msi_json_of(array.p, array.n);
    int64_t number = 0;
    int found = 0;
    if (!msi_json_array(&in)) return false;
    while (found <= n && msi_json_item(&in) && read_whole(&in, 0, most, &number))
        if (found++ < n) numbers[found - 1] = (int32_t)number;
    return msi_json_end(&in) && found == n;
}
