/*
 * flight_words.h - what flight recorders say, in words: what a rank does, and, of several ranks together, who is behind. For
 * whoever stands before a job that does not go on. Pure; texts are added to a buffer.
 */
#ifndef MSI_PROF_FLIGHT_WORDS_H
#define MSI_PROF_FLIGHT_WORDS_H

#include "base/buf.h"
#include "prof/flight_view.h"

/* "mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step)" */
void msi_flight_say_op(const struct msi_flight_op *op, struct msi_buf *to);
/* "world", "group 'dp'", "a group of 4 ranks" */
void msi_flight_say_team(const struct msi_flight_team *team, struct msi_buf *to);
/* "12.3 s"; nothing where it is not known, and false. */
bool msi_flight_say_span(int64_t from, int64_t to_ns, struct msi_buf *to);
/* "in mst_all_reduce …, for 12.3 s", or "last was mst_barrier …, returned 12.4 s ago"; view NULL: there is none. */
void msi_flight_say_rank(const struct msi_flight_view *view, struct msi_buf *to);

/* A rank of the world, and its recorder. */
struct msi_flight_of {
    int rank;
    const struct msi_flight_view *view; /* NULL: it left none */
};

/*
 * The verdict on ranks, ascending, of a world of so many, in lines: for each group in which ranks wait, who has not come to where they
 * are, whether they called different things, and whose recorder is missing. Ranks that are not given are not judged.
 */
void msi_flight_judge(const struct msi_flight_of *ranks, int n, int world_size, struct msi_buf *to);

#endif
