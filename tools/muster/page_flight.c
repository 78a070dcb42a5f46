/* page_flight.c - reads DIR/rank-R.flight.json: see page_flight.h. */
#include "page_flight.h"

#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { TEXT_MOST = 4096 };

const char *const flight_states[FLIGHT_STATES] = {"queued", "started", "done", "failed"};

/* A file that is being read. */
struct reading {
    struct page_job *job;
    struct msi_json in;
    int wanted; /* the rank that its name says */
    bool known; /* the group that was looked up last: */
    uint32_t name, id, group;
    int64_t size;
};

static void read_text(struct reading *r, uint32_t *number) {
    struct msi_json_text text;
    char value[TEXT_MOST];

    if (msi_json_peek(&r->in) == MSI_JSON_NULL) {
        msi_json_null(&r->in);
        return;
    }
    if (!msi_json_string(&r->in, &text)) return;
    msi_json_copy(text, value, sizeof value);
    uint32_t at = page_set_add(&r->job->strings, value, strlen(value));
    if (at == PAGE_SET_FULL)
        r->job->failed = true;
    else
        *number = at;
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

static void read_state(struct reading *r, enum flight_state *state) {
    struct msi_json_text text;

    if (!msi_json_string(&r->in, &text)) return;
    for (int i = 0; i < FLIGHT_STATES; i++)
        if (msi_json_is(text, flight_states[i])) {
            *state = (enum flight_state)i;
            return;
        }
    msi_json_fail(&r->in, "queued, started or done");
}

/* The trace's group of that name and size with this rank; PAGE_NONE: there is none. */
static int64_t traced_group(const struct page_job *job, uint32_t name, int64_t size, int rank) {
    for (size_t i = 0; i < job->n_groups; i++) {
        const struct page_group *g = &job->groups[i];
        if (g->name != name || g->size != size || g->ranks == NULL) continue;
        for (int k = 0; k < g->size; k++)
            if (g->ranks[k] == rank) return (int64_t)i;
    }
    return PAGE_NONE;
}

/* Groups are known by their id where there is one, else by name and size; different ones may have both alike, which traces can tell. */
static uint32_t group_of(struct reading *r, uint32_t name, uint32_t id, int64_t size) {
    struct page_flights *f = r->job->flights;

    if (r->known && r->name == name && r->id == id && r->size == size) return r->group;
    int64_t key[4] = {id != 0 ? 0 : name, id, size,
                      id != 0 ? PAGE_NONE : traced_group(r->job, name, size, r->wanted)};
    uint32_t at = page_set_add(&f->group_keys, key, sizeof key);
    if (at == PAGE_SET_FULL ||
        !page_room(r->job, &f->groups, f->n_groups, &f->groups_capacity, sizeof *f->groups)) {
        r->job->failed = true;
        return 0;
    }
    if (at == f->n_groups)
        f->groups[f->n_groups++] = (struct flight_group){
            .name = name, .size = (int)size, .slowest = PAGE_NONE, .newest_reader = PAGE_NONE};
    r->known = true, r->name = name, r->id = id, r->size = size, r->group = at;
    return at;
}

static void read_operation(struct reading *r, struct flight *flight) {
    struct flight_op op = {.n = PAGE_UNKNOWN,
                           .seq = PAGE_UNKNOWN,
                           .count = PAGE_UNKNOWN,
                           .begin = PAGE_UNKNOWN,
                           .end = PAGE_UNKNOWN,
                           .peer = PAGE_NONE};
    uint32_t group_name = 0, group_id = 0;
    int64_t size = 0, peer = PAGE_NONE, group = 0;
    bool message = false, failed = false;
    struct msi_json_text key;

    if (!msi_json_object(&r->in)) return;
    while (msi_json_key(&r->in, &key)) {
        if (msi_json_is(key, "name"))
            read_text(r, &op.name);
        else if (msi_json_is(key, "group_name"))
            read_text(r, &group_name);
        else if (msi_json_is(key, "group_id"))
            read_text(r, &group_id);
        else if (msi_json_is(key, "dtype"))
            read_text(r, &op.dtype);
        else if (msi_json_is(key, "site"))
            read_text(r, &op.site);
        else if (msi_json_is(key, "function"))
            read_text(r, &op.function);
        else if (msi_json_is(key, "failed"))
            msi_json_bool(&r->in, &failed);
        else if (msi_json_is(key, "state"))
            read_state(r, &op.state);
        else if (msi_json_is(key, "group_size"))
            read_number(r, 0, PAGE_RANKS_MOST, &size);
        else if (msi_json_is(key, "group"))
            read_number(r, 0, INT32_MAX, &group);
        else if (msi_json_is(key, "n"))
            read_number(r, 0, INT64_MAX, &op.n);
        else if (msi_json_is(key, "seq"))
            read_number(r, 0, INT64_MAX, &op.seq);
        else if (msi_json_is(key, "count"))
            read_number(r, 0, INT64_MAX, &op.count);
        else if (msi_json_is(key, "begin_us"))
            read_time(r, &op.begin);
        else if (msi_json_is(key, "end_us"))
            read_time(r, &op.end);
        else if (msi_json_is(key, "peer"))
            read_number(r, -1, PAGE_RANKS_MOST, &peer), message = true;
        else
            msi_json_skip(&r->in);
    }
    if (r->in.expected != NULL || r->job->failed || op.seq == PAGE_UNKNOWN) return;
    if (failed) op.state = FLIGHT_FAILED;
    op.class = page_class_of(page_string(r->job, op.name));
    op.peer = message ? (int32_t)peer : PAGE_NONE;
    if (message && op.class != PAGE_SEND) op.class = PAGE_RECV;
    if (size == 0 && group == 0) size = r->job->flights->size;
    op.group = group_of(r, group_name, group_id, size);
    if (page_room(r->job, &flight->ops, flight->n, &flight->capacity, sizeof op))
        flight->ops[flight->n++] = op;
}

static void read_flight(struct reading *r, struct flight *flight, int64_t *rank, int64_t *size) {
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
        else if (msi_json_is(key, "pid"))
            read_number(r, 0, INT32_MAX, &flight->pid);
        else if (msi_json_is(key, "host"))
            read_text(r, &flight->host);
        else if (msi_json_is(key, "reason"))
            read_text(r, &flight->reason);
        else if (msi_json_is(key, "culprit"))
            read_number(r, -1, PAGE_RANKS_MOST - 1, &blames);
        else if (msi_json_is(key, "operations")) {
            if (msi_json_array(&r->in))
                while (msi_json_item(&r->in)) read_operation(r, flight);
        } else
            msi_json_skip(&r->in);
    }
    msi_json_end(&r->in);
    flight->blames = (int)blames;
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
    struct reading r = {.job = job, .in = msi_json_of(data, len), .wanted = wanted};
    flight->pid = PAGE_UNKNOWN;
    read_flight(&r, flight, &rank, &size);
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

void page_flights_read(struct page_job *job, const int *ranks, int n) {
    struct page_flights *f = calloc(1, sizeof *f);
    char why[PAGE_WHY_MAX];

    job->flights = f;
    if (f != NULL) f->list = calloc((size_t)n + 1, sizeof *f->list);
    if (f == NULL || f->list == NULL) {
        job->failed = true;
        return;
    }
    f->size = job->size;
    for (int i = 0; i < n && !job->failed; i++) {
        char *path;
        struct flight *flight = &f->list[f->n];
        if (asprintf(&path, "%s/rank-%d.flight.json", job->dir, ranks[i]) < 0) {
            job->failed = true;
            return;
        }
        if (take_file(job, path, ranks[i], flight, why)) {
            f->n++;
        } else {
            page_warn(job, "%s is left out: it %s", path, why);
            free(flight->ops);
            *flight = (struct flight){0};
        }
        free(path);
    }
    if (f->n > 0 && !job->failed) page_judge(job);
}

bool page_flights_any(const struct page_job *job) {
    return job->flights != NULL && job->flights->n > 0;
}

void page_flights_free(struct page_job *job) {
    struct page_flights *f = job->flights;

    if (f == NULL) return;
    for (int i = 0; i < f->n; i++) free(f->list[i].ops);
    page_set_free(&f->group_keys);
    text_free(&f->words);
    free(f->list);
    free(f->groups);
    free(f->blamed);
    free(f);
    job->flights = NULL;
}
