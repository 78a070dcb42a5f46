/*
 * diagnose.h - what the flight recorders of a world say together, for whoever stands before a job that does not go on: for whom each
 * rank waits, and for whom that one, until somebody waits for nobody. Where such walks end, there is the culprit. Pure.
 *
 *  1. A rank waits in what it has called and what is not over, or has failed and nothing that began after that went well.
 *  2. In a collective it waits for the members of the group that have not come to that number. All ranks of a group make the same
 *     collectives in the same order. Members are those whose recorders know the group; others are blamed for nothing.
 *  3. In a receive it waits for the sender, unless that has sent the message of that number, and in a send likewise for the receiver.
 *  4. Whose operation failed and blames a rank that is not behind waits for that one.
 */
#ifndef MSI_PROF_FLIGHT_DIAGNOSE_H
#define MSI_PROF_FLIGHT_DIAGNOSE_H

#include "base/buf.h"
#include "prof/flight/view.h"

enum msi_diagnosis_kind {
    MSI_DIAGNOSIS_NONE,      /* no rank is in a call */
    MSI_DIAGNOSIS_BEHIND,    /* some have not come to where others wait */
    MSI_DIAGNOSIS_MISSING,   /* others wait for ranks of which nothing is known */
    MSI_DIAGNOSIS_LOST,      /* others name one as the cause of their failure */
    MSI_DIAGNOSIS_CIRCLE,    /* they wait for each other */
    MSI_DIAGNOSIS_DIFFERENT, /* they called different operations */
    MSI_DIAGNOSIS_TOGETHER,  /* all are in it, and it does not end */
    MSI_DIAGNOSIS_KINDS,
};

/* What is known of a rank. */
struct msi_flight_of {
    const struct msi_flight_view *view; /* NULL: it left none, … */
    bool elsewhere;                     /* … or it is not looked at here */
    int blames;                         /* the rank that its failure names; -1: none */
    const char *reason;                 /* why it failed or was ended; NULL or "": not known */
};

struct msi_diagnosis {
    enum msi_diagnosis_kind kind;
    const struct msi_flight_op *op; /* that the waiting are in; NULL: none */
    int owner;                      /* whose op it is */
    const int
        *blamed; /* ranks, ascending, in a circle along it; of different calls two: the owner and another … */
    const struct msi_flight_op *other; /* … and what that called */
    const int *waiting;                /* the ranks in op, … */
    const int *further;                /* … and those who wait because of it elsewhere */
    int n_blamed, n_waiting, n_further;
};

enum { MSI_VERDICTS_MOST = 4 };

/* The first is that of the most ranks. */
struct msi_diagnoses {
    const struct msi_flight_of *ranks;
    int size, n;
    struct msi_diagnosis of[MSI_VERDICTS_MOST];
    const struct msi_flight_op **in; /* what each rank waits in; NULL: nothing */
    int *memory;
};

/* Judges all ranks of a world; borrows them. False: there is no memory for it. */
bool msi_flight_diagnose(const struct msi_flight_of *ranks, int size, struct msi_diagnoses *diagnoses);
void msi_diagnoses_free(struct msi_diagnoses *diagnoses);

/* In words, a line for each: text.c. */
void msi_flight_print_diagnoses(const struct msi_diagnoses *diagnoses, struct msi_buf *to);

#endif
