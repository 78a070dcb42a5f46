/* op_stats.c - the sums of one rank's calls. See op_stats.h. */
#include "prof/summary/op_stats.h"

#include "base/hash.h"

#include <stdlib.h>

struct msi_tally *msi_tally_new(bool debug) {
    struct msi_tally *tally = calloc(1, sizeof *tally);
    if (!tally) return NULL;
    tally->debug = debug;
    tally->other = (struct msi_tally_row){.name = "other", .call = "other", .group = -1};
    return tally;
}

void msi_tally_reset(struct msi_tally *tally) {
    for (size_t i = 0; i < tally->row_count; i++) {
        free(tally->rows[i].texts);
        msi_spread_free(&tally->rows[i].spread);
    }
    for (size_t i = 0; i < tally->group_count; i++) free(tally->groups[i].copies);
    msi_spread_free(&tally->other.spread);
    free(tally->rows);
    free(tally->groups);
    free(tally->marks);
    free(tally->slots);
    *tally = (struct msi_tally){
        .debug = tally->debug,
        .other = {.name = "other", .call = "other", .group = -1},
    };
}

void msi_tally_free(struct msi_tally *tally) {
    if (!tally) return;
    msi_tally_reset(tally);
    free(tally);
}

/* items, which are count of *cap with size bytes each, with room for one more; NULL without memory. */
static void *make_room(void *items, size_t size, size_t count, size_t *cap) {
    if (count < *cap) return items;
    size_t more = *cap ? *cap * 2 : 16;
    void *moved = realloc(items, more * size);
    if (moved) *cap = more;
    return moved;
}

/* ---- groups ---- */

int msi_tally_find_group(const struct msi_tally *tally, const char *id) {
    for (size_t i = 0; i < tally->group_count; i++)
        if (!strcmp(tally->groups[i].is.id, id)) return (int)i;
    return -1;
}

int msi_tally_new_group(struct msi_tally *tally, const struct msi_prof_group *group) {
    size_t ranks = (size_t)group->size * sizeof *group->ranks;
    size_t id = strlen(group->id) + 1, name = strlen(group->name) + 1;
    struct msi_tally_group *groups =
        make_room(tally->groups, sizeof *groups, tally->group_count, &tally->group_cap);
    if (!groups) return -1;
    tally->groups = groups;
    char *copies = malloc(ranks + id + name);
    if (!copies) return -1;
    memcpy(copies, group->ranks, ranks);
    memcpy(copies + ranks, group->id, id);
    memcpy(copies + ranks + id, group->name, name);
    struct msi_tally_group *made = &groups[tally->group_count];
    *made = (struct msi_tally_group){.is = *group, .copies = copies};
    made->is.next = NULL;
    made->is.ranks = (const int *)(void *)copies;
    made->is.id = copies + ranks;
    made->is.name = copies + ranks + id;
    return (int)tally->group_count++;
}

/* ---- rows ---- */

/* Two texts that may be NULL. */
static bool same(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

static uint64_t hash_of(const char *id, const char *name, const char *call, const char *function,
                        uint64_t bytes) {
    uint64_t key[2] = {bytes, 0};
    key[1] = msi_hash(id, strlen(id), key);
    key[1] = msi_hash(name, strlen(name), key);
    key[1] = msi_hash(call, strlen(call), key);
    return function ? msi_hash(function, strlen(function), key) : key[1];
}

static const char *caller(const struct msi_tally *tally, const struct msi_tally_call *call) {
    return tally->debug ? call->function : NULL;
}

static bool matches(const struct msi_tally *tally, const struct msi_tally_row *row,
                    const struct msi_tally_call *key) {
    return row->bytes == key->bytes && !strcmp(row->name, key->name) && !strcmp(row->call, key->call) &&
           same(row->function, caller(tally, key)) &&
           !strcmp(tally->groups[row->group].is.id, key->group->id);
}

int msi_tally_find_row(const struct msi_tally *tally, const struct msi_tally_call *key) {
    if (!tally->slot_count) return -1;
    size_t mask = tally->slot_count - 1;
    size_t at = hash_of(key->group->id, key->name, key->call, caller(tally, key), key->bytes) & mask;
    for (uint32_t slot; (slot = tally->slots[at]) != 0; at = (at + 1) & mask)
        if (matches(tally, &tally->rows[slot - 1], key)) return (int)slot - 1;
    return -1;
}

static void take_slot(struct msi_tally *tally, size_t index) {
    const struct msi_tally_row *row = &tally->rows[index];
    size_t mask = tally->slot_count - 1;
    size_t at =
        hash_of(tally->groups[row->group].is.id, row->name, row->call, row->function, row->bytes) & mask;
    while (tally->slots[at]) at = (at + 1) & mask;
    tally->slots[at] = (uint32_t)index + 1;
}

/* At least half of the slots stay free. */
static bool make_slots(struct msi_tally *tally) {
    if ((tally->row_count + 1) * 2 <= tally->slot_count) return true;
    size_t count = tally->slot_count ? tally->slot_count * 2 : 32;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots) return false;
    free(tally->slots);
    tally->slots = slots;
    tally->slot_count = count;
    for (size_t i = 0; i < tally->row_count; i++) take_slot(tally, i);
    return true;
}

/* Copies the key's texts behind each other; false without memory. */
static bool copy_texts(struct msi_tally_row *row, const struct msi_tally_call *key, const char *function) {
    size_t name = strlen(key->name) + 1, call = strlen(key->call) + 1,
           last = function ? strlen(function) + 1 : 0;
    char *texts = malloc(name + call + last);
    if (!texts) return false;
    row->texts = texts;
    row->name = memcpy(texts, key->name, name);
    row->call = memcpy(texts + name, key->call, call);
    row->function = function ? memcpy(texts + name + call, function, last) : NULL;
    return true;
}

int msi_tally_new_row(struct msi_tally *tally, const struct msi_tally_call *key, int group) {
    struct msi_tally_row row = {
        .group = group, .share = key->share, .message = key->message, .bytes = key->bytes};
    struct msi_tally_row *rows = make_room(tally->rows, sizeof *rows, tally->row_count, &tally->row_cap);
    if (!rows) return -1;
    tally->rows = rows;
    if (!make_slots(tally) || !copy_texts(&row, key, caller(tally, key))) return -1;
    rows[tally->row_count] = row;
    take_slot(tally, tally->row_count);
    return (int)tally->row_count++;
}

/* Calls most often have the same literals as before: comparing is cheaper than hashing. */
static uint32_t *guess(struct msi_tally *tally, const struct msi_tally_call *call) {
    uint64_t where = (uintptr_t)call->name ^ (uintptr_t)call->group << 7 ^ (uintptr_t)call->function << 13;
    return &tally->recent[(where + call->bytes) * 0x9e3779b97f4a7c15u >> 58];
}

/* NULL without memory. */
static struct msi_tally_row *row_for(struct msi_tally *tally, const struct msi_tally_call *call) {
    uint32_t *recent = guess(tally, call);
    if (*recent && matches(tally, &tally->rows[*recent - 1], call)) return &tally->rows[*recent - 1];
    int row = msi_tally_find_row(tally, call);
    if (row >= 0) {
        *recent = (uint32_t)row + 1;
        return &tally->rows[row];
    }
    if (tally->row_count == MSI_TALLY_ROWS) return &tally->other;
    int group = msi_tally_find_group(tally, call->group->id);
    if (group < 0) group = msi_tally_new_group(tally, call->group);
    if (group >= 0) row = msi_tally_new_row(tally, call, group);
    return row < 0 ? NULL : &tally->rows[row];
}

/* ---- calls ---- */

bool msi_tally_time(struct msi_tally *tally, struct msi_tally_row *row, uint64_t ns) {
    struct msi_spread *spread = &row->spread;
    if (!spread->buckets && (spread->count == MSI_SPREAD_EXACT || tally->exact == MSI_TALLY_EXACT)) {
        size_t held = (size_t)spread->count;
        if (!msi_spread_coarsen(spread)) return false;
        tally->exact -= held;
    }
    if (!msi_spread_add(spread, ns)) return false;
    tally->exact += !spread->buckets;
    return true;
}

static void forget(struct msi_tally_group *group, uint64_t seq) {
    group->forgotten++;
    if (seq >= group->floor) group->floor = seq + 1;
}

static bool remember(struct msi_tally *tally, struct msi_tally_mark mark) {
    struct msi_tally_mark *marks = make_room(tally->marks, sizeof mark, tally->mark_count, &tally->mark_cap);
    if (!marks) return false;
    tally->marks = marks;
    marks[tally->mark_count++] = mark;
    return true;
}

void msi_tally_mark(struct msi_tally *tally, int row, uint64_t seq, uint64_t ns) {
    struct msi_tally_mark mark = {seq, ns, (uint32_t)row};
    if (tally->mark_count < MSI_TALLY_MARKS) {
        if (!remember(tally, mark)) forget(&tally->groups[tally->rows[row].group], seq);
        return;
    }
    struct msi_tally_mark *oldest = &tally->marks[tally->marks_next];
    forget(&tally->groups[tally->rows[oldest->row].group], oldest->seq);
    *oldest = mark;
    tally->marks_next = (tally->marks_next + 1) % MSI_TALLY_MARKS;
}

static void count(struct msi_tally_row *row, const struct msi_tally_call *call, uint64_t ns) {
    if (!row->count || ns < row->least_ns) row->least_ns = ns;
    if (ns > row->most_ns) row->most_ns = ns;
    row->count++;
    row->total_ns += ns;
    if (!call->work) return;
    row->works++;
    row->works_ns += ns;
    row->waited_ns += call->waited_ns < ns ? call->waited_ns : ns;
}

void msi_tally_add(struct msi_tally *tally, const struct msi_tally_call *call) {
    const uint64_t most = 1ull << MSI_SPREAD_TOP; /* more is a clock gone mad, and would spoil the sums */
    uint64_t ns = call->duration_ns < most ? call->duration_ns : most;
    struct msi_tally_row *row = row_for(tally, call);
    if (row && call->status != MST_OK) {
        row->failed++;
    } else if (row && msi_tally_time(tally, row, ns)) {
        count(row, call, ns);
        if (!call->message && row != &tally->other)
            msi_tally_mark(tally, (int)(row - tally->rows), call->seq, ns);
    } else {
        tally->lost++;
    }
}
