/* work.c - the public calls on works. */
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "comm/comm.h"

static mst_status check(const mst_work *work) {
    return work ? MST_OK
                : msi_fail(MST_ERR_INVALID, "a work comes from a call that was given .work", "work is NULL");
}

mst_status mst_wait_with(mst_work *work, const mst_wait_options *given) {
    mst_wait_options options;
    mst_status st = msi_options_begin("mst_wait", &options, sizeof options, given);
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st == MST_OK) st = check(work);
    if (st != MST_OK) return st;
    /* Without .timeout_ms it waits until the operation ends, which has a deadline of its own. */
    struct msi_wait wait = {options.timeout_ms ? msi_deadline(options.timeout_ms) : INT64_MAX,
                            options.cancel};
    uint64_t entered = msi_call_enter(0, 0, 0);
    return msi_call_leave(entered, msi_comm_finish(work, &wait));
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

mst_status mst_work_on_done(mst_work *work, void (*callback)(mst_status, void *), void *arg) {
    msi_call_begin("mst_work_on_done", NULL, msi_call_get_rank());
    mst_status st = check(work);
    if (st == MST_OK && !callback) st = msi_fail(MST_ERR_INVALID, NULL, "callback is NULL");
    return st == MST_OK ? msi_comm_on_done(work, callback, arg) : st;
}

void mst_work_free(mst_work *work) {
    msi_call_begin("mst_work_free", NULL, msi_call_get_rank());
    if (work && msi_comm_abandon(work) != MST_OK) msi_log(backend, WARN, "%s", mst_error());
}
