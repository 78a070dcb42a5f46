/*
 * error.h - the thread's last failure, and the public call in which it happened.
 *
 * A public function names itself with msi_call_begin. The code that detects a failure records it once with
 * msi_fail and returns the status. Everything here is per thread, without locks; only the rank state is
 * shared.
 */
#ifndef MSI_BASE_ERROR_H
#define MSI_BASE_ERROR_H

#include "base/rank_list.h"
#include "base/rank_state.h"

/* Names the public call that this thread is in. rank is the caller's own, or -1. */
void msi_call_begin(const char *operation, const mst_site *site, int rank);

/* Sets the rank and the sequence number of the current call. */
void msi_call_rank(int rank);
void msi_call_sequence(uint64_t sequence);

/* Reports in the rank state that the call begins to wait; ranks 0: not known. See msi_call_leave. */
uint64_t msi_call_enter_rank_state(int ranks, int dtype, size_t count);
static inline uint64_t msi_call_enter(int ranks, int dtype, size_t count) {
    return msi_rank_state_on() ? msi_call_enter_rank_state(ranks, dtype, count) : 0;
}
/* Returns status. */
static inline mst_status msi_call_leave(uint64_t entered, mst_status status) {
    if (entered) msi_rank_state_leave(msi_rank_state_on(), entered, status);
    return status;
}

/* "mst_barrier at train.c:33": the current call. Returns out. */
const char *msi_call_show(char *out, size_t size);

/* The rank that log lines of this thread carry; -1 for none. */
int msi_call_get_rank(void);

/* Records a failure and returns status. remedy may be NULL. culprit is reset to -1. */
mst_status msi_fail(mst_status status, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The rank to blame for the failure just recorded; returns status. */
mst_status msi_blame(mst_status status, int culprit);

/* The ranks that were missing in the failure just recorded; blames the first. Returns status. */
mst_status msi_blame_missing(mst_status status, const struct msi_ranks *missing);
/* The missing ranks of the thread's last failure. */
const struct msi_ranks *msi_get_missing(void);

/* The number of failures that this thread has recorded. */
uint64_t msi_failures(void);

/* A copy of the thread's last failure, while calls are made that may fail too. */
struct msi_saved_error {
    mst_status status;
    int culprit;
    struct msi_ranks missing;
    char message[1024], remedy[512];
};
/* Restoring records the failure again, in the current call. */
void msi_error_save(struct msi_saved_error *error, mst_status status);
mst_status msi_error_restore(const struct msi_saved_error *error);

/* Runs a function with a current call and a last failure of its own. */
void msi_call_aside(void (*run)(void *), void *context);

/* MST_ERR_MEMORY with its message. */
mst_status msi_fail_memory(void);

/* MST_ERR_SYSTEM for an errno, with the message "format: strerror", and with the limit after EMFILE. */
mst_status msi_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
