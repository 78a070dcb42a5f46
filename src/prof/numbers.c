/* numbers.c - see numbers.h: a hash table with open addressing. */
#include "prof/numbers.h"

#include <stdlib.h>

struct msi_number {
    const struct msi_prof_group *group; /* NULL: free */
    int peer, tag;
    bool send;
    uint64_t next;
};

static bool is_of(const struct msi_number *slot, const struct msi_number *key) {
    return slot->group == key->group && slot->peer == key->peer && slot->tag == key->tag &&
           slot->send == key->send;
}

static struct msi_number *find(struct msi_number *slots, size_t room, const struct msi_number *key) {
    uint64_t mixed = (uint64_t)(uintptr_t)key->group ^ (uint64_t)(uint32_t)key->peer << 32 ^
                     (uint64_t)(uint32_t)key->tag << 1 ^ (uint64_t)key->send;
    size_t at = (size_t)((mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (room - 1);
    while (slots[at].group && !is_of(&slots[at], key)) at = (at + 1) & (room - 1);
    return &slots[at];
}

/* Half of it stays free. */
static bool make_room(struct msi_numbers *n) {
    if (n->used * 2 < n->room) return true;
    size_t room = n->room ? n->room * 2 : 64;
    struct msi_number *slots = calloc(room, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < n->room; i++)
        if (n->slots[i].group) *find(slots, room, &n->slots[i]) = n->slots[i];
    free(n->slots);
    n->slots = slots;
    n->room = room;
    return true;
}

uint64_t msi_numbers_next(struct msi_numbers *n, const struct msi_record *message) {
    struct msi_number key = {.group = message->group,
                             .peer = message->peer,
                             .tag = message->tag,
                             .send = message->flags & MSI_RECORD_SEND};
    if (!make_room(n)) return 0;
    struct msi_number *slot = find(n->slots, n->room, &key);
    if (!slot->group) {
        *slot = key;
        n->used++;
    }
    return slot->next++;
}

void msi_numbers_free(struct msi_numbers *n) {
    free(n->slots);
    *n = (struct msi_numbers){0};
}
