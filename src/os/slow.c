/* slow.c - see slow.h. */
#include "os/slow.h"
#include "base/error.h"
#include "base/log.h"

void msi_slow_write(struct msi_slow *slow, int64_t deadline, const char *call, const char *group,
                    const char *ranks) {
    enum { NS = 1000000000 };
    char own[300];
    int64_t now = msi_now();
    msi_log(group, WARN, "%s%s%s has waited %lld s for %s; it fails in %lld s",
            call ? call : msi_call_show(own, sizeof own), group ? " on " : "", group ? group : "",
            (long long)((now - slow->since) / NS), ranks, (long long)((deadline - now + NS / 2) / NS));
    slow->due = INT64_MAX;
}
