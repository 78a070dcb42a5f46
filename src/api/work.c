/* work.c - the public calls on works. */
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "comm/comm.h"

#include <limits.h>

static mst_status check(const mst_work *work) {
    return work ? MST_OK
                : msi_fail(MST_ERR_INVALID, "a work comes from a call that was given .work", "work is NULL");
}

static mst_status check_all(mst_work *const *works, size_t n) {
    return works || !n ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "works is NULL, but n is %zu", n);
}

/* Begins a call that waits. Without .timeout_ms it waits until the operation ends, which has its own
 * deadline. */
static mst_status begin(const char *name, const mst_wait_options *given, mst_wait_options *options,
                        struct msi_wait *wait) {
    mst_status st = msi_options_begin(name, options, sizeof *options, given);
    if (st == MST_OK) st = msi_check_wait_timeout(options->timeout_ms);
    if (st == MST_OK) *wait = msi_wait_of(options->timeout_ms, INT64_MAX, options->cancel);
    return st;
}

mst_status mst_wait_with(mst_work *work, const mst_wait_options *given) {
    mst_wait_options options;
    struct msi_wait wait;
    mst_status st = begin("mst_wait", given, &options, &wait);
    if (st == MST_OK) st = check(work);
    if (st != MST_OK) return st;
    uint64_t entered = msi_call_enter(0, 0, 0);
    return msi_call_leave(entered, msi_comm_finish(work, &wait, options.keep));
}

/* Ends works that are done. The first failure of the array is recorded last: it is the thread's error. */
static mst_status end_all(mst_work **works, size_t n, const struct msi_wait *wait, bool keep) {
    mst_status first = MST_OK;
    for (size_t i = n; i-- > 0;) {
        if (!works[i]) continue;
        mst_status st = msi_comm_finish(works[i], wait, keep);
        if (st != MST_OK) first = st;
        if (!keep) works[i] = NULL;
    }
    return first;
}

mst_status mst_wait_all_with(mst_work **works, size_t n, const mst_wait_options *given) {
    mst_wait_options options;
    struct msi_wait wait;
    mst_status st = begin("mst_wait_all", given, &options, &wait);
    if (st == MST_OK) st = check_all(works, n);
    if (st != MST_OK) return st;
    uint64_t entered = msi_call_enter(0, 0, 0);
    size_t done;
    st = msi_comm_await(works, n, &wait, true, &done);
    if (st == MST_OK) st = end_all(works, n, &wait, options.keep);
    return msi_call_leave(entered, st);
}

mst_status mst_wait_any_with(mst_work **works, size_t n, int *index, const mst_wait_options *given) {
    mst_wait_options options;
    struct msi_wait wait;
    mst_status st = begin("mst_wait_any", given, &options, &wait);
    if (st == MST_OK) st = check_all(works, n);
    if (st == MST_OK && n > INT_MAX) st = msi_fail(MST_ERR_INVALID, NULL, "n is %zu", n);
    if (st == MST_OK && !index) st = msi_fail(MST_ERR_INVALID, NULL, "index is NULL");
    if (st != MST_OK) return st;
    size_t at = 0;
    while (at < n && !works[at]) at++;
    if (at == n) {
        *index = -1;
        return MST_OK;
    }
    uint64_t entered = msi_call_enter(0, 0, 0);
    st = msi_comm_await(works, n, &wait, false, &at);
    if (st == MST_OK) {
        st = msi_comm_finish(works[at], &wait, options.keep);
        if (!options.keep) works[at] = NULL;
        *index = (int)at;
    }
    return msi_call_leave(entered, st);
}

mst_status mst_work_combine(mst_work **works, size_t n, mst_work **work) {
    msi_call_begin("mst_work_combine", NULL, msi_call_get_rank());
    mst_status st = check_all(works, n);
    if (st == MST_OK && !work) st = msi_fail(MST_ERR_INVALID, NULL, "work is NULL");
    return st == MST_OK ? msi_comm_combine(works, n, work) : st;
}

mst_status mst_test_all(mst_work *const *works, size_t n, bool *done) {
    msi_call_begin("mst_test_all", NULL, msi_call_get_rank());
    mst_status st = check_all(works, n);
    if (st == MST_OK && !done) st = msi_fail(MST_ERR_INVALID, NULL, "done is NULL");
    bool all = true, one;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        if (!works[i]) continue;
        st = msi_comm_test(works[i], &one);
        if (st == MST_OK) all &= one;
    }
    if (st == MST_OK) *done = all;
    return st;
}

mst_status mst_test(mst_work *work, bool *done) {
    msi_call_begin("mst_test", NULL, msi_call_get_rank());
    mst_status st = check(work);
    if (st == MST_OK && !done) st = msi_fail(MST_ERR_INVALID, NULL, "done is NULL");
    return st == MST_OK ? msi_comm_test(work, done) : st;
}

mst_status mst_work_result(mst_work *work) {
    msi_call_begin("mst_work_result", NULL, msi_call_get_rank());
    mst_status st = check(work);
    return st == MST_OK ? msi_comm_result(work) : st;
}

mst_status mst_work_on_done_with(mst_work *work, mst_done_fn callback, void *arg,
                                 const mst_done_options *given) {
    mst_done_options options;
    mst_status st = msi_options_begin("mst_work_on_done", &options, sizeof options, given);
    if (st == MST_OK) st = check(work);
    if (st == MST_OK && !callback) st = msi_fail(MST_ERR_INVALID, NULL, "callback is NULL");
    return st == MST_OK ? msi_comm_on_done(work, callback, arg, options.may_wait) : st;
}

void mst_work_free(mst_work *work) {
    msi_call_begin("mst_work_free", NULL, msi_call_get_rank());
    if (work && msi_comm_abandon(work) != MST_OK) msi_log(backend, WARN, "%s", mst_error());
}
