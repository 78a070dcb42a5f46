/*
 * op_stats_read.c - a stats from JSON, as op_stats_write.c writes it. The bytes are hostile until checked: what is taken keeps all
 * that op_stats.h promises, its limits too. Unknown keys are skipped; groups come before rows, rows before calls.
 */
#include "base/error.h"
#include "base/json.h"
#include "prof/summary/figures.h"
#include "prof/summary/op_stats.h"

#include <stdlib.h>

struct reader {
    struct msi_json in;
    struct msi_op_stats *stats;
    struct msi_op_stats_who who;
    uint64_t version;
    bool debug;
    bool no_memory;
};

/* A fault of the value that began at at. */
static bool refuse(struct msi_json *in, const char *at, const char *expected) {
    in->at = at;
    return msi_json_fail(in, expected);
}

static bool no_memory(struct reader *r) {
    r->no_memory = true;
    return msi_json_fail(&r->in, "more memory");
}

static bool read_number(struct msi_json *in, uint64_t most, const char *expected, uint64_t *value) {
    int64_t number = 0;
    msi_json_peek(in);
    const char *at = in->at;
    if (!msi_json_int(in, &number)) return false;
    if (number < 0 || (uint64_t)number > most) return refuse(in, at, expected);
    *value = (uint64_t)number;
    return true;
}

static bool read_int(struct msi_json *in, int most, const char *expected, int *value) {
    uint64_t number = 0;
    if (!read_number(in, (uint64_t)most, expected, &number)) return false;
    *value = (int)number;
    return true;
}

/* A copy that replaces *text. */
static bool read_text(struct reader *r, char **text) {
    struct msi_json_text found;
    msi_json_peek(&r->in);
    const char *at = r->in.at;
    if (!msi_json_string(&r->in, &found)) return false;
    char *copy = malloc(found.n + 1);
    if (!copy) return no_memory(r);
    size_t n = msi_json_copy(found, copy, found.n + 1);
    if (strlen(copy) != n) {
        free(copy);
        return refuse(&r->in, at, "a text without zero bytes");
    }
    free(*text);
    *text = copy;
    return true;
}

/* ---- groups ---- */

struct group {
    struct msi_prof_group is;
    char *id, *name;
    int *ranks;
    size_t ranks_cap;
    int ranks_count;
    uint64_t floor, forgotten;
};

static bool read_ranks(struct reader *r, struct group *group) {
    if (!msi_json_array(&r->in)) return false;
    while (msi_json_item(&r->in)) {
        if ((size_t)group->ranks_count == group->ranks_cap) {
            size_t cap = group->ranks_cap ? group->ranks_cap * 2 : 16;
            int *ranks = realloc(group->ranks, cap * sizeof *ranks);
            if (!ranks) return no_memory(r);
            group->ranks = ranks;
            group->ranks_cap = cap;
        }
        if (!read_int(&r->in, INT32_MAX - 1, "a rank", &group->ranks[group->ranks_count])) return false;
        group->ranks_count++;
    }
    return true;
}

static bool read_group_key(struct reader *r, struct msi_json_text key, struct group *group) {
    struct msi_json *in = &r->in;
    if (msi_json_is(key, "number"))
        return read_int(in, INT32_MAX, "the number of a group", &group->is.number);
    if (msi_json_is(key, "size")) return read_int(in, INT32_MAX, "the size of a group", &group->is.size);
    if (msi_json_is(key, "rank")) return read_int(in, INT32_MAX, "a rank", &group->is.rank);
    if (msi_json_is(key, "floor")) return read_number(in, INT64_MAX, "a sequence number", &group->floor);
    if (msi_json_is(key, "forgotten")) return read_number(in, INT64_MAX, "a count", &group->forgotten);
    if (msi_json_is(key, "id")) return read_text(r, &group->id);
    if (msi_json_is(key, "name")) return read_text(r, &group->name);
    if (msi_json_is(key, "ranks")) return read_ranks(r, group);
    return msi_json_skip(in);
}

static bool keep_group(struct reader *r, struct group *group, const char *at) {
    if (!group->id || !group->name) return refuse(&r->in, at, "a group with id and name");
    if (group->is.size < 1 || group->is.size != group->ranks_count || group->is.rank >= group->is.size)
        return refuse(&r->in, at, "a group with as many ranks as its size, its rank among them");
    if (msi_op_stats_find_group(r->stats, group->id) >= 0)
        return refuse(&r->in, at, "a group that was not there before");
    group->is.id = group->id;
    group->is.name = group->name;
    group->is.ranks = group->ranks;
    int made = msi_op_stats_new_group(r->stats, &group->is);
    if (made < 0) return no_memory(r);
    r->stats->groups[made].floor = group->floor;
    r->stats->groups[made].forgotten = group->forgotten;
    return true;
}

static bool read_group(struct reader *r) {
    struct group group = {.is.size = 0};
    struct msi_json_text key;
    msi_json_peek(&r->in);
    const char *at = r->in.at;
    if (r->stats->group_count == MSI_OP_STATS_ROWS) return msi_json_fail(&r->in, "at most 4096 groups");
    bool ok = msi_json_object(&r->in);
    while (ok && msi_json_key(&r->in, &key)) ok = read_group_key(r, key, &group);
    ok = ok && !r->in.expected && keep_group(r, &group, at);
    free(group.id);
    free(group.name);
    free(group.ranks);
    return ok;
}

/* ---- rows ---- */

struct row {
    struct msi_op_stats_row is;
    char *name, *call, *function;
};

static bool read_durations(struct reader *r, struct msi_op_stats_row *row) {
    uint64_t ns = 0, more = 0;
    if (!msi_json_array(&r->in)) return false;
    while (msi_json_item(&r->in)) {
        if (row->histogram.buckets || row->histogram.count == MSI_HISTOGRAM_EXACT)
            return msi_json_fail(&r->in, "at most 65536 durations, and no buckets beside them");
        if (!read_number(&r->in, (1ull << MSI_HISTOGRAM_TOP) - ns, "a duration below 78 hours", &more))
            return false;
        if (!msi_op_stats_time(r->stats, row, ns += more)) return no_memory(r);
    }
    return true;
}

static bool read_buckets(struct reader *r, struct msi_op_stats_row *row) {
    struct msi_histogram *histogram = &row->histogram;
    uint64_t bucket = 0, times = 0;
    if (histogram->count) return msi_json_fail(&r->in, "durations or buckets, not both");
    if (!msi_json_array(&r->in)) return false;
    if (!msi_histogram_coarsen(histogram)) return no_memory(r);
    while (msi_json_item(&r->in)) {
        if (!read_number(&r->in, MSI_HISTOGRAM_BUCKETS - 1, "the number of a bucket", &bucket)) return false;
        if (!msi_json_item(&r->in)) return msi_json_fail(&r->in, "the bucket's count");
        if (!read_number(&r->in, INT64_MAX - histogram->count, "a count", &times)) return false;
        histogram->buckets[bucket] += times;
        histogram->count += times;
    }
    return true;
}

static bool read_share(struct reader *r, enum msi_share *share) {
    struct msi_json_text text;
    msi_json_peek(&r->in);
    const char *at = r->in.at;
    if (!msi_json_string(&r->in, &text)) return false;
    for (int i = 0; i <= MSI_SHARE_TWICE; i++) {
        if (!msi_json_is(text, msi_share_names[i])) continue;
        *share = (enum msi_share)i;
        return true;
    }
    return refuse(&r->in, at, "\"none\", \"whole\", \"part\" or \"twice\"");
}

static bool read_row_group(struct reader *r, int *group) {
    static const char expected[] = "a group that was listed before";
    if (!r->stats->group_count) return msi_json_fail(&r->in, expected);
    return read_int(&r->in, (int)r->stats->group_count - 1, expected, group);
}

static bool read_row_number(struct reader *r, struct msi_json_text key, struct msi_op_stats_row *row) {
    const struct {
        const char *key;
        uint64_t *value;
    } numbers[] = {
        {"bytes", &row->bytes}, {"count", &row->count},       {"failed", &row->failed},
        {"ns", &row->total_ns}, {"least_ns", &row->least_ns}, {"most_ns", &row->most_ns},
        {"works", &row->works}, {"works_ns", &row->works_ns}, {"waited_ns", &row->waited_ns},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (msi_json_is(key, numbers[i].key))
            return read_number(&r->in, INT64_MAX, "a count", numbers[i].value);
    return msi_json_skip(&r->in);
}

static bool read_row_key(struct reader *r, struct msi_json_text key, struct row *row) {
    struct msi_json *in = &r->in;
    if (msi_json_is(key, "name")) return read_text(r, &row->name);
    if (msi_json_is(key, "call")) return read_text(r, &row->call);
    if (msi_json_is(key, "function")) return read_text(r, &row->function);
    if (msi_json_is(key, "group")) return read_row_group(r, &row->is.group);
    if (msi_json_is(key, "share")) return read_share(r, &row->is.share);
    if (msi_json_is(key, "message")) return msi_json_bool(in, &row->is.message);
    if (msi_json_is(key, "durations")) return read_durations(r, &row->is);
    if (msi_json_is(key, "buckets")) return read_buckets(r, &row->is);
    return read_row_number(r, key, &row->is);
}

static bool check_row(struct reader *r, const struct row *row, const char *at) {
    const struct msi_op_stats_row *is = &row->is;
    if (!row->name || !row->call) return refuse(&r->in, at, "a row with name and call");
    if (is->count != is->histogram.count)
        return refuse(&r->in, at, "a row with as many durations as its count");
    if (is->works > is->count || is->waited_ns > is->works_ns || is->works_ns > is->total_ns)
        return refuse(&r->in, at, "a row whose works are a part of it");
    return true;
}

/* The row's numbers without its texts, which are moved there. */
static void move_row(struct msi_op_stats_row *to, struct msi_op_stats_row *from) {
    struct msi_op_stats_row made = *from;
    made.name = to->name;
    made.call = to->call;
    made.function = to->function;
    made.group = to->group;
    from->histogram = (struct msi_histogram){0};
    *to = made;
}

static bool keep_row(struct reader *r, struct row *row, const char *at) {
    struct msi_op_stats *stats = r->stats;
    if (!check_row(r, row, at)) return false;
    if (row->is.group < 0) return refuse(&r->in, at, "a row with a group");
    struct msi_op_stats_call key = {.name = row->name,
                                    .call = row->call,
                                    .function = row->function,
                                    .group = &stats->groups[row->is.group].is,
                                    .bytes = row->is.bytes};
    if (msi_op_stats_find_row(stats, &key) >= 0) return refuse(&r->in, at, "a row that was not there before");
    int made = msi_op_stats_new_row(stats, &key, row->is.group);
    if (made < 0) return no_memory(r);
    move_row(&stats->rows[made], &row->is);
    return true;
}

static bool keep_other(struct reader *r, struct row *row, const char *at) {
    if (!check_row(r, row, at)) return false;
    if (r->stats->other.histogram.count) return refuse(&r->in, at, "\"other\" once");
    msi_histogram_free(&r->stats->other.histogram);
    row->is.bytes = 0;
    row->is.share = MSI_SHARE_NONE;
    move_row(&r->stats->other, &row->is);
    return true;
}

static bool read_row(struct reader *r, bool (*keep)(struct reader *, struct row *, const char *)) {
    struct row row = {.is.group = -1};
    struct msi_json_text key;
    msi_json_peek(&r->in);
    const char *at = r->in.at;
    if (r->stats->row_count == MSI_OP_STATS_ROWS && keep == keep_row)
        return msi_json_fail(&r->in, "at most 4096 rows");
    bool ok = msi_json_object(&r->in);
    while (ok && msi_json_key(&r->in, &key)) ok = read_row_key(r, key, &row);
    ok = ok && !r->in.expected && keep(r, &row, at);
    msi_histogram_free(&row.is.histogram);
    free(row.name);
    free(row.call);
    free(row.function);
    return ok;
}

/* ---- the whole ---- */

static bool read_groups(struct reader *r) {
    if (!msi_json_array(&r->in)) return false;
    while (msi_json_item(&r->in))
        if (!read_group(r)) return false;
    return true;
}

static bool read_rows(struct reader *r) {
    if (!msi_json_array(&r->in)) return false;
    while (msi_json_item(&r->in))
        if (!read_row(r, keep_row)) return false;
    return true;
}

static bool read_calls(struct reader *r) {
    struct msi_json *in = &r->in;
    uint64_t row = 0, seq = 0, ns = 0;
    if (!msi_json_array(in)) return false;
    while (msi_json_item(in)) {
        if (!r->stats->row_count || r->stats->mark_count == MSI_OP_STATS_MARKS)
            return msi_json_fail(in, "at most 16384 calls, after their rows");
        if (!read_number(in, r->stats->row_count - 1, "a row that was listed before", &row)) return false;
        if (!msi_json_item(in)) return msi_json_fail(in, "the call's sequence number");
        if (!read_number(in, INT64_MAX - 1, "a sequence number", &seq)) return false;
        if (!msi_json_item(in)) return msi_json_fail(in, "the call's duration");
        if (!read_number(in, 1ull << MSI_HISTOGRAM_TOP, "a duration below 78 hours", &ns)) return false;
        msi_op_stats_call_ref(r->stats, (int)row, seq, ns);
    }
    return true;
}

static bool read_host(struct reader *r) {
    struct msi_json_text text;
    if (!msi_json_string(&r->in, &text)) return false;
    msi_json_copy(text, r->who.host, sizeof r->who.host);
    return true;
}

static bool read_key(struct reader *r, struct msi_json_text key) {
    struct msi_json *in = &r->in;
    if (msi_json_is(key, "version")) {
        msi_json_peek(in);
        const char *at = in->at;
        return read_number(in, INT64_MAX, "1", &r->version) &&
               (r->version == 1 || refuse(in, at, "version 1"));
    }
    if (msi_json_is(key, "rank")) return read_int(in, INT32_MAX - 1, "a rank", &r->who.rank);
    if (msi_json_is(key, "size")) return read_int(in, INT32_MAX, "a number of ranks", &r->who.size);
    if (msi_json_is(key, "host")) return read_host(r);
    if (msi_json_is(key, "pid")) return msi_json_int(in, &r->who.pid);
    if (msi_json_is(key, "debug")) return msi_json_bool(in, &r->debug);
    if (msi_json_is(key, "lost")) return read_number(in, INT64_MAX, "a count", &r->stats->lost);
    if (msi_json_is(key, "groups")) return read_groups(r);
    if (msi_json_is(key, "rows")) return read_rows(r);
    if (msi_json_is(key, "other")) return read_row(r, keep_other);
    if (msi_json_is(key, "calls")) return read_calls(r);
    return msi_json_skip(in);
}

static bool read_all(struct reader *r) {
    struct msi_json_text key;
    bool ok = msi_json_object(&r->in);
    while (ok && msi_json_key(&r->in, &key)) ok = read_key(r, key);
    if (!ok || !msi_json_end(&r->in)) return false;
    if (r->version == 1 && r->who.rank < r->who.size) return true;
    return msi_json_fail(&r->in, "version, rank and size of the world before the end");
}

static mst_status explain(const struct reader *r) {
    char why[160];
    if (r->no_memory) return msi_fail_memory();
    struct msi_json_place place = msi_json_place(&r->in, r->in.at);
    msi_json_explain(&r->in, why, sizeof why);
    return msi_fail(MST_ERR_PROTOCOL, NULL, "the profile of a rank cannot be read: line %zu, column %zu: %s",
                    place.line, place.column, why);
}

mst_status msi_op_stats_read(const void *bytes, size_t len, struct msi_op_stats_who *who,
                             struct msi_op_stats **stats) {
    struct reader r = {.in = msi_json_of(bytes, len),
                       .stats = msi_op_stats_new(true)}; /* debug: functions count */
    if (!r.stats) return msi_fail_memory();
    if (!read_all(&r)) {
        msi_op_stats_free(r.stats);
        return explain(&r);
    }
    r.stats->debug = r.debug;
    if (who) *who = r.who;
    *stats = r.stats;
    return MST_OK;
}
