/* flight.c - the writer of the flight recorder, and copies of it. See flight.h. Any thread. */
#include "prof/flight/flight.h"
#include "base/hash.h"
#include "prof/record/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic unsigned msi_watched;

_Atomic(struct msi_flight *) msi_flight;
_Atomic uint64_t msi_flight_keys[MSI_FLIGHT_SLOTS];

/* Of texts, and of opening; entries need none. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define set(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define get(field)        atomic_load_explicit(&(field), memory_order_relaxed)

static struct msi_flight *find_memory(void) {
    struct msi_rank_state *state = msi_rank_state_on();
    if (state) return (struct msi_flight *)(void *)((char *)state + MSI_RANK_STATE_OWN);
    struct msi_flight *own = aligned_alloc(64, sizeof *own);
    if (own) memset(own, 0, sizeof *own);
    return own;
}

void msi_flight_open(void) {
    msi_tick_begin();
    pthread_mutex_lock(&lock);
    struct msi_flight *made = msi_flight_get() ? NULL : find_memory();
    if (made) {
        struct msi_tick_look look = msi_tick_look();
        set(made->first_tick, look.tick);
        set(made->first_time, (uint64_t)look.ns);
        set(made->unix_time, (uint64_t)msi_calendar());
        set(made->magic, MSI_FLIGHT_MAGIC);
        atomic_store_explicit(&msi_flight, made, memory_order_release);
        msi_watch_set(MSI_WATCH_FLIGHT, true);
    }
    pthread_mutex_unlock(&lock);
}

static void copy(char *to, size_t room, const char *from) {
    size_t n = from ? strnlen(from, room - 1) : 0;
    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

/* The place of a key, or the first that is free; MSI_FLIGHT_SLOTS: there is none. */
static unsigned search(uint64_t key) {
    for (unsigned i = 0, at = msi_flight_slot(key); i < MSI_FLIGHT_SLOTS; i++) {
        uint64_t found = atomic_load_explicit(&msi_flight_keys[at], memory_order_acquire);
        if (found == key || !found) return at;
        at = (at + 1) % MSI_FLIGHT_SLOTS;
    }
    return MSI_FLIGHT_SLOTS;
}

static void keep_texts(struct msi_flight_place *place, const char *operation, const mst_site *site) {
    const char *slash = site->file ? strrchr(site->file, '/') : NULL;
    copy(place->operation, sizeof place->operation, operation);
    copy(place->file, sizeof place->file, slash ? slash + 1 : site->file);
    copy(place->function, sizeof place->function, site->function);
    set(place->line, site->line > 0 ? (uint32_t)site->line : UINT32_MAX);
}

unsigned msi_flight_find_place(uint64_t key, const char *operation, const mst_site *site) {
    unsigned at = search(key);
    if (at == MSI_FLIGHT_SLOTS || get(msi_flight_keys[at]) == key) return at;
    pthread_mutex_lock(&lock);
    at = search(key);
    if (at < MSI_FLIGHT_SLOTS && !get(msi_flight_keys[at])) {
        keep_texts(&msi_flight_get()->places[at], operation, site);
        atomic_store_explicit(&msi_flight_keys[at], key, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return at;
}

enum { NO_ROOM = MSI_FLIGHT_GROUPS - 1, GONE = 1 << 16 };

/* The next line that is not in use, so that groups that are gone stay for as long as can be; NO_ROOM: there is none. */
static uint32_t free_line(const struct msi_flight *f) {
    static uint32_t next; /* under the lock */
    for (uint32_t i = 0; i < NO_ROOM; i++) {
        uint32_t at = (next + i) % NO_ROOM;
        const struct msi_flight_group *group = &f->groups[at];
        if (get(group->size) && !(get(group->turn) & GONE)) continue;
        next = at + 1;
        return at;
    }
    return NO_ROOM;
}

static void fill_members(struct msi_flight_group *group, const int *ranks, int size) {
    uint64_t words[MSI_FLIGHT_WORDS] = {0};
    for (int i = 0; i < size; i++) {
        int rank = ranks ? ranks[i] : i;
        if (rank < MSI_FLIGHT_MEMBERS) words[rank / 64] |= UINT64_C(1) << rank % 64;
    }
    for (int i = 0; i < MSI_FLIGHT_WORDS; i++) set(group->members[i], words[i]);
}

/* As entries are: msi_flight_copy meets the last store, and looks again. Returns the generation. */
static uint32_t fill_line(struct msi_flight_group *group, uint64_t id, const char *name, const int *ranks,
                          int size) {
    uint32_t turn = (get(group->turn) + 1) & (GONE - 1);
    if (!turn) turn = 1;
    set(group->size, 0);
    msi_fence_writes();
    copy(group->name, MSI_FLIGHT_GROUP, name);
    set(group->id, id);
    set(group->turn, turn);
    fill_members(group, ranks, size);
    atomic_store_explicit(&group->size, (uint32_t)size, memory_order_release);
    return turn;
}

uint32_t msi_flight_group(const char *world, const char *id, const char *name, const int *ranks, int size) {
    uint64_t seeds[2] = {7, 8};
    struct msi_flight *f = msi_flight_get();
    if (!f) return NO_ROOM;
    seeds[1] = msi_hash(world, strlen(world), seeds);
    pthread_mutex_lock(&lock);
    uint32_t at = free_line(f);
    if (at != NO_ROOM)
        at |= fill_line(&f->groups[at], msi_hash(id, strlen(id), seeds), name, ranks, size) << 16;
    pthread_mutex_unlock(&lock);
    return at;
}

void msi_flight_group_gone(uint32_t group) {
    struct msi_flight *f = msi_flight_get();
    uint32_t at = group & (GONE - 1);
    if (!f || at == NO_ROOM) return;
    pthread_mutex_lock(&lock);
    set(f->groups[at].turn, group >> 16 | GONE);
    pthread_mutex_unlock(&lock);
}

struct msi_flight_entry *msi_flight_find_entry(struct msi_flight *f, uint64_t *number) {
    enum { TRIES = 16 };
    static struct msi_flight_entry nobodys;
    for (uint64_t at = *number + 1; at <= *number + TRIES; at++) {
        struct msi_flight_entry *entry = &f->entries[at % MSI_FLIGHT_ENTRIES];
        if (msi_flight_is_open(get(entry->what))) continue;
        *number = at;
        return entry;
    }
    return &nobodys;
}

static void copy_places(const struct msi_flight *from, struct msi_flight *to) {
    for (int i = 0; i < MSI_FLIGHT_PLACES; i++) {
        const struct msi_flight_place *place = &from->places[i];
        struct msi_flight_place *copied = &to->places[i];
        memcpy(copied->operation, place->operation, sizeof place->operation);
        memcpy(copied->file, place->file, sizeof place->file);
        memcpy(copied->function, place->function, sizeof place->function);
        set(copied->line, get(place->line));
    }
}

static void copy_groups(const struct msi_flight *from, struct msi_flight *to) {
    for (int i = 0; i < MSI_FLIGHT_GROUPS; i++) {
        const struct msi_flight_group *group = &from->groups[i];
        uint32_t size = atomic_load_explicit(&group->size, memory_order_acquire), turn = get(group->turn);
        memcpy(to->groups[i].name, group->name, MSI_FLIGHT_GROUP);
        set(to->groups[i].id, get(group->id));
        set(to->groups[i].turn, turn);
        for (int k = 0; k < MSI_FLIGHT_WORDS; k++) set(to->groups[i].members[k], get(group->members[k]));
        msi_fence_reads();
        bool same = get(group->size) == size && (get(group->turn) ^ turn) % GONE == 0;
        set(to->groups[i].size, same ? size : 0);
    }
}

static void copy_entry(const struct msi_flight_entry *from, struct msi_flight_entry *to) {
    uint64_t what = atomic_load_explicit(&from->what, memory_order_acquire); /* rule 3 */
    set(to->seq, get(from->seq));
    set(to->count, get(from->count));
    set(to->begin, get(from->begin));
    set(to->end, get(from->end));
    set(to->where, get(from->where));
    set(to->about, get(from->about));
    set(to->message, get(from->message));
    msi_fence_reads();
    /* Another state of the same operation leaves all that was read as it was, but for the end. */
    bool same = get(from->what) >> 3 == what >> 3;
    set(to->what, same ? what : 0);
}

void msi_flight_copy(const struct msi_flight *from, struct msi_flight *to) {
    memset(to, 0, sizeof *to);
    set(to->magic, get(from->magic));
    set(to->first_tick, get(from->first_tick));
    set(to->first_time, get(from->first_time));
    set(to->unix_time, get(from->unix_time));
    for (int i = 0; i < MSI_FLIGHT_ENTRIES; i++) copy_entry(&from->entries[i], &to->entries[i]);
    set(to->next, get(from->next));
    copy_places(from, to); /* after the entries, which refer to them */
    copy_groups(from, to);
}

bool msi_flight_copy_own(struct msi_flight *to) {
    const struct msi_flight *own = msi_flight_get();
    if (!own) return false;
    pthread_mutex_lock(&lock); /* no text is written meanwhile */
    msi_flight_copy(own, to);
    pthread_mutex_unlock(&lock);
    return true;
}
