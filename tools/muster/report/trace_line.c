/* trace_line.c - see trace_line.h. */
#include "report/trace_line.h"
#include "report/report.h"

#include <math.h>

#define WHOLE_MOST 9007199254740992LL /* 2^53: all that a page can show exactly */

enum field_kind { TEXT, WHOLE, COUNT, LONG, MICROSECONDS, ARRAY };
enum place { TOP, ARGS };

struct field {
    const char *key;
    uint8_t len, place, kind;
    uint16_t offset;
};

#define FIELD(place, key, member, kind)                                                                      \
    { key, sizeof key - 1, place, kind, offsetof(struct page_line, member) }

/* In the order in which they are written, since each is looked for behind the one before it. */
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
    if (!(fabs(us) <= (double)PAGE_TIME_MOST / 1000))
        return msi_json_fail(in, "a time of less than 104 days");
    *ns = (int64_t)llround(us * 1000);
    return true;
}

static bool read_whole(struct msi_json *in, int64_t least, int64_t most, int64_t *value) {
    int64_t number;

    if (!msi_json_int(in, &number)) return false;
    if (number < least || number > most) return msi_json_fail(in, "a number that makes sense");
    *value = number;
    return true;
}

static bool read_field(struct msi_json *in, const struct field *field, struct page_line *line) {
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

/* The field behind the last one is the likeliest. */
static const struct field *find_field(struct msi_json_text key, enum place place, int *next) {
    for (int i = 0; i < N_FIELDS; i++) {
        int at = *next + i < N_FIELDS ? *next + i : *next + i - N_FIELDS;
        const struct field *f = &fields[at];
        if (f->place != place || f->len != key.n || key.escaped || memcmp(f->key, key.p, key.n) != 0)
            continue;
        *next = at + 1 < N_FIELDS ? at + 1 : 0;
        return f;
    }
    return NULL;
}

static void read_args(struct msi_json *in, struct page_line *line, int *next) {
    struct msi_json_text key;

    if (!msi_json_object(in)) return;
    while (msi_json_key(in, &key)) {
        const struct field *field = find_field(key, ARGS, next);
        if (field != NULL)
            read_field(in, field, line);
        else
            msi_json_skip(in);
    }
}

static void read_event(struct msi_json *in, struct page_line *line) {
    struct msi_json_text key;
    int next = 0;

    if (!msi_json_object(in)) return;
    while (msi_json_key(in, &key)) {
        const struct field *field = find_field(key, TOP, &next);
        if (field != NULL)
            read_field(in, field, line);
        else if (msi_json_is(key, "args"))
            read_args(in, line, &next);
        else
            msi_json_skip(in);
    }
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

void page_line_trim(const char **text, size_t *len) {
    const char *at = *text, *end = at + *len;

    while (at < end && (is_blank(*at) || *at == '[')) at++;
    while (at < end && (is_blank(end[-1]) || end[-1] == ']' || end[-1] == ',')) end--;
    *text = at;
    *len = (size_t)(end - at);
}

bool page_line_read(const char *text, size_t len, struct page_line *line) {
    static const struct page_line nothing = {
        .tid = PAGE_UNKNOWN,
        .ts = PAGE_UNKNOWN,
        .dur = PAGE_UNKNOWN,
        .group = PAGE_UNKNOWN,
        .seq = PAGE_UNKNOWN,
        .bytes = PAGE_UNKNOWN,
        .peer = PAGE_UNKNOWN,
        .tag = PAGE_UNKNOWN,
        .queued = PAGE_UNKNOWN,
        .waited = PAGE_UNKNOWN,
        .device = PAGE_UNKNOWN,
        .version = PAGE_UNKNOWN,
        .rank = PAGE_UNKNOWN,
        .size = PAGE_UNKNOWN,
        .pid = PAGE_UNKNOWN,
        .unix_ns = PAGE_UNKNOWN,
        .error_ns = PAGE_UNKNOWN,
        .dropped = PAGE_UNKNOWN,
        .end = PAGE_UNKNOWN,
    };

    *line = nothing;
    page_line_trim(&text, &len);
    if (len == 0) return true;
    struct msi_json in = msi_json_of(text, len);
    read_event(&in, line);
    return msi_json_end(&in);
}

bool page_line_numbers(struct msi_str array, int n, int32_t most, int32_t *numbers) {
    struct msi_json in = msi_json_of(array.p, array.n);
    int64_t number = 0;
    int found = 0;

    if (!msi_json_array(&in)) return false;
    while (found <= n && msi_json_item(&in) && read_whole(&in, 0, most, &number))
        if (found++ < n) numbers[found - 1] = (int32_t)number;
    return msi_json_end(&in) && found == n;
}
