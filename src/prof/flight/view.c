/* view.c - see view.h. */
#include "prof/flight/view.h"

#include <muster/dtype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define get(field) atomic_load_explicit(&(field), memory_order_relaxed)

/* Nanoseconds; longer times make no sense (about a hundred days). */
#define TIME_MOST 9e15

/* Copies size bytes; control characters, also U+0080 to U+009F, become question marks. */
static void clean(char *text, size_t size, const char *from) {
    memcpy(text, from, size - 1);
    text[size - 1] = '\0';
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) *p = '?';
        if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) p[0] = p[1] = '?';
    }
}

static void read_site(const struct msi_flight_site *from, struct msi_flight_snapshot *s, int at) {
    char operation[MSI_FLIGHT_NAME], file[MSI_FLIGHT_FILE];
    uint32_t line = get(from->line);
    clean(operation, sizeof operation, from->operation);
    clean(file, sizeof file, from->file);
    clean(s->sites[at].function, sizeof s->sites[at].function, from->function);
    const char *plain = operation + (strncmp(operation, "mst_", 4) == 0 ? 4 : 0);
    snprintf(s->sites[at].name, sizeof s->sites[at].name, "%s", plain);
    if (file[0] && line && line <= INT32_MAX)
        snprintf(s->sites[at].site, sizeof s->sites[at].site, "%s:%d", file, (int)line);
    else
        snprintf(s->sites[at].site, sizeof s->sites[at].site, "%s", file);
}

void msi_flight_add_member(struct msi_flight_group *group, int rank) {
    int n = 0;
    if (rank < 0 || rank >= MSI_FLIGHT_MEMBERS) return;
    group->members[rank / 64] |= UINT64_C(1) << rank % 64;
    for (int i = 0; i < MSI_FLIGHT_WORDS; i++) n += __builtin_popcountll(group->members[i]);
    group->known = n == group->size;
}

static void read_group(const struct msi_flight_group_entry *from, struct msi_flight_snapshot *s, int at) {
    uint32_t size = get(from->size);
    clean(s->names[at], sizeof s->names[at], from->name);
    s->groups[at] = (struct msi_flight_group){.name = s->names[at],
                                              .id = get(from->id),
                                              .size = size <= INT32_MAX ? (int)size : 0,
                                              .gone = get(from->generation) >> 16};
    for (int r = 0; r < MSI_FLIGHT_MEMBERS; r++)
        if (get(from->members[r / 64]) >> r % 64 & 1) msi_flight_add_member(&s->groups[at], r);
}

static void read_texts(const struct msi_flight *copy, struct msi_flight_snapshot *s) {
    for (int i = 0; i < MSI_FLIGHT_SITE_ENTRIES; i++) read_site(&copy->sites[i], s, i);
    for (int i = 0; i < MSI_FLIGHT_GROUPS; i++) read_group(&copy->groups[i], s, i);
    s->groups[MSI_FLIGHT_GROUPS - 1] = (struct msi_flight_group){.name = ""};
    s->groups[MSI_FLIGHT_GROUPS] = (struct msi_flight_group){.name = "", .gone = true};
}

/* Converts ticks to times; rate 0: it cannot. */
struct clock {
    struct msi_tick_look look;
    int64_t now;
    double rate;
};

static struct clock clock_of(const struct msi_flight *copy, struct msi_tick_look look) {
    uint64_t tick = get(copy->first_tick), time = get(copy->first_time);
    uint64_t ticks = look.tick - tick, ns = (uint64_t)look.ns - time;
    struct clock clock = {look, MSI_FLIGHT_UNKNOWN, 0};
    if (look.tick < tick || (uint64_t)look.ns < time || (double)ns > TIME_MOST) return clock;
    clock.now = (int64_t)ns;
    clock.rate = ticks ? (double)ns / (double)ticks : 1;
    return clock;
}

static int64_t time_of(const struct clock *clock, uint64_t tick) {
    double ns = (double)(int64_t)(tick - clock->look.tick) * clock->rate;
    if (clock->now == MSI_FLIGHT_UNKNOWN || !tick || !(ns > -TIME_MOST && ns < TIME_MOST))
        return MSI_FLIGHT_UNKNOWN;
    return clock->now + (int64_t)ns;
}

/* The group of an entry, if the group's entry still has that generation. */
static int group_of(const struct msi_flight *copy, uint64_t site_group) {
    int at = (int)(site_group >> 32 & 0xffff);
    if (at == MSI_FLIGHT_GROUPS - 1) return at;
    const struct msi_flight_group_entry *group = &copy->groups[at];
    bool same = (get(group->generation) & 0xffff) == site_group >> 48 && get(group->size);
    return same ? at : MSI_FLIGHT_GROUPS;
}

static int int_or_0(uint64_t value) {
    return value <= INT32_MAX ? (int)value : 0;
}

static void read_entry(const struct msi_flight *copy, uint64_t at, const struct clock *clock,
                       struct msi_flight_snapshot *s) {
    const struct msi_flight_entry *entry = &copy->entries[at];
    uint64_t number_state = get(entry->number_state), site_group = get(entry->site_group);
    uint64_t dtype_peer = get(entry->dtype_peer), tag_type = get(entry->tag_type);
    uint64_t number = number_state >> 3, site = (uint32_t)site_group, dtype = (uint32_t)dtype_peer;
    unsigned state = number_state & 7;
    if (number % MSI_FLIGHT_ENTRIES != at || number > get(copy->next)) return;
    if (state < MSI_FLIGHT_QUEUED || state > MSI_FLIGHT_FAILED) return;
    if (site >= MSI_FLIGHT_SITE_ENTRIES || (site_group >> 32 & 0xffff) >= MSI_FLIGHT_GROUPS ||
        tag_type >> 32 > MSI_FLIGHT_RECV)
        return;
    s->ops[s->view.n++] = (struct msi_flight_op){
        .number = number,
        .seq = get(entry->seq),
        .count = get(entry->count),
        .state = (enum msi_flight_state)state,
        .begin = time_of(clock, get(entry->begin)),
        .end = state >= MSI_FLIGHT_DONE ? time_of(clock, get(entry->end)) : MSI_FLIGHT_UNKNOWN,
        .group = group_of(copy, site_group),
        .name = s->sites[site].name,
        .site = s->sites[site].site,
        .function = s->sites[site].function,
        .dtype = dtype < MST_DTYPE_COUNT ? (int)dtype : 0,
        .type = (enum msi_flight_type)(tag_type >> 32),
        .peer = int_or_0(dtype_peer >> 32) - 1,
        .tag = int_or_0((uint32_t)tag_type)};
}

static int by_number(const void *a, const void *b) {
    const struct msi_flight_op *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

bool msi_flight_read(const struct msi_flight *copy, struct msi_tick_look look,
                     struct msi_flight_snapshot *s) {
    uint64_t last = get(copy->next), unix_time = get(copy->unix_time);
    struct msi_flight_view *view = &s->view;
    *view = (struct msi_flight_view){.now = MSI_FLIGHT_UNKNOWN, .ops = s->ops, .groups = s->groups};
    if (get(copy->magic) != MSI_FLIGHT_MAGIC) return false;
    struct clock clock = clock_of(copy, look);
    read_texts(copy, s);
    view->now = clock.now;
    view->n_groups = MSI_FLIGHT_GROUPS + 1;
    view->unix_ns = unix_time <= INT64_MAX ? (int64_t)unix_time : 0;
    if (last > UINT64_MAX >> 3) return true; /* no process has that many operations */
    for (uint64_t at = 0; at < MSI_FLIGHT_ENTRIES; at++) read_entry(copy, at, &clock, s);
    qsort(s->ops, (size_t)view->n, sizeof *s->ops, by_number);
    return true;
}

const struct msi_flight_op *msi_flight_current(const struct msi_flight_view *view) {
    const struct msi_flight_op *queued = NULL;
    for (int i = view->n - 1; i >= 0; i--) {
        if (view->ops[i].state == MSI_FLIGHT_STARTED) return &view->ops[i];
        if (view->ops[i].state == MSI_FLIGHT_QUEUED) queued = &view->ops[i];
    }
    return queued;
}

const struct msi_flight_op *msi_flight_last(const struct msi_flight_view *view) {
    return view->n ? &view->ops[view->n - 1] : NULL;
}
