/* view.c - see view.h. */
#include "prof/flight/view.h"

#include <muster/dtype.h>
#include <stdio.h>
#include <stdlib.h>
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

static void read_place(const struct msi_flight_place *place, struct msi_flight_room *room, int at) {
    char operation[MSI_FLIGHT_NAME], file[MSI_FLIGHT_FILE];
    uint32_t line = get(place->line);
    clean(operation, sizeof operation, place->operation);
    clean(file, sizeof file, place->file);
    clean(room->places[at].function, sizeof room->places[at].function, place->function);
    const char *plain = operation + (strncmp(operation, "mst_", 4) == 0 ? 4 : 0);
    snprintf(room->places[at].name, sizeof room->places[at].name, "%s", plain);
    if (file[0] && line && line <= INT32_MAX)
        snprintf(room->places[at].site, sizeof room->places[at].site, "%s:%d", file, (int)line);
    else
        snprintf(room->places[at].site, sizeof room->places[at].site, "%s", file);
}

void msi_flight_add_member(struct msi_flight_team *team, int rank) {
    int n = 0;
    if (rank < 0 || rank >= MSI_FLIGHT_MEMBERS) return;
    team->members[rank / 64] |= UINT64_C(1) << rank % 64;
    for (int i = 0; i < MSI_FLIGHT_WORDS; i++) n += __builtin_popcountll(team->members[i]);
    team->known = n == team->size;
}

static void read_team(const struct msi_flight_group *group, struct msi_flight_room *room, int at) {
    uint32_t size = get(group->size);
    clean(room->names[at], sizeof room->names[at], group->name);
    room->teams[at] = (struct msi_flight_team){.name = room->names[at],
                                               .id = get(group->id),
                                               .size = size <= INT32_MAX ? (int)size : 0,
                                               .gone = get(group->turn) >> 16};
    for (int r = 0; r < MSI_FLIGHT_MEMBERS; r++)
        if (get(group->members[r / 64]) >> r % 64 & 1) msi_flight_add_member(&room->teams[at], r);
}

static void read_texts(const struct msi_flight *copy, struct msi_flight_room *room) {
    for (int i = 0; i < MSI_FLIGHT_PLACES; i++) read_place(&copy->places[i], room, i);
    for (int i = 0; i < MSI_FLIGHT_GROUPS; i++) read_team(&copy->groups[i], room, i);
    room->teams[MSI_FLIGHT_GROUPS - 1] = (struct msi_flight_team){.name = ""};
    room->teams[MSI_FLIGHT_GROUPS] = (struct msi_flight_team){.name = "", .gone = true};
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

/* The group that an entry speaks of, if its line is still that group's. */
static int team_of(const struct msi_flight *copy, uint64_t where) {
    int at = (int)(where >> 32 & 0xffff);
    if (at == MSI_FLIGHT_GROUPS - 1) return at;
    bool same = (get(copy->groups[at].turn) & 0xffff) == where >> 48 && get(copy->groups[at].size);
    return same ? at : MSI_FLIGHT_GROUPS;
}

static int whole(uint64_t value, int otherwise) {
    return value <= INT32_MAX ? (int)value : otherwise;
}

static void read_entry(const struct msi_flight *copy, uint64_t at, const struct clock *clock,
                       struct msi_flight_room *room) {
    const struct msi_flight_entry *entry = &copy->entries[at];
    uint64_t what = get(entry->what), where = get(entry->where), about = get(entry->about),
             message = get(entry->message), place = (uint32_t)where, dtype = (uint32_t)about;
    uint64_t number = what >> 3;
    unsigned state = what & 7;
    if (number % MSI_FLIGHT_ENTRIES != at || number > get(copy->next)) return;
    if (state < MSI_FLIGHT_QUEUED || state > MSI_FLIGHT_FAILED) return;
    if (place >= MSI_FLIGHT_PLACES || (where >> 32 & 0xffff) >= MSI_FLIGHT_GROUPS ||
        message >> 32 > MSI_FLIGHT_RECV)
        return;
    room->ops[room->view.n++] = (struct msi_flight_op){
        .number = number,
        .seq = get(entry->seq),
        .count = get(entry->count),
        .state = (enum msi_flight_state)state,
        .begin = time_of(clock, get(entry->begin)),
        .end = state >= MSI_FLIGHT_DONE ? time_of(clock, get(entry->end)) : MSI_FLIGHT_UNKNOWN,
        .team = team_of(copy, where),
        .name = room->places[place].name,
        .site = room->places[place].site,
        .function = room->places[place].function,
        .dtype = dtype < MST_DTYPE_COUNT ? (int)dtype : 0,
        .way = (enum msi_flight_way)(message >> 32),
        .peer = whole(about >> 32, 0) - 1,
        .tag = whole((uint32_t)message, 0)};
}

static int by_number(const void *a, const void *b) {
    const struct msi_flight_op *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

bool msi_flight_look(const struct msi_flight *copy, struct msi_tick_look look, struct msi_flight_room *room) {
    uint64_t last = get(copy->next), unix_time = get(copy->unix_time);
    struct msi_flight_view *view = &room->view;
    *view = (struct msi_flight_view){.now = MSI_FLIGHT_UNKNOWN, .ops = room->ops, .teams = room->teams};
    if (get(copy->magic) != MSI_FLIGHT_MAGIC) return false;
    struct clock clock = clock_of(copy, look);
    read_texts(copy, room);
    view->now = clock.now;
    view->n_teams = MSI_FLIGHT_GROUPS + 1;
    view->unix_ns = unix_time <= INT64_MAX ? (int64_t)unix_time : 0;
    if (last > UINT64_MAX >> 3) return true; /* no process gets there */
    for (uint64_t at = 0; at < MSI_FLIGHT_ENTRIES; at++) read_entry(copy, at, &clock, room);
    qsort(room->ops, (size_t)view->n, sizeof *room->ops, by_number);
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
