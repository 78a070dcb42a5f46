/* message_seq.c - see message_seq.h: a hash table with open addressing. */
#include "prof/record/message_seq.h"

#include <stdlib.h>

static struct msi_number *find(struct msi_number *slots, size_t room, uint64_t key) {
    size_t at = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & (room - 1);
    while (slots[at].key && slots[at].key != key) at = (at + 1) & (room - 1);
    return &slots[at];
}

/* Half of it stays free. */
static bool make_room(struct msi_message_seq *n) {
    if (n->used * 2 < n->room) return true;
    size_t room = n->room ? n->room * 2 : 64;
    struct msi_number *slots = calloc(room, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < n->room; i++)
        if (n->slots[i].key) *find(slots, room, n->slots[i].key) = n->slots[i];
    free(n->slots);
    n->slots = slots;
    n->room = room;
    n->last[0] = n->last[1] = NULL;
    return true;
}

uint64_t *msi_message_seq_find(struct msi_message_seq *n, uint64_t key, bool send) {
    struct msi_number *slot = n->room ? find(n->slots, n->room, key) : NULL;
    if (!slot || !slot->key) {
        if (n->used == MSI_NUMBERS_MOST || !make_room(n)) return NULL;
        slot = find(n->slots, n->room, key);
        slot->key = key;
        n->used++;
    }
    n->last[send] = slot;
    return &slot->next;
}

void msi_message_seq_free(struct msi_message_seq *n) {
    free(n->slots);
    *n = (struct msi_message_seq){0};
}
