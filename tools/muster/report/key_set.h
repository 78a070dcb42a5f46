/* key_set.h - keys, any bytes, numbered from 0 in the order in which they came. The creator frees it; one thread at a time. */
#ifndef MUSTER_TOOL_REPORT_KEY_SET_H
#define MUSTER_TOOL_REPORT_KEY_SET_H

#include <stddef.h>
#include <stdint.h>

#define PAGE_SET_FULL UINT32_MAX

struct page_set {
    uint64_t secret[2]; /* files are strangers' */
    struct page_set_entry {
        size_t offset;
        uint32_t len, hash;
    } * entries;
    uint32_t n, entries_capacity;
    uint32_t *slots; /* numbers plus 1; 0: empty */
    size_t n_slots;  /* a power of two */
    char *bytes;     /* each key is followed by a NUL, and aligned as an int64_t */
    size_t used, capacity;
};

/* The key's number, an old one or the next; PAGE_SET_FULL: out of memory. */
uint32_t page_set_add(struct page_set *set, const void *key, size_t len);
/* PAGE_SET_FULL: it is not there. */
uint32_t page_set_find(const struct page_set *set, const void *key, size_t len);
/* Valid until the next key is added. */
const void *page_set_at(const struct page_set *set, uint32_t number);
/* Forgets all keys and keeps the memory. */
void page_set_clear(struct page_set *set);
void page_set_free(struct page_set *set);

#endif
