/* misuse.h - what the files of misuse.c share. */
#ifndef TESTS_MISUSE_H
#define TESTS_MISUSE_H

#include <muster/muster.h>
#include <stdbool.h>
#include <stdint.h>

enum { RANKS_MAX = 8, ODD = 1, SMALL = 8, LARGE = 300000 };

extern int me, size;
extern float *in, *out; /* RANKS_MAX blocks of LARGE + 1 */
extern void *outs[RANKS_MAX];
extern const void *ins[RANKS_MAX];

/* What the case of several ranks that runs uses. */
extern mst_group *group;
extern mst_work **work; /* NULL: its calls block */

/* The results that a case of several ranks requires. */
enum expect {
    EXPECT_MISMATCH, /* all ranks get MST_ERR_MISMATCH, and so does the next call */
    EXPECT_ANY,      /* the same, but the errors may name any other rank */
    EXPECT_REJECTED, /* rank ODD gets MST_ERR_INVALID, the others MST_ERR_MISMATCH with the reason */
    EXPECT_REJECTER, /* all ranks get MST_ERR_MISMATCH with the reason for which rank ODD rejected a call */
    EXPECT_LATER,    /* all ranks get MST_ERR_MISMATCH, in this call or in the next one */
    EXPECT_INVALID,  /* all ranks get MST_ERR_INVALID, and the group stays usable */
    EXPECT_OK,       /* the calls match */
    EXPECT_RECEIVER, /* rank 0 gets MST_ERR_MISMATCH; only ranks 0 and ODD call */
};

/* Calls of several ranks, of which that of rank ODD differs. */
struct ranks_case {
    const char *name;
    enum expect expect;
    const char *odd;    /* regular expression: what the errors of the other ranks tell about rank ODD */
    const char *others; /* regular expression: what the error of rank ODD tells about the other ranks */
    mst_status (*run)(void);
};
extern const struct ranks_case mismatch_cases[], rejected_cases[]; /* the last entry has no name */

/*
 * Writes one line: the case, the required status, a regular expression for the message, the status, the
 * operation in the error, and the message, separated by tabs.
 */
void check(const char *name, const char *wanted, const char *pattern, mst_status got);

/* All misuses of one call on one rank. */
void list_calls(void);
int misuse_call(const char *name);
/* One case of a handle that was freed. */
void list_handles(void);
int misuse_handle(const char *name);

#endif
