/*
 * op_stats_codec.c - statistics as bytes, which ranks exchange through the store. See op_stats.h.
 *
 *     version debug lost
 *     count, groups: number size rank first_seq forgotten id name, then size ranks
 *     count, rows, and the row "other": name call has_function [function] group share message NUMBERS coarse,
 *            then count and durations, each as the difference to the one before, or count and (bucket, count)
 *     count, calls: row seq ns, oldest first
 *
 * A number has 7 bits per byte, the lowest first; the highest bit says that more bytes follow. A text is its
 * length, its bytes and a NUL byte. The reader takes hostile bytes: it checks them against the limits of
 * op_stats.h.
 */
#include "base/error.h"
#include "prof/summary/op_stats.h"

#include <stdlib.h>

enum { VERSION = 1, NUMBERS = 9 };

static void list_numbers(struct msi_op_stats_row *row, uint64_t *list[NUMBERS]) {
    uint64_t *const numbers[NUMBERS] = {&row->bytes,    &row->count,    &row->failed,
                                        &row->total_ns, &row->least_ns, &row->most_ns,
                                        &row->works,    &row->works_ns, &row->waited_ns};
    memcpy(list, numbers, sizeof numbers);
}

/* ---- writing ---- */

/* At most 63 bits, which is the limit of the reader. */
static void put(struct msi_buf *to, uint64_t value) {
    if (value > INT64_MAX) value = INT64_MAX;
    for (; value > 127; value >>= 7) msi_buf_add_u8(to, (uint8_t)(value | 128));
    msi_buf_add_u8(to, (uint8_t)value);
}

static void put_text(struct msi_buf *to, const char *text) {
    size_t n = strlen(text);
    put(to, n);
    msi_buf_add(to, text, n + 1);
}

static void put_group(struct msi_buf *to, const struct msi_op_stats_group *group) {
    const struct msi_prof_group *is = group->is;
    put(to, (uint64_t)is->number);
    put(to, (uint64_t)is->size);
    put(to, (uint64_t)is->rank);
    put(to, group->first_seq);
    put(to, group->forgotten);
    put_text(to, is->id);
    put_text(to, is->name);
    for (int i = 0; i < is->size; i++) put(to, (uint64_t)is->ranks[i]);
}

static void put_histogram(struct msi_buf *to, struct msi_histogram *histogram) {
    uint64_t n = 0, before = 0;
    msi_histogram_sort(histogram);
    for (size_t i = 0; histogram->buckets && i < MSI_HISTOGRAM_BUCKETS; i++) n += histogram->buckets[i] > 0;
    put(to, histogram->buckets != NULL);
    put(to, histogram->buckets ? n : histogram->count);
    for (size_t i = 0; histogram->buckets && i < MSI_HISTOGRAM_BUCKETS; i++) {
        if (!histogram->buckets[i]) continue;
        put(to, i);
        put(to, histogram->buckets[i]);
    }
    for (uint64_t i = 0; !histogram->buckets && i < histogram->count; before = histogram->exact[i++])
        put(to, histogram->exact[i] - before);
}

static void put_row(struct msi_buf *to, struct msi_op_stats_row *row) {
    uint64_t *numbers[NUMBERS];
    list_numbers(row, numbers);
    put_text(to, row->name);
    put_text(to, row->call);
    put(to, row->function != NULL);
    if (row->function) put_text(to, row->function);
    put(to, (uint64_t)row->group + 1);
    put(to, row->share);
    put(to, row->message);
    for (int i = 0; i < NUMBERS; i++) put(to, *numbers[i]);
    put_histogram(to, &row->histogram);
}

void msi_op_stats_write(struct msi_op_stats *stats, struct msi_buf *to) {
    put(to, VERSION);
    put(to, stats->debug);
    put(to, stats->lost);
    put(to, stats->group_count);
    for (size_t i = 0; i < stats->group_count; i++) put_group(to, &stats->groups[i]);
    put(to, stats->row_count);
    for (size_t i = 0; i < stats->row_count; i++) put_row(to, &stats->rows[i]);
    put_row(to, &stats->other);
    put(to, stats->call_count);
    for (size_t i = 0; i < stats->call_count; i++) {
        const struct msi_op_stats_call_ref *call = &stats->calls[(stats->calls_next + i) % stats->call_count];
        put(to, call->row);
        put(to, call->seq);
        put(to, call->ns);
    }
}

/* ---- reading ---- */

struct reader {
    const char *begin, *at, *end;
    const char *expected; /* at the first error; NULL: none */
    bool no_memory;
    struct msi_op_stats *stats;
};

static bool fail(struct reader *r, const char *expected) {
    if (!r->expected) r->expected = expected;
    return false;
}

static bool no_memory(struct reader *r) {
    r->no_memory = true;
    return fail(r, "more memory");
}

static bool get(struct reader *r, uint64_t most, const char *expected, uint64_t *value) {
    uint64_t v = 0;
    const char *at = r->at;
    for (int shift = 0;; shift += 7, at++) {
        if (at == r->end || shift > 56) return fail(r, expected);
        v |= ((uint64_t)*at & 127) << shift;
        if (!(*at & 128)) break;
    }
    if (v > most) return fail(r, expected);
    r->at = at + 1;
    *value = v;
    return true;
}

static bool get_int(struct reader *r, int most, const char *expected, int *value) {
    uint64_t v = 0;
    if (!get(r, (uint64_t)most, expected, &v)) return false;
    *value = (int)v;
    return true;
}

static bool get_bool(struct reader *r, const char *expected, bool *value) {
    uint64_t v = 0;
    if (!get(r, 1, expected, &v)) return false;
    *value = v;
    return true;
}

/* A view of the text. */
static bool get_text(struct reader *r, const char **text) {
    static const char expected[] = "a text without zero bytes";
    uint64_t n = 0;
    if (!get(r, INT64_MAX, expected, &n)) return false;
    if (n >= (uint64_t)(r->end - r->at) || memchr(r->at, 0, (size_t)n + 1) != r->at + n)
        return fail(r, expected);
    *text = r->at;
    r->at += n + 1;
    return true;
}

static bool get_group(struct reader *r) {
    struct msi_prof_group is = {0};
    struct msi_op_stats_group group = {0};
    if (!get_int(r, INT32_MAX, "the number of a group", &is.number) ||
        !get_int(r, INT32_MAX, "the size of a group", &is.size) ||
        !get_int(r, INT32_MAX, "a rank", &is.rank) ||
        !get(r, INT64_MAX, "a sequence number", &group.first_seq) ||
        !get(r, INT64_MAX, "a count", &group.forgotten) || !get_text(r, &is.id) || !get_text(r, &is.name))
        return false;
    if (is.size < 1 || is.size > r->end - r->at || is.rank >= is.size)
        return fail(r, "a group with as many ranks as its size, its rank among them");
    if (msi_op_stats_find_group(r->stats, is.id) >= 0) return fail(r, "a group that is listed once");
    int *ranks = malloc((size_t)is.size * sizeof *ranks);
    if (!ranks) return no_memory(r);
    bool ok = true;
    for (int i = 0; ok && i < is.size; i++) ok = get_int(r, INT32_MAX - 1, "a rank", &ranks[i]);
    is.ranks = ranks;
    int made = ok ? msi_op_stats_new_group(r->stats, &is) : 0;
    free(ranks);
    if (made < 0) return no_memory(r);
    if (!ok) return false;
    r->stats->groups[made].first_seq = group.first_seq;
    r->stats->groups[made].forgotten = group.forgotten;
    return true;
}

static bool get_durations(struct reader *r, uint64_t n, struct msi_op_stats_row *row) {
    uint64_t ns = 0, more;
    for (uint64_t i = 0; i < n; i++) {
        if (row->histogram.buckets || i == MSI_HISTOGRAM_EXACT) return fail(r, "at most 65536 durations");
        if (!get(r, (1ull << MSI_HISTOGRAM_TOP) - ns, "a duration below 78 hours", &more)) return false;
        if (!msi_op_stats_time(r->stats, row, ns += more)) return no_memory(r);
    }
    return true;
}

static bool get_buckets(struct reader *r, uint64_t n, struct msi_histogram *histogram) {
    uint64_t bucket, times;
    if (!msi_histogram_coarsen(histogram)) return no_memory(r);
    for (uint64_t i = 0; i < n; i++) {
        if (!get(r, MSI_HISTOGRAM_BUCKETS - 1, "the number of a bucket", &bucket) ||
            !get(r, INT64_MAX - histogram->count, "the count of a bucket", &times))
            return false;
        histogram->buckets[bucket] += times;
        histogram->count += times;
    }
    return true;
}

/* The texts are views. The histogram is the caller's, also on an error. */
static bool get_row(struct reader *r, struct msi_op_stats_row *row) {
    bool has_function, coarse;
    uint64_t *numbers[NUMBERS], n;
    int share, group;
    list_numbers(row, numbers);
    if (!get_text(r, &row->name) || !get_text(r, &row->call) ||
        !get_bool(r, "whether there is a function", &has_function) ||
        (has_function && !get_text(r, &row->function)) ||
        !get_int(r, (int)r->stats->group_count, "a group that was listed before", &group) ||
        !get_int(r, MSI_SHARE_TWICE, "a share", &share) ||
        !get_bool(r, "whether it is a message", &row->message))
        return false;
    row->group = group - 1;
    row->share = (enum msi_share)share;
    for (int i = 0; i < NUMBERS; i++)
        if (!get(r, INT64_MAX, "a count", numbers[i])) return false;
    if (!get_bool(r, "durations or buckets", &coarse) || !get(r, INT64_MAX, "a count", &n)) return false;
    if (!(coarse ? get_buckets(r, n, &row->histogram) : get_durations(r, n, row))) return false;
    if (row->count != row->histogram.count) return fail(r, "a row with as many durations as its count");
    if (row->works > row->count || row->waited_ns > row->works_ns || row->works_ns > row->total_ns)
        return fail(r, "a row whose works are a part of it");
    return true;
}

static bool add_row(struct reader *r, struct msi_op_stats_row *row) {
    struct msi_op_stats *stats = r->stats;
    if (row->group < 0) return fail(r, "a row with a group");
    struct msi_op_stats_call key = {.name = row->name,
                                    .call = row->call,
                                    .function = row->function,
                                    .group = stats->groups[row->group].is,
                                    .bytes = row->bytes};
    if (msi_op_stats_find_row(stats, &key) >= 0) return fail(r, "a row that is listed once");
    int made = msi_op_stats_new_row(stats, &key, row->group);
    if (made < 0) return no_memory(r);
    row->name = stats->rows[made].name;
    row->call = stats->rows[made].call;
    row->function = stats->rows[made].function;
    stats->rows[made] = *row;
    return true;
}

static bool add_other(struct reader *r, struct msi_op_stats_row *row) {
    if (row->group >= 0) return fail(r, "\"other\" without a group");
    row->name = row->call = "other";
    row->function = NULL;
    r->stats->other = *row;
    return true;
}

static bool read_row(struct reader *r, bool (*add)(struct reader *, struct msi_op_stats_row *)) {
    struct msi_op_stats_row row = {.group = -1};
    if (get_row(r, &row) && add(r, &row)) return true;
    msi_histogram_free(&row.histogram);
    return false;
}

static bool read_call(struct reader *r) {
    uint64_t row, seq, ns;
    if (!r->stats->row_count) return fail(r, "calls after their rows");
    if (!get(r, r->stats->row_count - 1, "a row that was listed before", &row) ||
        !get(r, INT64_MAX - 1, "the sequence number of a call", &seq) ||
        !get(r, 1ull << MSI_HISTOGRAM_TOP, "the duration of a call", &ns))
        return false;
    msi_op_stats_remember(r->stats, (int)row, seq, ns);
    return true;
}

static bool read_all(struct reader *r, bool *debug) {
    uint64_t version, n;
    if (!get(r, INT64_MAX, "version 1", &version)) return false;
    if (version != VERSION) return fail(r, "version 1");
    if (!get_bool(r, "debug", debug) || !get(r, INT64_MAX, "a count", &r->stats->lost)) return false;
    if (!get(r, MSI_OP_STATS_ROWS, "at most 4096 groups", &n)) return false;
    while (n--)
        if (!get_group(r)) return false;
    if (!get(r, MSI_OP_STATS_ROWS, "at most 4096 rows", &n)) return false;
    while (n--)
        if (!read_row(r, add_row)) return false;
    if (!read_row(r, add_other) || !get(r, MSI_OP_STATS_CALLS, "at most 16384 calls", &n)) return false;
    while (n--)
        if (!read_call(r)) return false;
    return r->at == r->end || fail(r, "the end");
}

mst_status msi_op_stats_read(const void *bytes, size_t len, struct msi_op_stats **stats) {
    struct reader r = {.begin = bytes, .at = bytes, .end = (const char *)bytes + len};
    bool debug = false;
    r.stats = msi_op_stats_new(true); /* debug: functions are part of the keys */
    if (!r.stats) return msi_fail_memory();
    if (read_all(&r, &debug)) {
        r.stats->debug = debug;
        *stats = r.stats;
        return MST_OK;
    }
    msi_op_stats_free(r.stats);
    if (r.no_memory) return msi_fail_memory();
    return msi_fail(MST_ERR_PROTOCOL, NULL, "cannot read the profile of a rank: byte %zu: %s was expected",
                    (size_t)(r.at - r.begin), r.expected);
}
