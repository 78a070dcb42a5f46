/*
 * flight_file.c - reads DIR/rank-R.flight.json, which prof/flight/write.h describes, into a view. See
 * flight.h. A table for each JSON object names its keys and where their values go.
 */
#include "cli/text.h"
#include "report/flight.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "os/file.h"

#include <math.h>
#include <muster/dtype.h>
#include <stdlib.h>

enum { TEXT_MOST = 4096, GROUPS_MOST = 256 };

/* The first two groups of each recording: an unknown one, and one that was destroyed. */
enum { NO_GROUP, GONE_GROUP };

static const char *const states[] = {[MSI_FLIGHT_QUEUED] = "queued",
                                     [MSI_FLIGHT_STARTED] = "started",
                                     [MSI_FLIGHT_DONE] = "done",
                                     [MSI_FLIGHT_FAILED] = "failed"};

/* A file that is being read. */
struct reading {
    struct report_job *job;
    struct flight *flight;
    struct msi_json in;
};

/* The value of a key: a const char *, a bool, an int64_t, or an array whose items a function reads. */
struct field {
    const char *key;
    enum { TEXT, BOOL, NUMBER, MICROSECONDS, ARRAY } type;
    size_t offset;
    int64_t least, most;
    void (*read_item)(struct reading *r, void *object);
};

/* A text without control characters that lives as long as the job. */
static const char *intern(struct report_job *job, char *value) {
    text_clean(value, false);
    uint32_t at = msi_table_add(&job->flights->texts, value, strlen(value));
    if (at != MSI_TABLE_NONE) return msi_table_key(&job->flights->texts, at);
    job->failed = true;
    return "";
}

static void read_text(struct reading *r, const char **to) {
    struct msi_json_text text;
    char value[TEXT_MOST];
    if (msi_json_peek(&r->in) == MSI_JSON_NULL) {
        msi_json_null(&r->in);
        return;
    }
    if (!msi_json_string(&r->in, &text)) return;
    msi_json_copy(text, value, sizeof value);
    *to = intern(r->job, value);
}

static void read_number(struct reading *r, int64_t least, int64_t most, int64_t *value) {
    int64_t number;
    if (!msi_json_int(&r->in, &number)) return;
    if (number < least || number > most)
        msi_json_fail(&r->in, "a number within its limits");
    else
        *value = number;
}

static void read_value(struct reading *r, const struct field *f, void *object) {
    void *to = (char *)object + f->offset;
    double us;
    switch (f->type) {
    case TEXT:
        read_text(r, to);
        break;
    case BOOL:
        msi_json_bool(&r->in, to);
        break;
    case NUMBER:
        read_number(r, f->least, f->most, to);
        break;
    case MICROSECONDS:
        if (msi_json_double(&r->in, &us) && fabs(us) <= 9e15) *(int64_t *)to = (int64_t)llround(us * 1000);
        break;
    case ARRAY:
        if (msi_json_array(&r->in))
            while (msi_json_item(&r->in)) f->read_item(r, object);
        break;
    }
}

/*
 * Reads an object with these fields, of which the last has no key, and skips others. True: nothing is
 * malformed so far.
 */
static bool read_object(struct reading *r, const struct field *fields, void *object) {
    struct msi_json_text key;
    if (msi_json_object(&r->in))
        while (msi_json_key(&r->in, &key)) {
            const struct field *f = fields;
            while (f->key && !msi_json_is(key, f->key)) f++;
            if (f->key)
                read_value(r, f, object);
            else
                msi_json_skip(&r->in);
        }
    return !r->in.expected && !r->job->failed;
}

struct group_fields {
    const char *name, *id;
    int64_t size;
    bool gone;
    uint64_t members[MSI_FLIGHT_WORDS];
};

/* Groups are equal if they have the same id, or without ids the same name, and the same size. */
static int group_index(struct reading *r, const struct group_fields *group) {
    static const uint64_t seeds[2] = {5, 6};
    struct flight *flight = r->flight;
    const char *by = group->id[0] != '\0' ? group->id : group->name;
    uint64_t id = msi_hash(by, strlen(by), seeds);
    if (group->size == 0) return group->gone ? GONE_GROUP : NO_GROUP;
    for (int i = GONE_GROUP + 1; i < flight->view.n_groups; i++)
        if (flight->groups[i].id == id && flight->groups[i].size == group->size) return i;
    if (flight->view.n_groups == GROUPS_MOST ||
        !report_reserve(&r->job->failed, &flight->groups, (size_t)flight->view.n_groups,
                        &flight->groups_capacity, sizeof *flight->groups))
        return NO_GROUP;
    flight->groups[flight->view.n_groups] = (struct msi_flight_group){
        .name = group->name, .id = id, .size = (int)group->size, .gone = group->gone};
    return flight->view.n_groups++;
}

static void read_member(struct reading *r, void *object) {
    struct group_fields *group = object;
    int64_t rank = -1;
    read_number(r, 0, REPORT_RANKS_MOST, &rank);
    if (rank >= 0 && rank < MSI_FLIGHT_MEMBERS) group->members[rank / 64] |= UINT64_C(1) << rank % 64;
}

static void read_group(struct reading *r, void *object) {
    static const struct field fields[] = {
        {"name", TEXT, offsetof(struct group_fields, name), 0, 0, NULL},
        {"id", TEXT, offsetof(struct group_fields, id), 0, 0, NULL},
        {"size", NUMBER, offsetof(struct group_fields, size), 0, REPORT_RANKS_MOST, NULL},
        {"gone", BOOL, offsetof(struct group_fields, gone), 0, 0, NULL},
        {"ranks", ARRAY, 0, 0, 0, read_member},
        {0},
    };
    struct group_fields group = {.name = "", .id = ""};
    (void)object;
    if (!read_object(r, fields, &group)) return;
    int index = group_index(r, &group);
    for (int rank = 0; rank < MSI_FLIGHT_MEMBERS && index > GONE_GROUP; rank++)
        if (group.members[rank / 64] >> rank % 64 & 1) msi_flight_add_member(&r->flight->groups[index], rank);
}

struct op_fields {
    struct msi_flight_op op;
    struct group_fields group;
    const char *dtype, *state, *dir;
    int64_t number, seq, count, peer, tag;
    bool failed;
};

static int dtype_of(const char *name) {
    for (int i = 1; i < MST_DTYPE_COUNT; i++)
        if (!strcmp(mst_dtype_name((mst_dtype)i), name)) return i;
    return 0;
}

static void add_operation(struct reading *r, const struct op_fields *fields) {
    struct flight *flight = r->flight;
    struct msi_flight_op op = fields->op;
    int state = MSI_FLIGHT_DONE;
    while (state > MSI_FLIGHT_QUEUED && strcmp(states[state], fields->state) != 0) state--;
    op.state = fields->failed ? MSI_FLIGHT_FAILED : (enum msi_flight_state)state;
    if (strcmp(fields->dir, "send") == 0) op.type = MSI_FLIGHT_SEND;
    if (strcmp(fields->dir, "recv") == 0) op.type = MSI_FLIGHT_RECV;
    if (strcmp(states[state], fields->state) != 0)
        msi_json_fail(&r->in, "an operation that is queued, started or done");
    else if (fields->dir[0] && op.type == MSI_FLIGHT_COLLECTIVE)
        msi_json_fail(&r->in, "an operation with the direction send or recv");
    if (fields->seq >= 0) op.seq = (uint64_t)fields->seq;
    op.number = (uint64_t)fields->number;
    op.count = (uint64_t)fields->count;
    op.dtype = dtype_of(fields->dtype);
    op.peer = (int)fields->peer;
    op.tag = (int)fields->tag;
    op.group = group_index(r, &fields->group);
    if (!r->in.expected &&
        report_reserve(&r->job->failed, &flight->ops, (size_t)flight->view.n, &flight->capacity, sizeof op))
        flight->ops[flight->view.n++] = op;
}

static void read_operation(struct reading *r, void *object) {
#define AT(member) offsetof(struct op_fields, member)
    static const struct field fields[] = {
        {"n", NUMBER, AT(number), 0, INT64_MAX, NULL},
        {"name", TEXT, AT(op.name), 0, 0, NULL},
        {"group_name", TEXT, AT(group.name), 0, 0, NULL},
        {"group_id", TEXT, AT(group.id), 0, 0, NULL},
        {"group_size", NUMBER, AT(group.size), 0, REPORT_RANKS_MOST, NULL},
        {"group_gone", BOOL, AT(group.gone), 0, 0, NULL},
        {"seq", NUMBER, AT(seq), 0, INT64_MAX, NULL},
        {"state", TEXT, AT(state), 0, 0, NULL},
        {"failed", BOOL, AT(failed), 0, 0, NULL},
        {"dtype", TEXT, AT(dtype), 0, 0, NULL},
        {"count", NUMBER, AT(count), 0, INT64_MAX, NULL},
        {"dir", TEXT, AT(dir), 0, 0, NULL},
        {"peer", NUMBER, AT(peer), -1, REPORT_RANKS_MOST, NULL},
        {"tag", NUMBER, AT(tag), 0, INT32_MAX, NULL},
        {"site", TEXT, AT(op.site), 0, 0, NULL},
        {"function", TEXT, AT(op.function), 0, 0, NULL},
        {"begin_us", MICROSECONDS, AT(op.begin), 0, 0, NULL},
        {"end_us", MICROSECONDS, AT(op.end), 0, 0, NULL},
        {0},
    };
#undef AT
    struct op_fields op = {.op = {.seq = MSI_FLIGHT_NO_NUMBER,
                                  .begin = MSI_FLIGHT_UNKNOWN,
                                  .end = MSI_FLIGHT_UNKNOWN,
                                  .name = "",
                                  .site = "",
                                  .function = ""},
                           .group = {.name = "", .id = ""},
                           .dtype = "",
                           .dir = "",
                           .state = states[MSI_FLIGHT_QUEUED],
                           .seq = REPORT_NONE,
                           .peer = REPORT_NONE};
    (void)object;
    if (read_object(r, fields, &op)) add_operation(r, &op);
}

struct file_fields {
    const char *host, *reason;
    int64_t version, rank, size, culprit, unix_ns, now;
};

static void read_file(struct reading *r, struct file_fields *file) {
#define AT(member) offsetof(struct file_fields, member)
    static const struct field fields[] = {
        {"version", NUMBER, AT(version), 1, 1, NULL},
        {"rank", NUMBER, AT(rank), 0, REPORT_RANKS_MOST - 1, NULL},
        {"size", NUMBER, AT(size), 1, REPORT_RANKS_MOST, NULL},
        {"host", TEXT, AT(host), 0, 0, NULL},
        {"reason", TEXT, AT(reason), 0, 0, NULL},
        {"culprit", NUMBER, AT(culprit), -1, REPORT_RANKS_MOST - 1, NULL},
        {"unix_ns", NUMBER, AT(unix_ns), 0, INT64_MAX, NULL},
        {"now_us", MICROSECONDS, AT(now), 0, 0, NULL},
        {"groups", ARRAY, 0, 0, 0, read_group},
        {"operations", ARRAY, 0, 0, 0, read_operation},
        {0},
    };
#undef AT
    *file = (struct file_fields){
        .host = "", .reason = "", .rank = REPORT_NONE, .culprit = REPORT_NONE, .now = MSI_FLIGHT_UNKNOWN};
    read_object(r, fields, file);
    msi_json_end(&r->in);
    r->flight->rank = (int)file->rank;
    r->flight->host = file->host;
    r->flight->reason = file->reason;
    r->flight->blames = (int)file->culprit;
    r->flight->view.unix_ns = file->unix_ns;
    r->flight->view.now = file->now;
}

/* The reasons complete the sentence "it …". A truncated recording counts with its complete operations. */
static mst_status check_file(const struct reading *r, const struct file_fields *file, int expected) {
    int size = r->job->flights->size;
    char why[256];
    if ((file->rank == REPORT_NONE || file->size == 0) && r->in.expected) {
        msi_json_explain(&r->in, why, sizeof why);
        return msi_fail(MST_ERR_PROTOCOL, NULL, "is malformed: %s", why);
    }
    if (file->rank == REPORT_NONE || file->size == 0)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "does not say which rank wrote it");
    if (file->rank != expected)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "was written by rank %d", (int)file->rank);
    if (size != 0 && file->size != size)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "is of a world of %d ranks, the others are of one of %d",
                        (int)file->size, size);
    return MST_OK;
}

mst_status report_flight_read(struct report_job *job, const char *path, int rank, struct flight *flight) {
    struct file_fields file;
    struct msi_buf data = {0};
    mst_status st = MST_ERR_MEMORY;
    *flight = (struct flight){.view.n_groups = 2};
    int error = msi_file_read(path, REPORT_FILE_MOST, &data);
    if (error) {
        st = msi_fail(MST_ERR_SYSTEM, NULL, "cannot be read: %s", strerror(error));
        goto free_data;
    }
    if (!report_reserve(&job->failed, &flight->groups, 0, &flight->groups_capacity, sizeof *flight->groups))
        goto free_data;
    flight->groups[NO_GROUP] = (struct msi_flight_group){.name = ""};
    flight->groups[GONE_GROUP] = (struct msi_flight_group){.name = "", .gone = true};
    struct reading r = {.job = job, .flight = flight, .in = msi_json_of((const char *)data.data, data.len)};
    read_file(&r, &file);
    st = check_file(&r, &file, rank);
    if (st == MST_OK) {
        job->flights->size = (int)file.size;
        if (r.in.expected)
            report_warn(job, "%s cannot be read to its end: some operations may be missing", path);
    } else {
        report_flight_free(flight);
    }
free_data:
    msi_buf_free(&data);
    return st;
}

void report_flight_free(struct flight *flight) {
    free(flight->ops);
    free(flight->groups);
    *flight = (struct flight){0};
}

const char *report_flight_state(const struct msi_flight_op *op) {
    return states[op->state];
}
