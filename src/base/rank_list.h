/* rank_list.h - ranks that a message names: how many there are, and the first of them as text. Pure. */
#ifndef MSI_BASE_RANK_LIST_H
#define MSI_BASE_RANK_LIST_H

#include <stddef.h>

enum { MSI_RANKS_LISTED = 8, MSI_RANKS_MOST = 64 };

/* The first of some ranks. */
struct msi_ranks {
    int n;
    int ranks[MSI_RANKS_MOST];
};

struct msi_rank_list {
    int most;     /* ranks that the text names */
    int n, first; /* how many ranks there are, and the first of them; -1: none */
    struct msi_ranks ranks;
    size_t used;    /* bytes of the text that name ranks */
    char text[800]; /* "rank 1 (…), rank 4 (…) and 3 more" */
};

/* An empty list. */
static inline void msi_rank_list_init(struct msi_rank_list *list, int most) {
    list->most = most;
    list->n = 0;
    list->first = -1;
    list->ranks.n = 0;
    list->used = 0;
    list->text[0] = 0;
}

/* who: the rank as the text names it. A text that is too long is cut. */
void msi_rank_list_add(struct msi_rank_list *list, int rank, const char *who);

#endif
