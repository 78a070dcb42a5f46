/* rank_list.c - see rank_list.h. */
#include "base/rank_list.h"

#include <stdio.h>
#include <string.h>

void msi_rank_list_add(struct msi_rank_list *list, int rank, const char *who) {
    char *end = list->text + list->used;
    size_t room = sizeof list->text - list->used;
    if (list->n++ == 0) list->first = rank;
    if (list->ranks.n < MSI_RANKS_MOST) list->ranks.ranks[list->ranks.n++] = rank;
    if (list->n > list->most) {
        snprintf(end, room, " and %d more", list->n - list->most);
        return;
    }
    snprintf(end, room, "%s%s", list->n == 1 ? "" : ", ", who);
    list->used += strlen(end);
}
