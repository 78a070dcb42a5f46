/* flight.c - the writer of the flight recorder. See flight.h. Any thread. */
#include "prof/flight/flight.h"
#include "base/hash.h"
#include "base/str.h"
#include "prof/flight/view.h"
#include "prof/record/op_trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic(struct msi_flight *) msi_flight;
_Atomic uint64_t msi_flight_keys[MSI_FLIGHT_SITES];

/* Protects texts, groups, and opening; entries need no lock. */
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
        msi_sink_set(MSI_SINK_FLIGHT, true);
    }
    pthread_mutex_unlock(&lock);
}

/* The slot of a key, or the first free slot; MSI_FLIGHT_SITES: there is none. */
static unsigned search(uint64_t key) {
    for (unsigned i = 0, at = msi_flight_slot(key); i < MSI_FLIGHT_SITES; i++) {
        uint64_t found = atomic_load_explicit(&msi_flight_keys[at], memory_order_acquire);
        if (found == key || !found) return at;
        at = (at + 1) % MSI_FLIGHT_SITES;
    }
    return MSI_FLIGHT_SITES;
}

static void keep_texts(struct msi_flight_site *entry, const char *operation, const mst_site *site) {
    msi_copy_text(entry->operation, sizeof entry->operation, operation);
    msi_copy_text(entry->file, sizeof entry->file, msi_base_name(site->file));
    msi_copy_text(entry->function, sizeof entry->function, site->function);
    set(entry->line, site->line > 0 ? (uint32_t)site->line : UINT32_MAX);
}

unsigned msi_flight_find_site(uint64_t key, const char *operation, const mst_site *site) {
    unsigned at = search(key);
    if (at == MSI_FLIGHT_SITES || get(msi_flight_keys[at]) == key) return at;
    pthread_mutex_lock(&lock);
    at = search(key);
    if (at < MSI_FLIGHT_SITES && !get(msi_flight_keys[at])) {
        keep_texts(&msi_flight_get()->sites[at], operation, site);
        atomic_store_explicit(&msi_flight_keys[at], key, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return at;
}

enum { NO_SPACE = MSI_FLIGHT_GROUPS - 1, DESTROYED = 1 << 16 };

/*
 * The next free entry; round robin, so that destroyed groups stay as long as possible. NO_SPACE: there is
 * none.
 */
static uint32_t find_free_group(const struct msi_flight *f) {
    static uint32_t next; /* under the lock */
    for (uint32_t i = 0; i < NO_SPACE; i++) {
        uint32_t at = (next + i) % NO_SPACE;
        const struct msi_flight_group_entry *group = &f->groups[at];
        if (get(group->size) && !(get(group->generation) & DESTROYED)) continue;
        next = at + 1;
        return at;
    }
    return NO_SPACE;
}

static void fill_members(struct msi_flight_group_entry *group, const int *ranks, int size) {
    uint64_t words[MSI_FLIGHT_WORDS] = {0};
    for (int i = 0; i < size; i++) {
        int rank = ranks ? ranks[i] : i;
        if (rank < MSI_FLIGHT_MEMBERS) words[rank / 64] |= UINT64_C(1) << rank % 64;
    }
    for (int i = 0; i < MSI_FLIGHT_WORDS; i++) set(group->members[i], words[i]);
}

/* Writes as rule 3 says, with the size last. Returns the generation. */
static uint32_t fill_group(struct msi_flight_group_entry *group, uint64_t id, const char *name,
                           const int *ranks, int size) {
    uint32_t generation = (get(group->generation) + 1) & (DESTROYED - 1);
    if (!generation) generation = 1;
    set(group->size, 0);
    msi_fence_writes();
    msi_copy_text(group->name, MSI_FLIGHT_GROUP, name);
    set(group->id, id);
    set(group->generation, generation);
    fill_members(group, ranks, size);
    atomic_store_explicit(&group->size, (uint32_t)size, memory_order_release);
    return generation;
}

uint32_t msi_flight_group_add(const char *world, const char *id, const char *name, const int *ranks,
                              int size) {
    uint64_t seeds[2] = {7, 8};
    struct msi_flight *f = msi_flight_get();
    if (!f) return NO_SPACE;
    seeds[1] = msi_hash(world, strlen(world), seeds);
    pthread_mutex_lock(&lock);
    uint32_t at = find_free_group(f);
    if (at != NO_SPACE)
        at |= fill_group(&f->groups[at], msi_hash(id, strlen(id), seeds), name, ranks, size) << 16;
    pthread_mutex_unlock(&lock);
    return at;
}

void msi_flight_group_remove(uint32_t group) {
    struct msi_flight *f = msi_flight_get();
    uint32_t at = group & (DESTROYED - 1);
    if (!f || at == NO_SPACE) return;
    pthread_mutex_lock(&lock);
    set(f->groups[at].generation, group >> 16 | DESTROYED);
    pthread_mutex_unlock(&lock);
}

struct msi_flight_entry *msi_flight_find_entry(struct msi_flight *f, uint64_t *number) {
    enum { TRIES = 16 };
    static struct msi_flight_entry unused;
    for (uint64_t at = *number + 1; at <= *number + TRIES; at++) {
        struct msi_flight_entry *entry = &f->entries[at % MSI_FLIGHT_ENTRIES];
        if (msi_flight_is_open(get(entry->number_state))) continue;
        *number = at;
        return entry;
    }
    return &unused;
}

bool msi_flight_read_own(struct msi_flight_snapshot *snapshot) {
    const struct msi_flight *own = msi_flight_get();
    if (!own) return false;
    pthread_mutex_lock(&lock); /* texts do not change meanwhile */
    bool any = msi_flight_read(own, msi_tick_look(), snapshot);
    pthread_mutex_unlock(&lock);
    return any;
}
