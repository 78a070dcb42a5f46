/*
 * diagnose.h - diagnoses a hung or failed job from the flight recorders of its ranks. Pure.
 *
 * It follows from each rank to the rank that it waits for, until a rank waits for no other. Such a rank is
 * blamed.
 *
 *  1. A rank waits in an operation that has not finished, or that failed if no later operation has succeeded.
 *  2. In a collective it waits for the members of the group that have not called the collective of that
 *     number: all ranks of a group call the same collectives in the same order. Members are ranks whose
 *     recorders know the group; other ranks are not blamed.
 *  3. In a receive it waits for the sender, unless that has sent the message of that number; in a send
 *     likewise for the receiver.
 *  4. A rank whose operation failed and names a culprit that is not behind waits for that culprit.
 */
#ifndef MSI_PROF_FLIGHT_DIAGNOSE_H
#define MSI_PROF_FLIGHT_DIAGNOSE_H

#include "base/buf.h"
#include "prof/flight/view.h"

enum msi_diagnosis_kind {
    MSI_DIAGNOSIS_NONE,      /* no rank waits for another */
    MSI_DIAGNOSIS_BEHIND,    /* ranks have not reached the operation in which others wait */
    MSI_DIAGNOSIS_MISSING,   /* others wait for ranks without a recorder */
    MSI_DIAGNOSIS_LOST,      /* others name a rank as the cause of their failure */
    MSI_DIAGNOSIS_CIRCLE,    /* ranks wait for each other */
    MSI_DIAGNOSIS_DIFFERENT, /* ranks called different operations */
    MSI_DIAGNOSIS_TOGETHER,  /* all ranks are in the operation, and it does not finish */
    MSI_DIAGNOSIS_KINDS,
};

/* What is known of a rank. */
struct msi_flight_rank {
    const struct msi_flight_view *view; /* NULL: none */
    bool elsewhere;                     /* its recorder is not available here */
    int blames;                         /* the rank that its failure names; -1: none */
    const char *reason;                 /* why it failed or was ended; NULL or "": not known */
};

struct msi_diagnosis {
    enum msi_diagnosis_kind kind;
    const struct msi_flight_op *op; /* the operation in which ranks wait; NULL: none */
    int owner;                      /* the rank of op */
    const int *blamed; /* ranks, ascending; CIRCLE: along the circle; DIFFERENT: the owner and another */
    const struct msi_flight_op *other; /* DIFFERENT: the operation of that other rank */
    const int *waiting;                /* ranks in op */
    const int *further;                /* ranks that wait in other operations because of it */
    int n_blamed, n_waiting, n_further;
};

enum { MSI_DIAGNOSES_MOST = 4 };

/* The diagnosis that most ranks wait for comes first. */
struct msi_diagnoses {
    const struct msi_flight_rank *ranks;
    int size, n;
    struct msi_diagnosis of[MSI_DIAGNOSES_MOST];
    const struct msi_flight_op **in; /* the operation that each rank waits in; NULL: none */
    int *memory;
};

/* ranks are all ranks of the world; they are borrowed. False: no memory. */
bool msi_flight_diagnose(const struct msi_flight_rank *ranks, int size, struct msi_diagnoses *diagnoses);
void msi_diagnoses_free(struct msi_diagnoses *diagnoses);

/* Text (text.c). The diagnoses, one line each. */
void msi_flight_print_diagnoses(const struct msi_diagnoses *diagnoses, struct msi_buf *to);
/* "mst_all_reduce #17 of world (4 ranks), 1024 f32, at train.c:33 (step)" */
void msi_flight_print_op(const struct msi_flight_view *view, const struct msi_flight_op *op,
                         struct msi_buf *to);
/*
 * "in mst_all_reduce …, for 12.3 s", or "last operation was mst_barrier …, returned 12.4 s ago"; view may be
 * NULL.
 */
void msi_flight_print_rank(const struct msi_flight_view *view, struct msi_buf *to);

#endif
