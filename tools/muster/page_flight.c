/* page_flight.c - reads DIR/rank-R.flight.json into views, and has them judged: see page_flight.h, prof/flight_write.h. */
#include "page_flight.h"

#include "base/hash.h"
#include "base/json.h"
#include "prof/flight_words.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <muster/dtype.h>
#include <stdlib.h>

enum { TEXT_MOST = 4096, TEAMS_MOST = 256 };

/* Of each recording's teams the first two are none: one of which nothing is said, and one that is gone. */
enum { NO_TEAM, GONE_TEAM };

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
static int team_of(struct reading *r, const struct group_words *group) {
    static const uint64_t seeds[2] = {5, 6};
    struct flight *flight = r->flight;
    const char *by = group->id[0] != '\0' ? group->id : group->name;
    uint64_t id = msi_hash(by, strlen(by), seeds);

    if (group->size == 0) return group->gone ? GONE_TEAM : NO_TEAM;
    for (int i = GONE_TEAM + 1; i < flight->view.n_teams; i++)
        if (flight->teams[i].id == id && flight->teams[i].size == group->size) return i;
    if (flight->view.n_teams == TEAMS_MOST || !page_room(r->job, &flight->teams, (size_t)flight->view.n_teams,
                                                         &flight->teams_capacity, sizeof *flight->teams))
        return NO_TEAM;
    flight->teams[flight->view.n_teams] =
        (struct msi_flight_team){group->name, id, (int)group->size, group->gone};
    return flight->view.n_teams++;
}

static void read_group(struct reading *r) {
    struct group_words group = {"", "", 0, false};
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
        else
            msi_json_skip(&r->in);
    }
    if (r->in.expected == NULL && !r->job->failed) team_of(r, &group);
}

static void read_operation(struct reading *r) {
    static const char *const ways[] = {NULL, "send", "recv"};
    struct msi_flight_op op = {.seq = MSI_FLIGHT_NO_NUMBER,
                               .state = MSI_FLIGHT_QUEUED,
                               .begin = MSI_FLIGHT_UNKNOWN,
                               .end = MSI_FLIGHT_UNKNOWN,
                               .name = "",
                               .site = "",
                               .function = "",
                               .peer = PAGE_NONE};
    struct group_words group = {"", "", 0, false};
    int64_t number = 0, seq = PAGE_NONE, count = 0, peer = PAGE_NONE, tag = 0;
    const char *dtype = "";
    bool failed = false;
    struct flight *flight = r->flight;
    struct msi_json_text key;

    if (!msi_json_object(&r->in)) return;
    while (msi_json_key(&r->in, &key)) {
        if (msi_json_is(key, "name"))
            read_text(r, &op.name);
        else if (msi_json_is(key, "group_name"))
            read_text(r, &group.name);
        else if (msi_json_is(key, "group_id"))
            read_text(r, &group.id);
        else if (msi_json_is(key, "group_size"))
            read_number(r, 0, PAGE_RANKS_MOST, &group.size);
        else if (msi_json_is(key, "group_gone"))
            msi_json_bool(&r->in, &group.gone);
        else if (msi_json_is(key, "dtype"))
            read_text(r, &dtype);
        else if (msi_json_is(key, "site"))
            read_text(r, &op.site);
        else if (msi_json_is(key, "function"))
            read_text(r, &op.function);
        else if (msi_json_is(key, "failed"))
            msi_json_bool(&r->in, &failed);
        else if (msi_json_is(key, "state"))
            op.state =
                (enum msi_flight_state)read_word(r, states, MSI_FLIGHT_DONE, "queued, started or done");
        else if (msi_json_is(key, "dir"))
            op.way = (enum msi_flight_way)read_word(r, ways, MSI_FLIGHT_RECV, "send or recv");
        else if (msi_json_is(key, "n"))
            read_number(r, 0, INT64_MAX, &number);
        else if (msi_json_is(key, "seq"))
            read_number(r, 0, INT64_MAX, &seq);
        else if (msi_json_is(key, "count"))
            read_number(r, 0, INT64_MAX, &count);
        else if (msi_json_is(key, "begin_us"))
            read_time(r, &op.begin);
        else if (msi_json_is(key, "end_us"))
            read_time(r, &op.end);
        else if (msi_json_is(key, "peer"))
            read_number(r, -1, PAGE_RANKS_MOST, &peer);
        else if (msi_json_is(key, "tag"))
            read_number(r, 0, INT32_MAX, &tag);
        else
            msi_json_skip(&r->in);
    }
    if (r->in.expected != NULL || r->job->failed) return;
    if (seq >= 0) op.seq = (uint64_t)seq;
    if (failed) op.state = MSI_FLIGHT_FAILED;
    op.number = (uint64_t)number;
    op.count = (uint64_t)count;
    op.dtype = dtype_of(dtype);
    op.peer = (int)peer;
    op.tag = (int)tag;
    op.team = team_of(r, &group);
    if (page_room(r->job, &flight->ops, (size_t)flight->view.n, &flight->capacity, sizeof op))
        flight->ops[flight->view.n++] = op;
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
    *flight = (struct flight){.host = "", .reason = "", .view.now = MSI_FLIGHT_UNKNOWN, .view.n_teams = 2};
    if (!page_room(job, &flight->teams, 0, &flight->teams_capacity, sizeof *flight->teams)) return false;
    flight->teams[NO_TEAM] = (struct msi_flight_team){.name = ""};
    flight->teams[GONE_TEAM] = (struct msi_flight_team){.name = "", .gone = true};
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

static void free_flight(struct flight *flight) {
    free(flight->ops);
    free(flight->teams);
    *flight = (struct flight){0};
}

/* A sentence of each line. */
static void write_sentences(const struct msi_buf *lines, struct text *to) {
    const char *at = (const char *)lines->data, *end = at + lines->len, *newline;

    for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1)
        text_format(to, "%s%c%.*s.", to->data != NULL ? " " : "", toupper((unsigned char)*at),
                    (int)(newline - at - 1), at + 1);
}

static void judge(struct page_job *job) {
    struct page_flights *f = job->flights;
    struct msi_buf lines = {0};

    f->ranks = calloc((size_t)f->size + 1, sizeof *f->ranks);
    if (f->ranks == NULL) {
        job->failed = true;
        return;
    }
    for (int r = 0; r < f->size; r++) f->ranks[r].blames = PAGE_NONE;
    for (int i = 0; i < f->n; i++) {
        struct flight *flight = &f->list[i];
        flight->view.ops = flight->ops;
        flight->view.teams = flight->teams;
        if (flight->rank < f->size)
            f->ranks[flight->rank] =
                (struct msi_flight_of){&flight->view, false, flight->blames, flight->reason};
    }
    if (msi_flight_judge(f->ranks, f->size, &f->verdicts)) msi_flight_say_verdicts(&f->verdicts, &lines);
    write_sentences(&lines, &f->words);
    job->failed |= f->verdicts.memory == NULL || lines.failed || f->words.failed;
    msi_buf_free(&lines);
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
        if (begin_flight(job, flight) && take_file(job, path, ranks[i], flight, why)) {
            f->n++;
        } else {
            if (!job->failed) page_warn(job, "%s is left out: it %s", path, why);
            free_flight(flight);
        }
        free(path);
    }
    if (f->n > 0 && !job->failed) judge(job);
}

bool page_flights_any(const struct page_job *job) {
    return job->flights != NULL && job->flights->n > 0;
}

void page_flights_free(struct page_job *job) {
    struct page_flights *f = job->flights;

    if (f == NULL) return;
    for (int i = 0; i < f->n; i++) free_flight(&f->list[i]);
    for (size_t i = 0; i < f->n_kept; i++) free(f->kept[i]);
    msi_verdicts_free(&f->verdicts);
    page_set_free(&f->texts);
    text_free(&f->words);
    free(f->kept);
    free(f->list);
    free(f->ranks);
    free(f);
    job->flights = NULL;
}

const char *page_flight_state(const struct msi_flight_op *op) {
    return states[op->state];
}

const struct msi_flight_op *page_flight_current(const struct page_flights *flights, int rank) {
    return rank < flights->size ? flights->verdicts.in[rank] : NULL;
}

const struct msi_flight_op *page_flight_done(const struct flight *flight) {
    for (int k = flight->view.n - 1; k >= 0; k--)
        if (flight->ops[k].state == MSI_FLIGHT_DONE) return &flight->ops[k];
    return NULL;
}
