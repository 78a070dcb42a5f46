/*
 * op_stats_codec.c - statistics as bytes, which ranks exchange through the store. See op_stats.h.
 *
 *     version debug lost run_ns sample_bits
 *     count, groups: number size rank id name, then size ranks
 *     count, rows, and the row "other": name call has_function [function] group share message NUMBERS coarse,
 *            then count and durations, each as the difference to the one before, or count and (bucket, count)
 *     count, calls: row seq took comm known [begin] and of messages send peer tag
 *
 * A number has 7 bits per byte, the lowest first; the highest bit says that more bytes follow. A text is its
 * length, its bytes and a NUL byte. A begin is the difference to the one before. Differences, peers and tags
 * may be negative: bit 0 has the sign. The reader takes hostile bytes: it checks them against the limits of
 * op_stats.h. The code_ functions write a value, or read it: both directions have one description.
 */
#include "base/error.h"
#include "prof/summary/op_stats.h"

#include <stdlib.h>

enum { VERSION = 2 };

struct codec {
    struct msi_op_stats *stats;
    struct msi_buf *to; /* of the writer; NULL: the others are the reader's */
    const char *begin, *at, *end;
    int64_t last_begin;   /* of the last call whose begin is known */
    const char *expected; /* at the first error; NULL: none */
    bool no_memory;
};

static bool fail(struct codec *c, const char *expected) {
    if (!c->expected) c->expected = expected;
    return false;
}

static bool no_memory(struct codec *c) {
    c->no_memory = true;
    return fail(c, "more memory");
}

/* ---- values ---- */

/* At most 63 bits, which is the limit of the reader. */
static void put(struct msi_buf *to, uint64_t value) {
    if (value > INT64_MAX) value = INT64_MAX;
    for (; value > 127; value >>= 7) msi_buf_add_u8(to, (uint8_t)(value | 128));
    msi_buf_add_u8(to, (uint8_t)value);
}

static bool get(struct codec *c, uint64_t most, const char *expected, uint64_t *value) {
    uint64_t v = 0;
    const char *at = c->at;
    for (int shift = 0;; shift += 7, at++) {
        if (at == c->end || shift > 56) return fail(c, expected);
        v |= ((uint64_t)*at & 127) << shift;
        if (!(*at & 128)) break;
    }
    if (v > most) return fail(c, expected);
    c->at = at + 1;
    *value = v;
    return true;
}

static bool code(struct codec *c, uint64_t most, const char *expected, uint64_t *value) {
    if (!c->to) return get(c, most, expected, value);
    put(c->to, *value);
    return true;
}

static bool code_int(struct codec *c, int most, const char *expected, int *value) {
    uint64_t v = (uint64_t)*value;
    if (!code(c, (uint64_t)most, expected, &v)) return false;
    *value = (int)v;
    return true;
}

static bool code_bool(struct codec *c, const char *expected, bool *value) {
    int v = *value;
    if (!code_int(c, 1, expected, &v)) return false;
    *value = v;
    return true;
}

static bool code_signed(struct codec *c, int64_t most, const char *expected, int64_t *value) {
    uint64_t v = *value < 0 ? (uint64_t) - *value << 1 | 1 : (uint64_t)*value << 1;
    if (!code(c, (uint64_t)most << 1 | 1, expected, &v)) return false;
    *value = v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
    return true;
}

static bool code_int32(struct codec *c, const char *expected, int32_t *value) {
    int64_t v = *value;
    if (!code_signed(c, INT32_MAX, expected, &v)) return false;
    *value = (int32_t)v;
    return true;
}

/* A text that was read is a view. */
static bool code_text(struct codec *c, const char **text) {
    static const char expected[] = "a text without zero bytes";
    const char *given = *text ? *text : "";
    uint64_t n = c->to ? strlen(given) : 0;
    if (!code(c, INT64_MAX, expected, &n)) return false;
    if (c->to) {
        msi_buf_add(c->to, given, (size_t)n + 1);
        return true;
    }
    if (n >= (uint64_t)(c->end - c->at) || memchr(c->at, 0, (size_t)n + 1) != c->at + n)
        return fail(c, expected);
    *text = c->at;
    c->at += n + 1;
    return true;
}

/* ---- groups ---- */

/* All but the ranks. */
static bool code_group(struct codec *c, struct msi_op_stats_group *group) {
    struct msi_prof_group *is = group->is;
    return code_int(c, INT32_MAX, "the number of a group", &is->number) &&
           code_int(c, INT32_MAX, "the size of a group", &is->size) &&
           code_int(c, INT32_MAX, "a rank", &is->rank) && code_text(c, &is->id) && code_text(c, &is->name);
}

static bool write_group(struct codec *c, struct msi_op_stats_group *group) {
    code_group(c, group);
    for (int i = 0; i < group->is->size; i++) put(c->to, (uint64_t)group->is->ranks[i]);
    return true;
}

static bool read_group(struct codec *c) {
    struct msi_prof_group is = {0};
    struct msi_op_stats_group group = {.is = &is};
    if (!code_group(c, &group)) return false;
    if (is.size < 1 || is.size > c->end - c->at || is.rank >= is.size)
        return fail(c, "a group with as many ranks as its size, its rank among them");
    if (msi_op_stats_find_group(c->stats, is.id) >= 0) return fail(c, "a group that is listed once");
    int *ranks = calloc((size_t)is.size, sizeof *ranks);
    if (!ranks) return no_memory(c);
    bool ok = true;
    for (int i = 0; ok && i < is.size; i++) ok = code_int(c, INT32_MAX - 1, "a rank", &ranks[i]);
    is.ranks = ranks;
    int made = ok ? msi_op_stats_new_group(c->stats, &is) : 0;
    free(ranks);
    if (made < 0) return no_memory(c);
    if (!ok) return false;
    return true;
}

/* ---- rows ---- */

static bool write_histogram(struct codec *c, struct msi_histogram *histogram) {
    uint64_t n = 0, before = 0;
    msi_histogram_sort(histogram);
    for (size_t i = 0; histogram->buckets && i < MSI_HISTOGRAM_BUCKETS; i++) n += histogram->buckets[i] > 0;
    put(c->to, histogram->buckets != NULL);
    put(c->to, histogram->buckets ? n : histogram->count);
    for (size_t i = 0; histogram->buckets && i < MSI_HISTOGRAM_BUCKETS; i++) {
        if (!histogram->buckets[i]) continue;
        put(c->to, i);
        put(c->to, histogram->buckets[i]);
    }
    for (uint64_t i = 0; !histogram->buckets && i < histogram->count; before = histogram->exact[i++])
        put(c->to, histogram->exact[i] - before);
    return true;
}

static bool get_durations(struct codec *c, uint64_t n, struct msi_op_stats_row *row) {
    uint64_t ns = 0, more;
    for (uint64_t i = 0; i < n; i++) {
        if (row->histogram.buckets || i == MSI_HISTOGRAM_EXACT) return fail(c, "at most 65536 durations");
        if (!get(c, (1ull << MSI_HISTOGRAM_TOP) - ns, "a duration below 78 hours", &more)) return false;
        if (!msi_op_stats_time(c->stats, row, ns += more)) return no_memory(c);
    }
    return true;
}

static bool get_buckets(struct codec *c, uint64_t n, struct msi_histogram *histogram) {
    uint64_t bucket, times;
    if (!msi_histogram_coarsen(histogram)) return no_memory(c);
    for (uint64_t i = 0; i < n; i++) {
        if (!get(c, MSI_HISTOGRAM_BUCKETS - 1, "the number of a bucket", &bucket) ||
            !get(c, INT64_MAX - histogram->count, "the count of a bucket", &times))
            return false;
        histogram->buckets[bucket] += times;
        histogram->count += times;
    }
    return true;
}

static bool read_histogram(struct codec *c, struct msi_op_stats_row *row) {
    bool coarse = false;
    uint64_t n;
    if (!code_bool(c, "durations or buckets", &coarse) || !get(c, INT64_MAX, "a count", &n)) return false;
    if (!(coarse ? get_buckets(c, n, &row->histogram) : get_durations(c, n, row))) return false;
    if (row->count != row->histogram.count) return fail(c, "a row with as many durations as its count");
    if (row->works > row->count || row->waited_ns > row->works_ns || row->works_ns > row->total_ns)
        return fail(c, "a row whose works are a part of it");
    if (row->failed_ns > row->comm_ns) return fail(c, "a row whose failed calls are a part of it");
    return true;
}

/* The histogram is the caller's, also on an error. */
static bool code_row(struct codec *c, struct msi_op_stats_row *row) {
    uint64_t *const numbers[] = {&row->bytes,     &row->count,    &row->failed,   &row->comm_ns,
                                 &row->failed_ns, &row->total_ns, &row->least_ns, &row->most_ns,
                                 &row->works,     &row->works_ns, &row->waited_ns};
    bool has_function = row->function;
    int share = (int)row->share, group = row->group + 1;
    if (!code_text(c, &row->name) || !code_text(c, &row->call) ||
        !code_bool(c, "whether there is a function", &has_function) ||
        (has_function && !code_text(c, &row->function)) ||
        !code_int(c, (int)c->stats->group_count, "a group that was listed before", &group) ||
        !code_int(c, MSI_SHARE_TWICE, "a share", &share) ||
        !code_bool(c, "whether it is a message", &row->message))
        return false;
    row->group = group - 1;
    row->share = (enum msi_share)share;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!code(c, INT64_MAX, "a count", numbers[i])) return false;
    return c->to ? write_histogram(c, &row->histogram) : read_histogram(c, row);
}

static bool add_row(struct codec *c, struct msi_op_stats_row *row) {
    struct msi_op_stats *stats = c->stats;
    if (row->group < 0) return fail(c, "a row with a group");
    struct msi_record key = {
        .name = row->name, .call = row->call, .group = stats->groups[row->group].is, .bytes = row->bytes};
    if (msi_op_stats_find_row(stats, &key, row->function) >= 0) return fail(c, "a row that is listed once");
    int made = msi_op_stats_new_row(stats, &key, row->function, row->group);
    if (made < 0) return no_memory(c);
    row->name = stats->rows[made].name;
    row->call = stats->rows[made].call;
    row->function = stats->rows[made].function;
    stats->rows[made] = *row;
    return true;
}

static bool add_other(struct codec *c, struct msi_op_stats_row *row) {
    if (row->group >= 0) return fail(c, "\"other\" without a group");
    row->name = row->call = "other";
    row->function = NULL;
    c->stats->other = *row;
    return true;
}

static bool read_row(struct codec *c, bool (*add)(struct codec *, struct msi_op_stats_row *)) {
    struct msi_op_stats_row row = {.group = -1};
    if (code_row(c, &row) && add(c, &row)) return true;
    msi_histogram_free(&row.histogram);
    return false;
}

/* ---- calls ---- */

static bool code_begin(struct codec *c, int64_t *begin) {
    bool known = *begin != MSI_TIME_UNKNOWN;
    int64_t difference = *begin - (known ? c->last_begin : *begin);
    if (!code_bool(c, "whether the begin of a call is known", &known)) return false;
    *begin = MSI_TIME_UNKNOWN;
    if (!known) return true;
    if (!code_signed(c, 2 * MSI_OP_STATS_BEGIN_MOST, "the begin of a call", &difference)) return false;
    *begin = c->last_begin + difference;
    if (*begin > MSI_OP_STATS_BEGIN_MOST || *begin < -MSI_OP_STATS_BEGIN_MOST)
        return fail(c, "the begin of a call");
    c->last_begin = *begin;
    return true;
}

static bool code_call(struct codec *c, struct msi_op_stats_call_ref call) {
    const uint64_t most = 1ull << MSI_HISTOGRAM_TOP;
    uint64_t row = call.row;
    if (!c->stats->row_count) return fail(c, "calls after their rows");
    if (!code(c, c->stats->row_count - 1, "a row that was listed before", &row) ||
        !code(c, INT64_MAX - 1, "the sequence number of a call", &call.seq) ||
        !code(c, most, "the duration of a call", &call.took) ||
        !code(c, call.took, "the communication time of a call", &call.comm) || !code_begin(c, &call.begin))
        return false;
    call.row = (uint32_t)row;
    if (c->stats->rows[row].message &&
        (!code_bool(c, "whether it is a send", &call.send) || !code_int32(c, "a peer", &call.peer) ||
         !code_int32(c, "a tag", &call.tag)))
        return false;
    if (!c->to) msi_op_stats_remember(c->stats, &call);
    return true;
}

static bool code_all(struct codec *c) {
    struct msi_op_stats *s = c->stats;
    uint64_t version = VERSION, groups = s->group_count, rows = s->row_count, calls = s->call_count;
    if (!code(c, INT64_MAX, "version 2", &version)) return false;
    if (version != VERSION) return fail(c, "version 2");
    if (!code_bool(c, "debug", &s->debug) || !code(c, INT64_MAX, "a count", &s->lost) ||
        !code(c, INT64_MAX, "the run time", &s->run_ns) ||
        !code_int(c, MSI_OP_STATS_BITS, "the size of the sample", &s->sample_bits))
        return false;
    if (!code(c, MSI_OP_STATS_ROWS, "at most 4096 groups", &groups)) return false;
    for (uint64_t i = 0; i < groups; i++)
        if (!(c->to ? write_group(c, &s->groups[i]) : read_group(c))) return false;
    if (!code(c, MSI_OP_STATS_ROWS, "at most 4096 rows", &rows)) return false;
    for (uint64_t i = 0; i < rows; i++)
        if (!(c->to ? code_row(c, &s->rows[i]) : read_row(c, add_row))) return false;
    if (!(c->to ? code_row(c, &s->other) : read_row(c, add_other))) return false;
    if (!code(c, MSI_OP_STATS_CALLS, "at most 16384 calls", &calls)) return false;
    for (uint64_t i = 0; i < calls; i++)
        if (!code_call(c, c->to ? s->calls[i] : (struct msi_op_stats_call_ref){0})) return false;
    return c->at == c->end || fail(c, "the end");
}

void msi_op_stats_write(struct msi_op_stats *stats, struct msi_buf *to) {
    code_all(&(struct codec){.stats = stats, .to = to});
}

mst_status msi_op_stats_read(const void *bytes, size_t len, struct msi_op_stats **stats) {
    struct codec c = {
        .stats = msi_op_stats_new(false), .begin = bytes, .at = bytes, .end = (const char *)bytes + len};
    if (!c.stats) return msi_fail_memory();
    if (code_all(&c)) {
        *stats = c.stats;
        return MST_OK;
    }
    msi_op_stats_free(c.stats);
    if (c.no_memory) return msi_fail_memory();
    return msi_fail(MST_ERR_PROTOCOL, NULL, "cannot read the profile of a rank: byte %zu: expected %s",
                    (size_t)(c.at - c.begin), c.expected);
}
