/* profiling.c - see profiling.h. Runs on the main thread before anything is started. */
#include "run/profiling.h"

#include "run/output/logs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char trace_variable[] = "MUSTER_TRACE";

static int add(struct run_options *o, const char *entry) {
    const char **grown = realloc(o->env.list, (o->env.n + 1) * sizeof grown[0]);

    if (grown == NULL) return -1;
    o->env.list = grown;
    grown[o->env.n++] = entry;
    return 0;
}

/* Ranks may have another directory to start from. */
static int make_trace(struct run_options *o, char *why, size_t why_size) {
    char path[PATH_MAX];

    if (o->trace[0] == '\0') {
        snprintf(why, why_size, "--trace is empty");
        return -1;
    }
    if (logs_make_directories(o->trace) != 0 || realpath(o->trace, path) == NULL) {
        snprintf(why, why_size, "cannot write traces to '%s': %s", o->trace, strerror(errno));
        return -1;
    }
    if (asprintf(&o->trace_entry, "%s=%s", trace_variable, path) < 0) o->trace_entry = NULL;
    if (o->trace_entry != NULL && add(o, o->trace_entry) == 0) return 0;
    snprintf(why, why_size, "out of memory");
    return -1;
}

int run_prof_open(struct run_options *o, char *why, size_t why_size) {
    if (o->prof && add(o, "MUSTER_PROF=1") != 0) {
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    return o->trace != NULL ? make_trace(o, why, why_size) : 0;
}

void run_prof_close(struct run_options *o) {
    free(o->trace_entry);
    o->trace_entry = NULL;
}

const char *run_prof_directory(const struct run_options *o) {
    size_t len = strlen(trace_variable);
    const char *own = getenv(trace_variable), *found = o->no_env ? NULL : own;

    for (size_t i = 0; i < o->env.n; i++) {
        const char *entry = o->env.list[i];
        if (strncmp(entry, trace_variable, len) != 0 || (entry[len] != '=' && entry[len] != '\0')) continue;
        found = entry[len] == '=' ? entry + len + 1 : own;
    }
    return found != NULL && found[0] != '\0' ? found : NULL;
}
