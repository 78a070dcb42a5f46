/* flight_view.c - see flight_view.h. */
#include "prof/flight_view.h"

#include <muster/dtype.h>
#include <string.h>

#define get(field) atomic_load_explicit(&(field), memory_order_relaxed)

/* Nanoseconds beyond which times make no sense: some hundred days. */
#define TIME_MOST 9e15

/* Control characters, those of Unicode's second set as well, become question marks. */
static void clean(char *text, size_t room, const char *from) {
    memcpy(text, from, room - 1);
    text[room - 1] = '\0';
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) *p = '?';
        if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) p[0] = p[1] = '?';
    }
}

static void read_texts(const struct msi_flight *copy, struct msi_flight_view *view) {
    for (int i = 0; i < MSI_FLIGHT_PLACES; i++) {
        const struct msi_flight_place *place = &copy->places[i];
        struct msi_flight_site *site = &view->sites[i];
        uint32_t line = get(place->line);
        clean(site->operation, sizeof site->operation, place->operation);
        clean(site->file, sizeof site->file, place->file);
        clean(site->function, sizeof site->function, place->function);
        site->line = line <= INT32_MAX ? (int)line : 0;
    }
    for (int i = 0; i < MSI_FLIGHT_GROUPS; i++) {
        struct msi_flight_team *team = &view->teams[i];
        uint32_t size = get(copy->groups[i].size);
        clean(team->name, sizeof team->name, copy->groups[i].name);
        team->id = get(copy->groups[i].id);
        team->size = size <= INT32_MAX ? (int)size : 0;
    }
}

/* How to make times of ticks; rate 0: not at all. */
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

static int peer_of(uint64_t about) {
    uint32_t peer = (uint32_t)(about >> 32);
    if (peer == UINT32_MAX) return MSI_FLIGHT_ANY;
    return peer <= INT32_MAX ? (int)peer - 1 : MSI_FLIGHT_ANY;
}

static void read_entry(const struct msi_flight *copy, uint64_t number, const struct clock *clock,
                       struct msi_flight_view *view) {
    const struct msi_flight_entry *entry = &copy->entries[number % MSI_FLIGHT_ENTRIES];
    uint64_t what = get(entry->what), where = get(entry->where), about = get(entry->about);
    uint64_t place = (uint32_t)where, group = where >> 32, dtype = (uint32_t)about;
    unsigned state = what & 7;
    if (what >> 3 != number || state < MSI_FLIGHT_QUEUED || state > MSI_FLIGHT_FAILED) return;
    if (place >= MSI_FLIGHT_PLACES || group >= MSI_FLIGHT_GROUPS) return;
    view->ops[view->n++] = (struct msi_flight_op){
        .number = number,
        .seq = get(entry->seq),
        .count = get(entry->count),
        .state = (enum msi_flight_state)state,
        .begin = time_of(clock, get(entry->begin)),
        .end = state >= MSI_FLIGHT_DONE ? time_of(clock, get(entry->end)) : MSI_FLIGHT_UNKNOWN,
        .group = (int)group,
        .site = &view->sites[place],
        .team = &view->teams[group],
        .dtype = dtype < MST_DTYPE_COUNT ? (int)dtype : 0,
        .peer = peer_of(about)};
}

bool msi_flight_look(const struct msi_flight *copy, struct msi_tick_look look, struct msi_flight_view *view) {
    uint64_t last = get(copy->next), unix_time = get(copy->unix_time);
    memset(view, 0, sizeof *view);
    view->now = MSI_FLIGHT_UNKNOWN;
    if (get(copy->magic) != MSI_FLIGHT_MAGIC) return false;
    struct clock clock = clock_of(copy, look);
    read_texts(copy, view);
    view->now = clock.now;
    view->unix_ns = unix_time <= INT64_MAX ? (int64_t)unix_time : 0;
    if (last > UINT64_MAX >> 3) return true; /* no process gets there */
    for (uint64_t number = last < MSI_FLIGHT_ENTRIES ? 1 : last - MSI_FLIGHT_ENTRIES + 1; number <= last;
         number++)
        read_entry(copy, number, &clock, view);
    return true;
}

const char *msi_flight_plain_name(const struct msi_flight_op *op) {
    const char *name = op->site->operation;
    if (!strncmp(name, "mst_", 4)) name += 4;
    return *name ? name : "?";
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
