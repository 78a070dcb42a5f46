/*
 * program.c - looks a program up and says clearly why it cannot be run, before anything is started. Runs on
 * the main thread; the path it returns belongs to the caller.
 */
#include "run/ranks/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum verdict { USABLE, MISSING, DIRECTORY, NO_FILE, NO_PERMISSION };

static enum verdict judge(const char *path) {
    struct stat st;

    if (stat(path, &st) != 0) return errno == EACCES ? NO_PERMISSION : MISSING;
    if (S_ISDIR(st.st_mode)) return DIRECTORY;
    if (!S_ISREG(st.st_mode)) return NO_FILE;
    return access(path, X_OK) == 0 ? USABLE : NO_PERMISSION;
}

static void explain(enum verdict verdict, const char *name, char *why, size_t size) {
    switch (verdict) {
    case USABLE:
        break;
    case MISSING:
        snprintf(why, size, "cannot run '%s': there is no such file", name);
        break;
    case DIRECTORY:
        snprintf(why, size, "cannot run '%s': it is a directory", name);
        break;
    case NO_FILE:
        snprintf(why, size, "cannot run '%s': it is not a file", name);
        break;
    case NO_PERMISSION:
        snprintf(why, size, "cannot run '%s': it is not executable; try 'chmod +x %s'", name, name);
        break;
    }
}

/* Sets *path to the first usable candidate in PATH; *seen tells about an unusable one. */
static int search(const char *name, char **path, enum verdict *seen) {
    const char *dirs = getenv("PATH");

    if (dirs == NULL) dirs = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t len = strcspn(dirs, ":");
        char *candidate;

        if (asprintf(&candidate, "%.*s/%s", len > 0 ? (int)len : 1, len > 0 ? dirs : ".", name) < 0)
            return -1;
        enum verdict verdict = judge(candidate);
        if (verdict == USABLE) {
            *path = candidate;
            return 0;
        }
        if (verdict != MISSING) *seen = verdict;
        free(candidate);
        if (dirs[len] == '\0') return -1;
        dirs += len + 1;
    }
}

int program_find(const char *name, char **path, char *why, size_t why_size) {
    enum verdict verdict = MISSING;

    snprintf(why, why_size, "cannot run '%s': out of memory", name);
    if (name[0] == '\0') {
        snprintf(why, why_size, "the program's name is empty");
        return -1;
    }
    if (strchr(name, '/') != NULL) {
        verdict = judge(name);
        explain(verdict, name, why, why_size);
        if (verdict != USABLE) return -1;
        *path = strdup(name);
        return *path != NULL ? 0 : -1;
    }
    if (search(name, path, &verdict) == 0) return 0;
    if (verdict != MISSING)
        explain(verdict, name, why, why_size);
    else if (judge(name) == USABLE)
        snprintf(why, why_size, "cannot find '%s' in PATH; did you mean './%s'?", name, name);
    else
        snprintf(why, why_size, "cannot find '%s' in PATH", name);
    return -1;
}
