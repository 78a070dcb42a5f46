/* profiling.c - sets the variables of --prof and --trace. See run_options.h. Runs before the job starts. */
#include "run/run_options.h"

#include "base/error.h"
#include "os/file.h"
#include "run/output/logs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char trace_variable[] = "MUSTER_TRACE";

static mst_status add(struct run_options *o, const char *entry) {
    const char **grown = realloc(o->env.list, (o->env.n + 1) * sizeof grown[0]);
    if (!grown) return msi_fail_memory();
    o->env.list = grown;
    grown[o->env.n++] = entry;
    return MST_OK;
}

/* The path becomes absolute, because ranks may start in another directory. */
static mst_status set_trace(struct run_options *o) {
    char path[PATH_MAX];
    if (!o->trace[0]) return msi_fail(MST_ERR_INVALID, NULL, "--trace is empty");
    if (logs_make_directories(o->trace) != 0 || !realpath(o->trace, path))
        return msi_fail(MST_ERR_SYSTEM, NULL, "cannot write traces to '%s': %s", o->trace,
                        msi_file_error(errno));
    return setenv(trace_variable, path, 1) == 0 ? add(o, trace_variable) : msi_fail_memory();
}

mst_status run_prof_set(struct run_options *o) {
    mst_status st = o->prof ? add(o, "MUSTER_PROF=1") : MST_OK;
    return st == MST_OK && o->trace ? set_trace(o) : st;
}

const char *run_prof_directory(const struct run_options *o) {
    size_t len = strlen(trace_variable);
    const char *own = getenv(trace_variable), *found = o->no_env ? NULL : own;
    for (size_t i = 0; i < o->env.n; i++) {
        const char *entry = o->env.list[i];
        if (strncmp(entry, trace_variable, len) != 0 || (entry[len] != '=' && entry[len])) continue;
        found = entry[len] ? entry + len + 1 : own;
    }
    return found && found[0] ? found : NULL;
}
