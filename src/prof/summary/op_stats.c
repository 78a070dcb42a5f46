/* op_stats.c - see op_stats.h. */
#include "prof/summary/op_stats.h"
#include "base/hash.h"
#include "prof/summary/comm_time.h"

#include <stdlib.h>
#include <string.h>

struct msi_op_stats *msi_op_stats_new(bool debug) {
    struct msi_op_stats *stats = calloc(1, sizeof *stats);
    if (!stats) return NULL;
    stats->debug = debug;
    stats->other = (struct msi_op_stats_row){.name = "other", .call = "other", .group = -1};
    return stats;
}

void msi_op_stats_free(struct msi_op_stats *stats) {
    if (!stats) return;
    for (size_t i = 0; i < stats->row_count; i++) msi_histogram_free(&stats->rows[i].histogram);
    for (size_t i = 0; i < stats->group_count; i++) free(stats->groups[i].is);
    msi_histogram_free(&stats->other.histogram);
    free(stats->rows);
    free(stats->groups);
    free(stats->calls);
    msi_table_free(&stats->keys);
    msi_buf_free(&stats->key);
    free(stats);
}

/* Grows an array of count elements for one more; NULL without memory. */
static void *grow(void *items, size_t size, size_t count, size_t *cap) {
    if (count < *cap) return items;
    size_t more = *cap ? *cap * 2 : 16;
    void *moved = realloc(items, more * size);
    if (moved) *cap = more;
    return moved;
}

/* ---- groups ---- */

int msi_op_stats_find_group(const struct msi_op_stats *stats, const char *id) {
    for (size_t i = 0; i < stats->group_count; i++)
        if (!strcmp(stats->groups[i].is->id, id)) return (int)i;
    return -1;
}

struct msi_prof_group *msi_prof_group_copy(const struct msi_prof_group *group) {
    size_t ranks = (size_t)group->size * sizeof *group->ranks;
    size_t id = strlen(group->id) + 1, name = strlen(group->name) + 1;
    struct msi_prof_group *copy = malloc(sizeof *copy + ranks + id + name);
    if (!copy) return NULL;
    *copy = *group;
    int *own_ranks = (int *)(void *)(copy + 1);
    char *texts = (char *)own_ranks + ranks;
    for (int r = 0; r < group->size; r++) own_ranks[r] = group->ranks ? group->ranks[r] : r;
    copy->next = NULL;
    copy->ranks = own_ranks;
    copy->id = memcpy(texts, group->id, id);
    copy->name = memcpy(texts + id, group->name, name);
    return copy;
}

int msi_op_stats_new_group(struct msi_op_stats *stats, const struct msi_prof_group *group) {
    if (stats->group_count == MSI_OP_STATS_ROWS) return -1; /* some have no row, for lack of memory */
    struct msi_op_stats_group *groups =
        grow(stats->groups, sizeof *groups, stats->group_count, &stats->group_cap);
    if (!groups) return -1;
    stats->groups = groups;
    struct msi_prof_group *copy = msi_prof_group_copy(group);
    if (!copy) return -1;
    groups[stats->group_count] = (struct msi_op_stats_group){.is = copy};
    return (int)stats->group_count++;
}

/* ---- rows ---- */

/* Two texts that may be NULL. */
static bool same(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

static bool matches(const struct msi_op_stats *stats, const struct msi_op_stats_row *row,
                    const struct msi_record *key, const char *function) {
    return row->bytes == key->bytes && !strcmp(row->name, key->name) && !strcmp(row->call, key->call) &&
           same(row->function, function) && !strcmp(stats->groups[row->group].is->id, key->group->id);
}

/*
 * Writes the row's key into stats->key: bytes, name, call, the group's id and the function, if callers count.
 */
static bool make_key(struct msi_op_stats *stats, const struct msi_record *key, const char *function) {
    const char *const texts[] = {key->name, key->call, key->group->id, function};
    stats->key.len = 0;
    stats->key.failed = false;
    msi_buf_add(&stats->key, &key->bytes, sizeof key->bytes);
    for (int i = 0; i < 4 && texts[i]; i++) msi_buf_add(&stats->key, texts[i], strlen(texts[i]) + 1);
    return !stats->key.failed;
}

int msi_op_stats_find_row(struct msi_op_stats *stats, const struct msi_record *key, const char *function) {
    if (!make_key(stats, key, function)) return -1;
    uint32_t row = msi_table_find(&stats->keys, stats->key.data, stats->key.len);
    return row == MSI_TABLE_NONE ? -1 : (int)row;
}

int msi_op_stats_new_row(struct msi_op_stats *stats, const struct msi_record *key, const char *function,
                         int group) {
    struct msi_op_stats_row *rows = grow(stats->rows, sizeof *rows, stats->row_count, &stats->row_cap);
    if (!rows) return -1;
    stats->rows = rows;
    if (!make_key(stats, key, function)) return -1;
    uint32_t number = msi_table_add(&stats->keys, stats->key.data, stats->key.len);
    if (number == MSI_TABLE_NONE) return -1;
    const char *name = (const char *)msi_table_key(&stats->keys, number) + sizeof key->bytes;
    const char *call = name + strlen(name) + 1, *id = call + strlen(call) + 1;
    rows[number] = (struct msi_op_stats_row){.name = name,
                                             .call = call,
                                             .function = function ? id + strlen(id) + 1 : NULL,
                                             .group = group,
                                             .share = (enum msi_share)key->share,
                                             .message = key->flags & MSI_RECORD_MESSAGE,
                                             .bytes = key->bytes};
    return (int)stats->row_count++;
}

/* Most calls have the same literals as an earlier one: comparing is cheaper than hashing. */
static uint32_t *guess(struct msi_op_stats *stats, const struct msi_record *call) {
    uint64_t where = (uintptr_t)call->name ^ (uintptr_t)call->group << 7 ^ (uintptr_t)call->function << 13;
    return &stats->recent[(where + call->bytes) * 0x9e3779b97f4a7c15u >> 58];
}

/* NULL without memory. */
static struct msi_op_stats_row *row_for(struct msi_op_stats *stats, const struct msi_record *call) {
    const char *function = stats->debug ? call->function : NULL;
    uint32_t *recent = guess(stats, call);
    if (*recent && matches(stats, &stats->rows[*recent - 1], call, function))
        return &stats->rows[*recent - 1];
    int row = msi_op_stats_find_row(stats, call, function);
    if (row >= 0) {
        *recent = (uint32_t)row + 1;
        return &stats->rows[row];
    }
    if (stats->row_count == MSI_OP_STATS_ROWS) return &stats->other;
    int group = msi_op_stats_find_group(stats, call->group->id);
    if (group < 0) group = msi_op_stats_new_group(stats, call->group);
    if (group >= 0) row = msi_op_stats_new_row(stats, call, function, group);
    return row < 0 ? NULL : &stats->rows[row];
}

/* ---- calls ---- */

bool msi_op_stats_time(struct msi_op_stats *stats, struct msi_op_stats_row *row, uint64_t ns) {
    struct msi_histogram *histogram = &row->histogram;
    if (!histogram->buckets &&
        (histogram->count == MSI_HISTOGRAM_EXACT || stats->exact == MSI_OP_STATS_EXACT)) {
        size_t held = (size_t)histogram->count;
        if (!msi_histogram_coarsen(histogram)) return false;
        stats->exact -= held;
    }
    if (!msi_histogram_add(histogram, ns)) return false;
    stats->exact += !histogram->buckets;
    return true;
}

/*
 * Is the call in the sample? The answer is the same on all ranks of a collective, and at both ends of a
 * message. It does not depend on a regular pattern of calls.
 */
static bool is_sampled(const struct msi_op_stats *stats, const struct msi_op_stats_call_ref *call, int bits) {
    static const uint64_t seeds[2] = {11, 12};
    const struct msi_op_stats_row *row = &stats->rows[call->row];
    const struct msi_prof_group *group = stats->groups[row->group].is;
    int own = row->message ? group->ranks[group->rank] : 0, peer = row->message ? call->peer : 0;
    const int64_t key[] = {(int64_t)call->seq, call->send ? own : peer, call->send ? peer : own,
                           row->message ? call->tag : 0};
    return bits == 0 || (msi_hash(key, sizeof key, seeds) & ((1ull << bits) - 1)) == 0;
}

void msi_op_stats_thin_out(struct msi_op_stats *stats, int bits) {
    size_t kept = 0, n = stats->calls ? stats->call_count : 0;
    if (bits > stats->sample_bits) {
        for (size_t i = 0; i < n; i++)
            if (is_sampled(stats, &stats->calls[i], bits)) stats->calls[kept++] = stats->calls[i];
        stats->call_count = kept;
    }
    stats->sample_bits = bits;
}

/* Space for one more call, if need be in a smaller sample. */
static bool has_space(struct msi_op_stats *stats) {
    for (;;) {
        size_t at = stats->call_count;
        struct msi_op_stats_call_ref *calls =
            at < MSI_OP_STATS_CALLS ? grow(stats->calls, sizeof *calls, at, &stats->call_cap) : NULL;
        if (calls) {
            stats->calls = calls;
            return true;
        }
        if (stats->sample_bits == MSI_OP_STATS_BITS) return false;
        msi_op_stats_thin_out(stats, stats->sample_bits + 1);
    }
}

void msi_op_stats_remember(struct msi_op_stats *stats, const struct msi_op_stats_call_ref *call) {
    if (!is_sampled(stats, call, stats->sample_bits) || !has_space(stats)) return;
    if (is_sampled(stats, call, stats->sample_bits)) stats->calls[stats->call_count++] = *call;
}

static void count_work(struct msi_op_stats_row *row, uint64_t ns, uint64_t waited_ns) {
    row->works++;
    row->works_ns += ns;
    row->waited_ns += waited_ns < ns ? waited_ns : ns;
}

static uint64_t limited(int64_t ns) {
    const int64_t most = INT64_C(1) << MSI_HISTOGRAM_TOP; /* a longer duration is an error of the clock */
    return ns < 0 ? 0 : (uint64_t)(ns < most ? ns : most);
}

/* Calls of "other" and messages that were never issued cannot be matched. */
static void remember(struct msi_op_stats *stats, const struct msi_op_stats_row *row,
                     const struct msi_record *call, int64_t begin, uint64_t took, uint64_t comm) {
    if (row == &stats->other || call->seq >= INT64_MAX) return;
    if (begin > MSI_OP_STATS_BEGIN_MOST || begin < -MSI_OP_STATS_BEGIN_MOST) begin = MSI_TIME_UNKNOWN;
    msi_op_stats_remember(stats, &(struct msi_op_stats_call_ref){.begin = begin,
                                                                 .seq = call->seq,
                                                                 .took = took,
                                                                 .comm = comm,
                                                                 .row = (uint32_t)(row - stats->rows),
                                                                 .peer = call->peer,
                                                                 .tag = call->tag,
                                                                 .send = call->flags & MSI_RECORD_SEND});
}

void msi_op_stats_add(struct msi_op_stats *stats, const struct msi_record *call,
                      const struct msi_times *times, bool common_clock) {
    bool work = call->flags & MSI_RECORD_WORK;
    uint64_t took = limited(times->lasted), ns = call->device ? limited((int64_t)call->device) : took;
    uint64_t comm = (uint64_t)msi_comm_time(work, (int64_t)took, times->waited);
    uint64_t run = limited(times->begin + (int64_t)took - stats->run_begin);
    struct msi_op_stats_row *row = row_for(stats, call);
    if (run > stats->run_ns) stats->run_ns = run;
    if (row && call->status != MST_OK) {
        row->failed++;
        row->failed_ns += comm;
        row->comm_ns += comm;
    } else if (row && msi_op_stats_time(stats, row, ns)) {
        if (!row->count || ns < row->least_ns) row->least_ns = ns;
        if (ns > row->most_ns) row->most_ns = ns;
        row->count++;
        row->total_ns += ns;
        row->comm_ns += comm;
        if (work) count_work(row, ns, (uint64_t)times->waited);
        remember(stats, row, call, common_clock ? times->begin : MSI_TIME_UNKNOWN, took, comm);
    } else {
        stats->lost++;
    }
}

uint64_t msi_op_stats_count(const struct msi_op_stats *stats, const char *name) {
    uint64_t n = name ? 0 : stats->other.count;
    for (size_t i = 0; i < stats->row_count; i++)
        if (!name || !strcmp(stats->rows[i].name, name)) n += stats->rows[i].count;
    return n;
}
