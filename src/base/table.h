/*
 * table.h - a hash table with open addressing. Keys are any bytes; each has a number and a value.
 *
 *  1. Keys get the numbers 0, 1, 2, … in the order in which they are added, so that arrays of the owner can
 *     go with them.
 *  2. The table owns a copy of each key. The copy is aligned for any type, a NUL byte follows it, and it
 *     stays in place until the key is removed.
 *  3. The hash has a random secret: hostile keys cannot be made to collide.
 *  4. One thread at a time. As long as a table has no more keys than were reserved,
 *     msi_table_find may also run on other threads while one thread adds keys.
 */
#ifndef MSI_BASE_TABLE_H
#define MSI_BASE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MSI_TABLE_NONE UINT32_MAX

struct msi_table_entry {
    char *key;
    uint32_t len, hash;
    void *value; /* the owner's; NULL in a new entry */
};

/* All zero is an empty table. */
struct msi_table {
    struct msi_table_entry *entries; /* by number; n of them, n_slots / 2 allocated */
    uint32_t n;
    size_t n_slots;          /* a power of two, or 0 */
    _Atomic uint32_t *slots; /* number + 1, 0: free; stored (release) by add, loaded (acquire) by find */
    uint64_t secret[2];
};

/* Allocates for n keys in total; false without memory. */
bool msi_table_reserve(struct msi_table *table, uint32_t n);
/* The number of the key, which is added if it is new; MSI_TABLE_NONE without memory. */
uint32_t msi_table_add(struct msi_table *table, const void *key, size_t len);
/* MSI_TABLE_NONE: no such key. */
uint32_t msi_table_find(const struct msi_table *table, const void *key, size_t len);
/* Removes the key, if there is one. The key with the highest number gets its number. */
void msi_table_remove(struct msi_table *table, const void *key, size_t len);
/* Removes all keys; the memory of a small table stays allocated. */
void msi_table_clear(struct msi_table *table);
void msi_table_free(struct msi_table *table);

static inline const void *msi_table_key(const struct msi_table *table, uint32_t number) {
    return table->entries[number].key;
}

#endif
