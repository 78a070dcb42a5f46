/*
 * error.h - the thread's last failure, and the call it happened in.
 *
 * A public entry point names itself with msi_call_begin; whoever decides that something is an error says so
 * once, with msi_fail, and passes the status up. Everything here is per thread: no locks, nothing shared but the state.
 */
#ifndef MSI_BASE_ERROR_H
#define MSI_BASE_ERROR_H

#include "base/rank_state.h"

/* Names the public call that this thread is in. rank is the caller's own, or -1. */
void msi_call_begin(const char *operation, const mst_site *site, int rank);

/* The same call again, known better by now: its rank, and its sequence number where it has one. */
void msi_call_rank(int rank);
void msi_call_sequence(uint64_t sequence);

/*
 * The call may take long from here; ranks 0: no matter. Returns what msi_call_leave wants to know when it is over. For the
 * state, and without one next to nothing.
 */
uint64_t msi_call_enter_rank_state(int ranks, int dtype, size_t count);
static inline uint64_t msi_call_enter(int ranks, int dtype, size_t count) {
    return msi_rank_state_on() ? msi_call_enter_rank_state(ranks, dtype, count) : 0;
}
/* Returns status. */
static inline mst_status msi_call_leave(uint64_t entered, mst_status status) {
    if (entered) msi_rank_state_leave(msi_rank_state_on(), entered, status);
    return status;
}

/* The rank that log lines of this thread carry; -1 for none. */
int msi_call_get_rank(void);

/* Records a failure and returns status. remedy may be NULL. culprit is reset to -1. */
mst_status msi_fail(mst_status status, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The rank to blame for the failure just recorded; returns status. */
mst_status msi_blame(mst_status status, int culprit);

/* How many failures this thread has recorded: whether there was one in between. */
uint64_t msi_failures(void);

/* A failure that is kept while others are asked, who may fail too. */
struct msi_words {
    mst_status status;
    int culprit;
    char message[1024], remedy[512];
};
/* Keeps the thread's last one; fails with it again, in the call that the thread is in by then. */
void msi_words_keep(struct msi_words *words, mst_status status);
mst_status msi_words_say(const struct msi_words *words);

/* MST_ERR_MEMORY with its message. */
mst_status msi_fail_memory(void);

/* MST_ERR_SYSTEM for errno-style error, said as "what: text of error". */
mst_status msi_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
