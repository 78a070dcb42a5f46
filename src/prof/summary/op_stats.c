/* op_stats.c - see op_stats.h. */
#include "prof/summary/op_stats.h"

#include <stdlib.h>

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

static void forget(struct msi_op_stats_group *group, uint64_t seq) {
    group->forgotten++;
    if (seq >= group->first_seq) group->first_seq = seq + 1;
}

void msi_op_stats_remember(struct msi_op_stats *stats, int row, uint64_t seq, uint64_t ns) {
    size_t at = stats->call_count;
    if (at < MSI_OP_STATS_CALLS) {
        struct msi_op_stats_call_ref *calls = grow(stats->calls, sizeof *calls, at, &stats->call_cap);
        if (!calls) {
            forget(&stats->groups[stats->rows[row].group], seq);
            return;
        }
        stats->calls = calls;
        stats->call_count++;
    } else {
        at = stats->calls_next; /* the oldest */
        forget(&stats->groups[stats->rows[stats->calls[at].row].group], stats->calls[at].seq);
        stats->calls_next = (at + 1) % MSI_OP_STATS_CALLS;
    }
    stats->calls[at] = (struct msi_op_stats_call_ref){seq, ns, (uint32_t)row};
}

static void count_work(struct msi_op_stats_row *row, uint64_t ns, uint64_t waited_ns) {
    row->works++;
    row->works_ns += ns;
    row->waited_ns += waited_ns < ns ? waited_ns : ns;
}

void msi_op_stats_add(struct msi_op_stats *stats, const struct msi_record *call, uint64_t ns,
                      uint64_t waited_ns) {
    const uint64_t most = 1ull << MSI_HISTOGRAM_TOP; /* a longer duration is an error of the clock */
    if (ns > most) ns = most;
    struct msi_op_stats_row *row = row_for(stats, call);
    if (row && call->status != MST_OK) {
        row->failed++;
    } else if (row && msi_op_stats_time(stats, row, ns)) {
        if (!row->count || ns < row->least_ns) row->least_ns = ns;
        if (ns > row->most_ns) row->most_ns = ns;
        row->count++;
        row->total_ns += ns;
        if (call->flags & MSI_RECORD_WORK) count_work(row, ns, waited_ns);
        if (!(call->flags & MSI_RECORD_MESSAGE) && row != &stats->other)
            msi_op_stats_remember(stats, (int)(row - stats->rows), call->seq, ns);
    } else {
        stats->lost++;
    }
}
