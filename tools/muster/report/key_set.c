/* key_set.c - see key_set.h. */
#include "report/key_set.h"

#include "base/hash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64, FIRST_ENTRIES = 32, FIRST_BYTES = 1024, ALIGNMENT = 8, CLEARED_MOST = 4096 };

static bool find_slot(const struct page_set *set, const void *key, size_t len, uint32_t hash, size_t *slot) {
    size_t mask = set->n_slots - 1;

    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        uint32_t number = set->slots[at];
        *slot = at;
        if (number == 0) return false;
        const struct page_set_entry *e = &set->entries[number - 1];
        if (e->hash == hash && e->len == len && memcmp(set->bytes + e->offset, key, len) == 0) return true;
    }
}

static bool more_slots(struct page_set *set) {
    size_t n = set->n_slots ? set->n_slots * 2 : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (slots == NULL) return false;
    for (uint32_t i = 0; i < set->n; i++) {
        size_t at = set->entries[i].hash & (n - 1);
        while (slots[at] != 0) at = (at + 1) & (n - 1);
        slots[at] = i + 1;
    }
    free(set->slots);
    set->slots = slots;
    set->n_slots = n;
    return true;
}

/* Room for one more key of so many bytes, its NUL included. */
static bool make_room(struct page_set *set, size_t len) {
    if (set->secret[0] == 0 && set->secret[1] == 0) msi_random(set->secret, sizeof set->secret);
    if ((size_t)set->n * 2 >= set->n_slots && !more_slots(set)) return false;
    if (set->n == set->entries_capacity) {
        uint32_t capacity = set->n ? set->n * 2 : FIRST_ENTRIES;
        if (capacity <= set->n) return false;
        void *grown = realloc(set->entries, capacity * sizeof *set->entries);
        if (grown == NULL) return false;
        set->entries = grown;
        set->entries_capacity = capacity;
    }
    if (set->capacity - set->used >= len) return true;
    size_t capacity = set->capacity * 2 > set->used + len ? set->capacity * 2 : set->used + len + FIRST_BYTES;
    char *grown = realloc(set->bytes, capacity);
    if (grown == NULL) return false;
    set->bytes = grown;
    set->capacity = capacity;
    return true;
}

uint32_t page_set_add(struct page_set *set, const void *key, size_t len) {
    size_t padded = (len + ALIGNMENT) & ~(size_t)(ALIGNMENT - 1), slot;

    if (len > UINT32_MAX || !make_room(set, padded)) return PAGE_SET_FULL;
    uint32_t hash = (uint32_t)msi_hash(key, len, set->secret);
    if (find_slot(set, key, len, hash, &slot)) return set->slots[slot] - 1;
    set->entries[set->n] = (struct page_set_entry){set->used, (uint32_t)len, hash};
    if (len > 0) memcpy(set->bytes + set->used, key, len);
    memset(set->bytes + set->used + len, 0, padded - len);
    set->used += padded;
    set->slots[slot] = ++set->n;
    return set->n - 1;
}

uint32_t page_set_find(const struct page_set *set, const void *key, size_t len) {
    size_t slot;

    if (set->n == 0 || !find_slot(set, key, len, (uint32_t)msi_hash(key, len, set->secret), &slot))
        return PAGE_SET_FULL;
    return set->slots[slot] - 1;
}

const void *page_set_at(const struct page_set *set, uint32_t number) {
    return set->bytes + set->entries[number].offset;
}

void page_set_clear(struct page_set *set) {
    if (set->n_slots > CLEARED_MOST) {
        page_set_free(set);
        return;
    }
    memset(set->slots, 0, set->n_slots * sizeof *set->slots);
    set->n = 0;
    set->used = 0;
}

void page_set_free(struct page_set *set) {
    free(set->entries);
    free(set->slots);
    free(set->bytes);
    *set = (struct page_set){0};
}
