/* step_report.h - how the ranks of a test tell the driver that a step has ended. */
#ifndef STEP_REPORT_H
#define STEP_REPORT_H

#include "os/clock.h"

#include <muster/muster.h>
#include <stdio.h>
#include <unistd.h>

/* Prints "step status milliseconds culprit error", with tabs between them. Returns status. */
static inline mst_status report(const char *step, mst_status status, int64_t begin) {
    bool failed = status != MST_OK;
    dprintf(STDOUT_FILENO, "%s\t%s\t%lld\t%d\t%s\n", step, mst_status_name(status),
            (long long)((msi_now() - begin) / 1000000), failed ? mst_last_error()->culprit : -1,
            failed ? mst_error() : "");
    return status;
}

#endif
