/* table.c - see table.h. Linear probing; at least half of the slots are free. */
#include "base/table.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64, KEPT_SLOTS = 4096 };

/* The slot that holds the key, or the free one where it belongs. */
static _Atomic uint32_t *find_slot(const struct msi_table *table, const void *key, size_t len,
                                   uint32_t hash) {
    size_t mask = table->n_slots - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        uint32_t number = atomic_load_explicit(&table->slots[at], memory_order_acquire);
        if (!number) return &table->slots[at];
        const struct msi_table_entry *e = &table->entries[number - 1];
        if (e->hash == hash && e->len == len && (!len || !memcmp(e->key, key, len))) return &table->slots[at];
    }
}

static _Atomic uint32_t *slot_of(const struct msi_table *table, uint32_t number) {
    const struct msi_table_entry *e = &table->entries[number];
    return find_slot(table, e->key, e->len, e->hash);
}

static void set_slot(_Atomic uint32_t *slot, uint32_t value) {
    atomic_store_explicit(slot, value, memory_order_release);
}

static bool resize(struct msi_table *table, size_t n_slots) {
    if (n_slots / 2 >= MSI_TABLE_NONE) return false;
    struct msi_table_entry *entries = realloc(table->entries, n_slots / 2 * sizeof *entries);
    if (!entries) return false;
    table->entries = entries;
    _Atomic uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots) return false;
    if (!table->n_slots) msi_random(table->secret, sizeof table->secret);
    free(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
    for (uint32_t i = 0; i < table->n; i++) set_slot(slot_of(table, i), i + 1);
    return true;
}

bool msi_table_reserve(struct msi_table *table, uint32_t n) {
    size_t n_slots = table->n_slots ? table->n_slots : FIRST_SLOTS;
    while (n_slots / 2 < n) n_slots *= 2;
    return n_slots == table->n_slots || resize(table, n_slots);
}

uint32_t msi_table_add(struct msi_table *table, const void *key, size_t len) {
    if (len >= UINT32_MAX || !msi_table_reserve(table, table->n + 1)) return MSI_TABLE_NONE;
    uint32_t hash = (uint32_t)msi_hash(key, len, table->secret);
    _Atomic uint32_t *slot = find_slot(table, key, len, hash);
    uint32_t number = atomic_load_explicit(slot, memory_order_relaxed);
    if (number) return number - 1;
    char *copy = malloc(len + 1);
    if (!copy) return MSI_TABLE_NONE;
    if (len) memcpy(copy, key, len);
    copy[len] = '\0';
    table->entries[table->n] = (struct msi_table_entry){.key = copy, .len = (uint32_t)len, .hash = hash};
    set_slot(slot, ++table->n);
    return table->n - 1;
}

uint32_t msi_table_find(const struct msi_table *table, const void *key, size_t len) {
    if (!table->n_slots) return MSI_TABLE_NONE;
    uint32_t hash = (uint32_t)msi_hash(key, len, table->secret);
    uint32_t number = atomic_load_explicit(find_slot(table, key, len, hash), memory_order_acquire);
    return number ? number - 1 : MSI_TABLE_NONE;
}

/* Frees a slot and moves later ones of the run back, so that no search stops at the gap. */
static void free_slot(struct msi_table *table, size_t gap) {
    size_t mask = table->n_slots - 1;
    for (size_t at = (gap + 1) & mask; table->slots[at]; at = (at + 1) & mask) {
        size_t home = table->entries[table->slots[at] - 1].hash & mask;
        if (((at - home) & mask) < ((at - gap) & mask)) continue;
        set_slot(&table->slots[gap], table->slots[at]);
        gap = at;
    }
    set_slot(&table->slots[gap], 0);
}

void msi_table_remove(struct msi_table *table, const void *key, size_t len) {
    uint32_t number = msi_table_find(table, key, len);
    if (number == MSI_TABLE_NONE) return;
    free_slot(table, (size_t)(slot_of(table, number) - table->slots));
    free(table->entries[number].key);
    if (number == --table->n) return;
    set_slot(slot_of(table, table->n), number + 1);
    table->entries[number] = table->entries[table->n];
}

void msi_table_clear(struct msi_table *table) {
    if (table->n_slots > KEPT_SLOTS) {
        msi_table_free(table);
        return;
    }
    while (table->n) free(table->entries[--table->n].key);
    if (table->n_slots) memset(table->slots, 0, table->n_slots * sizeof *table->slots);
}

void msi_table_free(struct msi_table *table) {
    for (uint32_t i = 0; i < table->n; i++) free(table->entries[i].key);
    free(table->entries);
    free(table->slots);
    *table = (struct msi_table){0};
}
