/*
 * recovery.h - texts with which ranks decide how to go on after deaths: ballots (group/vote.h), the next
 * world (group/reform.c), its store (group/standby.c) and processes that join it (bootstrap/admission.h).
 * Pure codecs, which check everything that they read.
 */
#ifndef MSI_WIRE_RECOVERY_H
#define MSI_WIRE_RECOVERY_H

#include "base/buf.h"
#include "base/str.h"

#include <stdint.h>

/* A line "RANK TEXT". */
void msi_ballot_write(struct msi_buf *out, int rank, struct msi_str text);
/* Removes the next well-formed line of a rank below size, and skips others; false at the end. */
bool msi_ballot_next(struct msi_str *lines, int size, int *rank, struct msi_str *text);

/* A line of the log of new processes. */
struct msi_joiner_event {
    char kind; /* '+' waits, '-' is gone or gave up, '=' was admitted */
    uint64_t nonce;
};
/* what: text behind the nonce; "": none. */
void msi_joiner_event_write(struct msi_buf *out, const struct msi_joiner_event *event, const char *what);
bool msi_joiner_event_next(struct msi_str *log, struct msi_joiner_event *event);

/* The place of a process in the next world. */
struct msi_admission {
    int64_t epoch;
    int rank, size;
    int first_old; /* a rank of the next world that was in the world before */
};
void msi_admission_write(struct msi_buf *out, const struct msi_admission *given);
bool msi_admission_read(struct msi_str text, struct msi_admission *given);

/* The next world: a head, and a line for each of its ranks. */
struct msi_next_rank {
    int old;        /* its rank in the world before; -1: it is a new process … */
    uint64_t nonce; /* … with this number */
    int rank;
};
/* The rank of head is not used. */
void msi_next_world_write(struct msi_buf *out, const struct msi_admission *head);
bool msi_next_world_read(struct msi_str *lines, struct msi_admission *head);
void msi_next_rank_write(struct msi_buf *out, const struct msi_next_rank *next);
/* Removes the next well-formed line with a rank below size and skips others; false at the end. */
bool msi_next_rank_read(struct msi_str *lines, int size, struct msi_next_rank *next);

enum { MSI_STORE_RANKS_MAX = 32 };
/* Ranks of a world: the host of its store and the standby; -1: no standby. */
void msi_store_ranks_write(char out[MSI_STORE_RANKS_MAX], const int ranks[2]);
/* False, with both -1, if the text is malformed or a rank is not below size. */
bool msi_store_ranks_read(struct msi_str text, int size, int ranks[2]);

#endif
