/* flight_file.c - reads DIR/rank-R.flight.json, which prof/flight/write.h describes. See flight.h. */
#include "cli/text.h"
#include "report/fields.h"
#include "report/flight.h"

#include "base/error.h"
#include "base/hash.h"
#include "os/file.h"

#include <muster/dtype.h>
#include <stdlib.h>

enum { TEXT_MOST = 4096, GROUPS_MOST = 256 };
#define NS_MOST 9000000000000000000LL /* 285 years; exact as a double */

/* The first two groups of each recording: an unknown one, and one that was destroyed. */
enum { NO_GROUP, GONE_GROUP };

static const char *const states[] = {[MSI_FLIGHT_QUEUED] = "queued",
                                     [MSI_FLIGHT_STARTED] = "started",
                                     [MSI_FLIGHT_DONE] = "done",
                                     [MSI_FLIGHT_FAILED] = "failed"};

/* A file that is being read, and its fields. */
struct reading {
    struct report_job *job;
    struct flight *flight;
    struct msi_json_text host, reason;
    int64_t version, rank, size, culprit, unix_ns, now;
};

struct group_fields {
    struct msi_json_text name, id;
    int64_t size;
    bool gone;
    uint64_t members[MSI_FLIGHT_WORDS];
};

struct op_fields {
    struct group_fields group;
    struct msi_json_text name, site, function, dtype, state, dir;
    int64_t number, seq, count, peer, tag, begin, end;
    bool failed;
};

/* A text without control characters that lives as long as the job. */
static const char *intern(struct reading *r, struct msi_json_text text) {
    char value[TEXT_MOST] = "";
    if (text.n > 0) msi_json_copy(text, value, sizeof value);
    text_clean(value, false);
    struct msi_table *texts = &r->job->flights->texts;
    return msi_table_key(texts, report_add(texts, value, strlen(value)));
}

/* Groups are equal if they have the same id, or without ids the same name, and the same size. */
static int group_index(struct reading *r, const struct group_fields *group) {
    static const uint64_t seeds[2] = {5, 6};
    struct flight *flight = r->flight;
    const char *name = intern(r, group->name), *by = group->id.n > 0 ? intern(r, group->id) : name;
    uint64_t id = msi_hash(by, strlen(by), seeds);
    if (group->size == 0) return group->gone ? GONE_GROUP : NO_GROUP;
    for (int i = GONE_GROUP + 1; i < flight->view.n_groups; i++)
        if (flight->groups[i].id == id && flight->groups[i].size == group->size) return i;
    if (flight->view.n_groups == GROUPS_MOST) return NO_GROUP;
    report_reserve(&flight->groups, (size_t)flight->view.n_groups, &flight->groups_capacity,
                   sizeof *flight->groups);
    flight->groups[flight->view.n_groups] =
        (struct msi_flight_group){.name = name, .id = id, .size = (int)group->size, .gone = group->gone};
    return flight->view.n_groups++;
}

static void read_member(struct msi_json *in, void *object) {
    struct group_fields *group = object;
    int64_t rank = -1;
    report_read_number(in, 0, REPORT_RANKS_MOST, &rank);
    if (rank >= 0 && rank < MSI_FLIGHT_MEMBERS) group->members[rank / 64] |= UINT64_C(1) << rank % 64;
}

static void read_group(struct msi_json *in, void *object) {
#define AT(member) offsetof(struct group_fields, member)
    static const struct report_field fields[] = {
        REPORT_FIELD("name", TEXT, AT(name), 0, 0),
        REPORT_FIELD("id", TEXT, AT(id), 0, 0),
        REPORT_FIELD("size", NUMBER, AT(size), 0, REPORT_RANKS_MOST),
        REPORT_FIELD("gone", BOOL, AT(gone), 0, 0),
        {REPORT_KEY("ranks", ARRAY), 0, 0, 0, NULL, read_member},
        {0},
    };
#undef AT
    struct reading *r = object;
    struct group_fields group = {0};
    report_read_object(in, fields, &group);
    int index = in->expected ? NO_GROUP : group_index(r, &group);
    for (int rank = 0; rank < MSI_FLIGHT_MEMBERS && index > GONE_GROUP; rank++)
        if (group.members[rank / 64] >> rank % 64 & 1) msi_flight_add_member(&r->flight->groups[index], rank);
}

static int dtype_of(struct msi_json_text name) {
    for (int i = 1; i < MST_DTYPE_COUNT; i++)
        if (msi_json_is(name, mst_dtype_name((mst_dtype)i))) return i;
    return 0;
}

static void add_operation(struct reading *r, const struct op_fields *fields, struct msi_json *in) {
    struct flight *flight = r->flight;
    int state = MSI_FLIGHT_DONE;
    while (state > MSI_FLIGHT_QUEUED && !msi_json_is(fields->state, states[state])) state--;
    bool sends = msi_json_is(fields->dir, "send"), receives = msi_json_is(fields->dir, "recv");
    if (fields->state.p && !msi_json_is(fields->state, states[state]))
        msi_json_fail(in, "an operation that is queued, started or done");
    else if (fields->dir.n > 0 && !sends && !receives)
        msi_json_fail(in, "an operation with the direction send or recv");
    if (in->expected) return;
    report_reserve(&flight->ops, (size_t)flight->view.n, &flight->capacity, sizeof *flight->ops);
    flight->ops[flight->view.n++] = (struct msi_flight_op){
        .number = (uint64_t)fields->number,
        .count = (uint64_t)fields->count,
        .seq = fields->seq >= 0 ? (uint64_t)fields->seq : MSI_FLIGHT_NO_NUMBER,
        .state = fields->failed ? MSI_FLIGHT_FAILED : (enum msi_flight_state)state,
        .begin = fields->begin,
        .end = fields->end,
        .group = group_index(r, &fields->group),
        .name = intern(r, fields->name),
        .site = intern(r, fields->site),
        .function = intern(r, fields->function),
        .dtype = dtype_of(fields->dtype),
        .type = sends      ? MSI_FLIGHT_SEND
                : receives ? MSI_FLIGHT_RECV
                           : MSI_FLIGHT_COLLECTIVE,
        .peer = (int)fields->peer,
        .tag = (int)fields->tag,
    };
}

static void read_operation(struct msi_json *in, void *object) {
#define AT(member) offsetof(struct op_fields, member)
    static const struct report_field fields[] = {
        REPORT_FIELD("n", NUMBER, AT(number), 0, INT64_MAX),
        REPORT_FIELD("name", TEXT, AT(name), 0, 0),
        REPORT_FIELD("group_name", TEXT, AT(group.name), 0, 0),
        REPORT_FIELD("group_id", TEXT, AT(group.id), 0, 0),
        REPORT_FIELD("group_size", NUMBER, AT(group.size), 0, REPORT_RANKS_MOST),
        REPORT_FIELD("group_gone", BOOL, AT(group.gone), 0, 0),
        REPORT_FIELD("seq", NUMBER, AT(seq), 0, INT64_MAX),
        REPORT_FIELD("state", TEXT, AT(state), 0, 0),
        REPORT_FIELD("failed", BOOL, AT(failed), 0, 0),
        REPORT_FIELD("dtype", TEXT, AT(dtype), 0, 0),
        REPORT_FIELD("count", NUMBER, AT(count), 0, INT64_MAX),
        REPORT_FIELD("dir", TEXT, AT(dir), 0, 0),
        REPORT_FIELD("peer", NUMBER, AT(peer), -1, REPORT_RANKS_MOST),
        REPORT_FIELD("tag", NUMBER, AT(tag), -1, INT32_MAX),
        REPORT_FIELD("site", TEXT, AT(site), 0, 0),
        REPORT_FIELD("function", TEXT, AT(function), 0, 0),
        REPORT_FIELD("begin_us", US, AT(begin), -NS_MOST, NS_MOST),
        REPORT_FIELD("end_us", US, AT(end), -NS_MOST, NS_MOST),
        {0},
    };
#undef AT
    struct op_fields op = {
        .seq = REPORT_NONE, .peer = REPORT_NONE, .begin = MSI_FLIGHT_UNKNOWN, .end = MSI_FLIGHT_UNKNOWN};
    report_read_object(in, fields, &op);
    if (!in->expected) add_operation(object, &op, in);
}

static void read_file(struct reading *r, struct msi_json *in) {
#define AT(member) offsetof(struct reading, member)
    static const struct report_field fields[] = {
        REPORT_FIELD("version", NUMBER, AT(version), 1, 1),
        REPORT_FIELD("rank", NUMBER, AT(rank), 0, REPORT_RANKS_MOST - 1),
        REPORT_FIELD("size", NUMBER, AT(size), 1, REPORT_RANKS_MOST),
        REPORT_FIELD("host", TEXT, AT(host), 0, 0),
        REPORT_FIELD("reason", TEXT, AT(reason), 0, 0),
        REPORT_FIELD("culprit", NUMBER, AT(culprit), -1, REPORT_RANKS_MOST - 1),
        REPORT_FIELD("unix_ns", NUMBER, AT(unix_ns), 0, INT64_MAX),
        REPORT_FIELD("now_us", US, AT(now), -NS_MOST, NS_MOST),
        {REPORT_KEY("groups", ARRAY), 0, 0, 0, NULL, read_group},
        {REPORT_KEY("operations", ARRAY), 0, 0, 0, NULL, read_operation},
        {0},
    };
#undef AT
    report_read_object(in, fields, r);
    msi_json_end(in);
    r->flight->rank = (int)r->rank;
    r->flight->host = intern(r, r->host);
    r->flight->reason = intern(r, r->reason);
    r->flight->blames = (int)r->culprit;
    r->flight->view.unix_ns = r->unix_ns;
    r->flight->view.now = r->now;
}

/* The reasons complete the sentence "it …". A truncated recording counts with its complete operations. */
static mst_status check_file(const struct reading *r, const struct msi_json *in, int expected) {
    int size = r->job->flights->size;
    char why[256];
    if ((r->rank == REPORT_NONE || r->size == 0) && in->expected) {
        msi_json_explain(in, why, sizeof why);
        return msi_fail(MST_ERR_PROTOCOL, NULL, "is malformed: %s", why);
    }
    if (r->rank == REPORT_NONE || r->size == 0)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "does not say which rank wrote it");
    if (r->rank != expected) return msi_fail(MST_ERR_PROTOCOL, NULL, "was written by rank %d", (int)r->rank);
    if (size != 0 && r->size != size)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "belongs to a world of %d ranks, the others to one of %d",
                        (int)r->size, size);
    return MST_OK;
}

mst_status report_flight_parse(struct report_job *job, struct msi_str text, int rank, struct flight *flight,
                               bool *cut) {
    struct reading r = {
        .job = job, .flight = flight, .rank = REPORT_NONE, .culprit = REPORT_NONE, .now = MSI_FLIGHT_UNKNOWN};
    *flight = (struct flight){.view.n_groups = 2};
    report_reserve(&flight->groups, 0, &flight->groups_capacity, sizeof *flight->groups);
    flight->groups[NO_GROUP] = (struct msi_flight_group){.name = ""};
    flight->groups[GONE_GROUP] = (struct msi_flight_group){.name = "", .gone = true};
    struct msi_json in = msi_json_of(text.p, text.n);
    read_file(&r, &in);
    mst_status st = check_file(&r, &in, rank);
    if (st != MST_OK) report_flight_free(flight);
    if (st == MST_OK) job->flights->size = (int)r.size;
    *cut = in.expected;
    return st;
}

mst_status report_flight_read(struct report_job *job, const char *path, int rank, struct flight *flight) {
    struct msi_buf data = {0};
    bool cut;
    int error = msi_file_read(path, REPORT_FILE_MOST, &data);
    if (error != 0) return msi_fail(MST_ERR_SYSTEM, NULL, "cannot be read: %s", strerror(error));
    mst_status st = report_flight_parse(job, msi_buf_str(&data), rank, flight, &cut);
    if (st == MST_OK && cut)
        report_warn(job, "%s cannot be read to its end: some operations may be missing", path);
    msi_buf_free(&data);
    return st;
}

void report_flight_free(struct flight *flight) {
    free(flight->ops);
    free(flight->groups);
}

const char *report_flight_state(const struct msi_flight_op *op) {
    return states[op->state];
}
