/* program.c - finds a program, and explains why it cannot be run. See program.h. Runs on the main thread. */
#include "run/ranks/program.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, or the errno that execve would return; EINVAL for what is neither a file nor a directory. */
static int check(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) return errno == EACCES ? EACCES : ENOENT;
    if (S_ISDIR(st.st_mode)) return EISDIR;
    if (!S_ISREG(st.st_mode)) return EINVAL;
    return access(path, X_OK) == 0 ? 0 : EACCES;
}

static mst_status fail_check(int error, const char *name) {
    const char *why = error == ENOENT   ? "there is no such file"
                      : error == EISDIR ? "it is a directory"
                      : error == EINVAL ? "it is not a regular file"
                                        : "it is not executable";
    char remedy[300];
    snprintf(remedy, sizeof remedy, "try 'chmod +x %s'", name);
    return msi_fail(MST_ERR_INVALID, error == EACCES ? remedy : NULL, "cannot run '%s': %s", name, why);
}

/* The first executable candidate in PATH, or NULL; *error is that of the last other candidate. */
static char *search(const char *name, int *error) {
    const char *dirs = getenv("PATH");
    if (!dirs) dirs = "/usr/local/bin:/usr/bin:/bin";
    for (;; dirs++) {
        size_t len = strcspn(dirs, ":");
        char *candidate;
        if (asprintf(&candidate, "%.*s/%s", len > 0 ? (int)len : 1, len > 0 ? dirs : ".", name) < 0) {
            *error = ENOMEM;
            return NULL;
        }
        int found = check(candidate);
        if (found == 0) return candidate;
        if (found != ENOENT) *error = found;
        free(candidate);
        dirs += len;
        if (!*dirs) return NULL;
    }
}

mst_status program_find(const char *name, char **path) {
    int error = ENOENT;
    if (!name[0]) return msi_fail(MST_ERR_INVALID, NULL, "the program's name is empty");
    if (strchr(name, '/')) {
        error = check(name);
        if (error != 0) return fail_check(error, name);
        *path = strdup(name);
        return *path ? MST_OK : msi_fail_memory();
    }
    *path = search(name, &error);
    if (*path) return MST_OK;
    if (error == ENOMEM) return msi_fail_memory();
    if (error != ENOENT) return fail_check(error, name);
    char remedy[300];
    snprintf(remedy, sizeof remedy, "did you mean './%s'?", name);
    return msi_fail(MST_ERR_INVALID, check(name) == 0 ? remedy : NULL, "cannot find '%s' in PATH", name);
}
