/* view.c - see view.h. */
#include "prof/flight/view.h"

#include <muster/comm.h>
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

/* The generation of a group that is not known. */
#define NO_GENERATION UINT32_MAX

/* Returns the group's generation. */
static uint32_t read_group(const struct msi_flight_group_entry *from, struct msi_flight_snapshot *s, int at) {
    uint32_t size = atomic_load_explicit(&from->size, memory_order_acquire); /* written last */
    uint32_t generation = get(from->generation);
    struct msi_flight_group *group = &s->groups[at];
    clean(s->names[at], sizeof s->names[at], from->name);
    *group = (struct msi_flight_group){.name = s->names[at],
                                       .id = get(from->id),
                                       .size = size <= INT32_MAX ? (int)size : 0,
                                       .gone = generation >> 16};
    for (int r = 0; r < MSI_FLIGHT_MEMBERS; r++)
        if (get(from->members[r / 64]) >> r % 64 & 1) msi_flight_add_member(group, r);
    msi_fence_reads();
    if (get(from->size) != size || (uint16_t)get(from->generation) != (uint16_t)generation)
        *group = (struct msi_flight_group){.name = ""};
    return group->size ? (uint16_t)generation : NO_GENERATION;
}

/* Converts ticks to times; rate 0: it cannot. */
struct clock {
    struct msi_tick_look look;
    int64_t now;
    double rate;
};

static struct clock clock_of(const struct msi_flight *f, struct msi_tick_look look) {
    uint64_t tick = get(f->first_tick), time = get(f->first_time);
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

static int int_or_0(uint64_t value) {
    return value <= INT32_MAX ? (int)value : 0;
}

/* The group of the operation is the entry and the generation of it; see find_groups. */
static void read_entry(const struct msi_flight *f, uint64_t at, const struct clock *clock,
                       struct msi_flight_snapshot *s) {
    const struct msi_flight_entry *entry = &f->entries[at];
    uint64_t number_state = atomic_load_explicit(&entry->number_state, memory_order_acquire); /* rule 3 */
    uint64_t site_group = get(entry->site_group), dtype_peer = get(entry->dtype_peer);
    uint64_t tag_type = get(entry->tag_type), end = get(entry->end);
    uint64_t number = number_state >> 3, site = (uint32_t)site_group, dtype = (uint32_t)dtype_peer;
    unsigned state = number_state & 7;
    if (number % MSI_FLIGHT_ENTRIES != at || number > get(f->next)) return;
    if (state < MSI_FLIGHT_QUEUED || state > MSI_FLIGHT_FAILED) return;
    if (site >= MSI_FLIGHT_SITE_ENTRIES || (site_group >> 32 & 0xffff) >= MSI_FLIGHT_GROUPS ||
        tag_type >> 32 > MSI_FLIGHT_RECV)
        return;
    s->ops[s->view.n] = (struct msi_flight_op){
        .number = number,
        .seq = get(entry->seq),
        .count = get(entry->count),
        .state = (enum msi_flight_state)state,
        .begin = time_of(clock, get(entry->begin)),
        .end = state >= MSI_FLIGHT_DONE ? time_of(clock, end) : MSI_FLIGHT_UNKNOWN,
        .group = (int)(site_group >> 32),
        .name = s->sites[site].name,
        .site = s->sites[site].site,
        .function = s->sites[site].function,
        .dtype = dtype < MST_DTYPE_COUNT ? (int)dtype : 0,
        .type = (enum msi_flight_type)(tag_type >> 32),
        .peer = int_or_0(dtype_peer >> 32) - 1,
        .tag = (uint32_t)tag_type == UINT32_MAX ? MST_ANY_TAG : int_or_0((uint32_t)tag_type)};
    msi_fence_reads();
    /* Another state of the same operation changes no field but the end. */
    if (get(entry->number_state) >> 3 == number) s->view.n++;
}

/* Reads the groups, and sets those of the operations whose entry still has the operation's generation. */
static void find_groups(const struct msi_flight *f, struct msi_flight_snapshot *s) {
    enum { NO_SPACE = MSI_FLIGHT_GROUPS - 1, GONE = MSI_FLIGHT_GROUPS };
    uint32_t generations[MSI_FLIGHT_GROUPS];
    for (int i = 0; i < NO_SPACE; i++) generations[i] = read_group(&f->groups[i], s, i);
    s->groups[NO_SPACE] = (struct msi_flight_group){.name = ""};
    s->groups[GONE] = (struct msi_flight_group){.name = "", .gone = true};
    for (int i = 0; i < s->view.n; i++) {
        uint32_t group = (uint32_t)s->ops[i].group, at = group & 0xffff;
        s->ops[i].group = at == NO_SPACE || generations[at] == group >> 16 ? (int)at : GONE;
    }
}

static int by_number(const void *a, const void *b) {
    const struct msi_flight_op *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

bool msi_flight_read(const struct msi_flight *f, struct msi_tick_look look, struct msi_flight_snapshot *s) {
    uint64_t unix_time = get(f->unix_time);
    struct msi_flight_view *view = &s->view;
    struct clock clock = clock_of(f, look);
    *view = (struct msi_flight_view){.now = MSI_FLIGHT_UNKNOWN, .ops = s->ops, .groups = s->groups};
    if (get(f->magic) != MSI_FLIGHT_MAGIC) return false;
    view->now = clock.now;
    view->n_groups = MSI_FLIGHT_GROUPS + 1;
    view->unix_ns = unix_time <= INT64_MAX ? (int64_t)unix_time : 0;
    for (uint64_t at = 0; at < MSI_FLIGHT_ENTRIES; at++) read_entry(f, at, &clock, s);
    /* After the entries, which refer to them. */
    for (int i = 0; i < MSI_FLIGHT_SITE_ENTRIES; i++) read_site(&f->sites[i], s, i);
    find_groups(f, s);
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
