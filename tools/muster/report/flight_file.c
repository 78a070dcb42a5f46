/* flight_file.c - reads DIR/rank-R.flight.json into a view. See flight.h, prof/flight/write.h. */
#include "report/flight.h"

#include "base/hash.h"
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <muster/dtype.h>
#include <stdlib.h>

enum { TEXT_MOST = 4096, GROUPS_MOST = 256 };

/* Of each recording's groups the first two are none: one of which nothing is said, and one that is gone. */
enum { NO_GROUP, GONE_GROUP };

static const char *const states[] = {[MSI_FLIGHT_QUEUED] = "queued",
                                     [MSI_FLIGHT_STARTED] = "started",
                                     [MSI_FLIGHT_DONE] = "done",
                                     [MSI_FLIGHT_FAILED] = "failed"};

/* A file that is being read. */
struct reading {
    struct page_job *job;
    struct flight *flight;
    struct msi_json in;
};

/* A copy without control characters that stays where it is, the same for the same text. */
static const char *keep(struct page_job *job, char *value) {
    struct page_flights *f = job->flights;

    text_clean(value, false);
    uint32_t at = page_set_add(&f->texts, value, strlen(value));
    if (at == PAGE_SET_FULL || !page_room(job, &f->kept, f->n_kept, &f->kept_capacity, sizeof *f->kept)) {
        job->failed = true;
        return "";
    }
    if (at == f->n_kept) {
        f->kept[at] = strdup(value);
        if (f->kept[at] == NULL) {
            job->failed = true;
            return "";
        }
        f->n_kept++;
    }
    return f->kept[at];
}

static void read_text(struct reading *r, const char **kept) {
    struct msi_json_text text;
    char value[TEXT_MOST];

    if (msi_json_peek(&r->in) == MSI_JSON_NULL) {
        msi_json_null(&r->in);
        return;
    }
    if (!msi_json_string(&r->in, &text)) return;
    msi_json_copy(text, value, sizeof value);
    *kept = keep(r->job, value);
}

static void read_number(struct reading *r, int64_t least, int64_t most, int64_t *value) {
    int64_t number;

    if (!msi_json_int(&r->in, &number)) return;
    if (number < least || number > most)
        msi_json_fail(&r->in, "a number that makes sense");
    else
        *value = number;
}

static void read_time(struct reading *r, int64_t *ns) {
    double us;

    if (msi_json_double(&r->in, &us) && fabs(us) <= 9e15) *ns = (int64_t)llround(us * 1000);
}

/* One of these words; fails if it is none. */
static int read_word(struct reading *r, const char *const *words, int n, const char *expected) {
    struct msi_json_text text;

    if (!msi_json_string(&r->in, &text)) return 0;
    for (int i = 1; i <= n; i++)
        if (msi_json_is(text, words[i])) return i;
    msi_json_fail(&r->in, expected);
    return 0;
}

static int dtype_of(const char *name) {
    for (int i = 1; i < MST_DTYPE_COUNT; i++)
        if (!strcmp(mst_dtype_name((mst_dtype)i), name)) return i;
    return 0;
}

struct group_words {
    const char *name, *id;
    int64_t size;
    bool gone;
};

/* Groups are known by their id where there is one, else by name, and by size. */
static int group_index(struct reading *r, const struct group_words *group) {
    static const uint64_t seeds[2] = {5, 6};
    struct flight *flight = r->flight;
    const char *by = group->id[0] != '\0' ? group->id : group->name;
    uint64_t id = msi_hash(by, strlen(by), seeds);

    if (group->size == 0) return group->gone ? GONE_GROUP : NO_GROUP;
    for (int i = GONE_GROUP + 1; i < flight->view.n_groups; i++)
        if (flight->groups[i].id == id && flight->groups[i].size == group->size) return i;
    if (flight->view.n_groups == GROUPS_MOST ||
        !page_room(r->job, &flight->groups, (size_t)flight->view.n_groups, &flight->groups_capacity,
                   sizeof *flight->groups))
        return NO_GROUP;
    flight->groups[flight->view.n_groups] = (struct msi_flight_group){
        .name = group->name, .id = id, .size = (int)group->size, .gone = group->gone};
    return flight->view.n_groups++;
}

static void read_members(struct reading *r, uint64_t bits[MSI_FLIGHT_WORDS]) {
    int64_t rank = -1;

    if (!msi_json_array(&r->in)) return;
    while (msi_json_item(&r->in)) {
        read_number(r, 0, PAGE_RANKS_MOST, &rank);
        if (rank >= 0 && rank < MSI_FLIGHT_MEMBERS) bits[rank / 64] |= UINT64_C(1) << rank % 64;
    }
}

static void read_group(struct reading *r) {
    struct group_words group = {"", "", 0, false};
    uint64_t members[MSI_FLIGHT_WORDS] = {0};
    struct msi_json_text key;

    if (!msi_json_object(&r->in)) return;
    while (msi_json_key(&r->in, &key)) {
        if (msi_json_is(key, "name"))
            read_text(r, &group.name);
        else if (msi_json_is(key, "id"))
            read_text(r, &group.id);
        else if (msi_json_is(key, "size"))
            read_number(r, 0, PAGE_RANKS_MOST, &group.size);
        else if (msi_json_is(key, "gone"))
            msi_json_bool(&r->in, &group.gone);
        else if (msi_json_is(key, "ranks"))
            read_members(r, members);
        else
            msi_json_skip(&r->in);
    }
    if (r->in.expected != NULL || r->job->failed) return;
    int team = group_index(r, &group);
    for (int rank = 0; rank < MSI_FLIGHT_MEMBERS && team > GONE_GROUP; rank++)
        if (members[rank / 64] >> rank % 64 & 1) msi_flight_add_member(&r->flight->groups[team], rank);
}

/* An operation as the file has it. */
struct op_words {
    struct msi_flight_op op;
    struct group_words group;
    const char *dtype;
    int64_t number, seq, count, peer, tag;
    bool failed;
};

/* False: it is none of these keys. */
static bool read_op_text(struct reading *r, struct msi_json_text key, struct op_words *words) {
    const struct {
        const char *key, **text;
    } texts[] = {
        {"name", &words->op.name}, {"site", &words->op.site},          {"function", &words->op.function},
        {"dtype", &words->dtype},  {"group_name", &words->group.name}, {"group_id", &words->group.id},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!msi_json_is(key, texts[i].key)) continue;
        read_text(r, texts[i].text);
        return true;
    }
    return false;
}

static bool read_op_number(struct reading *r, struct msi_json_text key, struct op_words *words) {
    const struct {
        const char *key;
        int64_t least, most, *value;
    } numbers[] = {
        {"n", 0, INT64_MAX, &words->number},         {"seq", 0, INT64_MAX, &words->seq},
        {"count", 0, INT64_MAX, &words->count},      {"group_size", 0, PAGE_RANKS_MOST, &words->group.size},
        {"peer", -1, PAGE_RANKS_MOST, &words->peer}, {"tag", 0, INT32_MAX, &words->tag},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!msi_json_is(key, numbers[i].key)) continue;
        read_number(r, numbers[i].least, numbers[i].most, numbers[i].value);
        return true;
    }
    return false;
}

static void read_op_key(struct reading *r, struct msi_json_text key, struct op_words *words) {
    static const char *const ways[] = {NULL, "send", "recv"};
    struct msi_flight_op *op = &words->op;

    if (read_op_text(r, key, words) || read_op_number(r, key, words)) return;
    if (msi_json_is(key, "state"))
        op->state = (enum msi_flight_state)read_word(r, states, MSI_FLIGHT_DONE, "queued, started or done");
    else if (msi_json_is(key, "dir"))
        op->type = (enum msi_flight_type)read_word(r, ways, MSI_FLIGHT_RECV, "send or recv");
    else if (msi_json_is(key, "failed"))
        msi_json_bool(&r->in, &words->failed);
    else if (msi_json_is(key, "group_gone"))
        msi_json_bool(&r->in, &words->group.gone);
    else if (msi_json_is(key, "begin_us"))
        read_time(r, &op->begin);
    else if (msi_json_is(key, "end_us"))
        read_time(r, &op->end);
    else
        msi_json_skip(&r->in);
}

static void keep_operation(struct reading *r, const struct op_words *words) {
    struct flight *flight = r->flight;
    struct msi_flight_op op = words->op;

    if (words->seq >= 0) op.seq = (uint64_t)words->seq;
    if (words->failed) op.state = MSI_FLIGHT_FAILED;
    op.number = (uint64_t)words->number;
    op.count = (uint64_t)words->count;
    op.dtype = dtype_of(words->dtype);
    op.peer = (int)words->peer;
    op.tag = (int)words->tag;
    op.group = group_index(r, &words->group);
    if (page_room(r->job, &flight->ops, (size_t)flight->view.n, &flight->capacity, sizeof op))
        flight->ops[flight->view.n++] = op;
}

static void read_operation(struct reading *r) {
    struct op_words words = {.op = {.seq = MSI_FLIGHT_NO_NUMBER,
                                    .state = MSI_FLIGHT_QUEUED,
                                    .begin = MSI_FLIGHT_UNKNOWN,
                                    .end = MSI_FLIGHT_UNKNOWN,
                                    .name = "",
                                    .site = "",
                                    .function = ""},
                             .group = {"", "", 0, false},
                             .dtype = "",
                             .seq = PAGE_NONE,
                             .peer = PAGE_NONE};
    struct msi_json_text key;

    if (!msi_json_object(&r->in)) return;
    while (msi_json_key(&r->in, &key)) read_op_key(r, key, &words);
    if (r->in.expected == NULL && !r->job->failed) keep_operation(r, &words);
}

static void read_array(struct reading *r, void (*read_item)(struct reading *)) {
    if (msi_json_array(&r->in))
        while (msi_json_item(&r->in)) read_item(r);
}

static void read_flight(struct reading *r, int64_t *rank, int64_t *size) {
    struct flight *flight = r->flight;
    struct msi_json_text key;
    int64_t version = 0, blames = PAGE_NONE;

    if (!msi_json_object(&r->in)) return;
    while (msi_json_key(&r->in, &key)) {
        if (msi_json_is(key, "version"))
            read_number(r, 1, 1, &version);
        else if (msi_json_is(key, "rank"))
            read_number(r, 0, PAGE_RANKS_MOST - 1, rank);
        else if (msi_json_is(key, "size"))
            read_number(r, 1, PAGE_RANKS_MOST, size);
        else if (msi_json_is(key, "host"))
            read_text(r, &flight->host);
        else if (msi_json_is(key, "reason"))
            read_text(r, &flight->reason);
        else if (msi_json_is(key, "culprit"))
            read_number(r, -1, PAGE_RANKS_MOST - 1, &blames);
        else if (msi_json_is(key, "unix_ns"))
            read_number(r, 0, INT64_MAX, &flight->view.unix_ns);
        else if (msi_json_is(key, "now_us"))
            read_time(r, &flight->view.now);
        else if (msi_json_is(key, "groups"))
            read_array(r, read_group);
        else if (msi_json_is(key, "operations"))
            read_array(r, read_operation);
        else
            msi_json_skip(&r->in);
    }
    msi_json_end(&r->in);
    flight->blames = (int)blames;
}

/* An empty recording; false without memory. */
static bool begin_flight(struct page_job *job, struct flight *flight) {
    *flight = (struct flight){.host = "", .reason = "", .view.now = MSI_FLIGHT_UNKNOWN, .view.n_groups = 2};
    if (!page_room(job, &flight->groups, 0, &flight->groups_capacity, sizeof *flight->groups)) return false;
    flight->groups[NO_GROUP] = (struct msi_flight_group){.name = ""};
    flight->groups[GONE_GROUP] = (struct msi_flight_group){.name = "", .gone = true};
    return true;
}

/* A recording that was cut off is as good as its whole operations. */
static bool take_file(struct page_job *job, const char *path, int wanted, struct flight *flight,
                      char why[PAGE_WHY_MAX]) {
    struct page_flights *f = job->flights;
    int64_t rank = PAGE_NONE, size = 0;
    size_t len;
    char *data = page_load(path, &len);

    if (data == NULL) {
        snprintf(why, PAGE_WHY_MAX, "cannot be read: %s", strerror(errno));
        return false;
    }
    struct reading r = {.job = job, .flight = flight, .in = msi_json_of(data, len)};
    read_flight(&r, &rank, &size);
    bool right = false;
    why[0] = '\0';
    if (rank == PAGE_NONE || size == 0) {
        snprintf(why, PAGE_WHY_MAX, "does not say which rank wrote it");
        if (r.in.expected != NULL) {
            int used = snprintf(why, PAGE_WHY_MAX, "is not right: ");
            msi_json_explain(&r.in, why + used, PAGE_WHY_MAX - (size_t)used);
        }
    } else if (rank != wanted) {
        snprintf(why, PAGE_WHY_MAX, "was written by rank %d", (int)rank);
    } else if (f->size != 0 && size != f->size) {
        snprintf(why, PAGE_WHY_MAX, "is of a world of %d ranks, the others are of one of %d", (int)size,
                 f->size);
    } else {
        right = true;
        if (r.in.expected != NULL)
            page_warn(job, "%s cannot be read to its end: some operations may be missing", path);
    }
    free(data);
    flight->rank = (int)rank;
    if (right) f->size = (int)size;
    return right;
}

void page_flight_free(struct flight *flight) {
    free(flight->ops);
    free(flight->groups);
    *flight = (struct flight){0};
}

bool page_flight_read(struct page_job *job, const char *path, int rank, struct flight *flight,
                      char why[PAGE_WHY_MAX]) {
    if (begin_flight(job, flight) && take_file(job, path, rank, flight, why)) return true;
    page_flight_free(flight);
    return false;
}

const char *page_flight_state(const struct msi_flight_op *op) {
    return states[op->state];
}
