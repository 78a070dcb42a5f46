/* logs.c - creates the log directories and writes the log files. See logs.h. */
#include "run/output/logs.h"

#include "base/error.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS = 2 };

static const char *const names[STREAMS] = {"stdout.log", "stderr.log"};

static mst_status fail(const char *path) {
    if (errno == EMFILE) return msi_fail_errno(errno, "cannot keep logs in '%s'", path);
    return msi_fail(MST_ERR_SYSTEM, NULL, "cannot keep logs in '%s': %s", path, msi_file_error(errno));
}

static int make_directory(const char *path) {
    errno = msi_make_directory(path);
    return errno ? -1 : 0;
}

int logs_make_directories(const char *path) {
    char *part = strdup(path);
    int rc = part ? 0 : -1;
    for (char *slash = part; rc == 0 && slash;) {
        slash = strchr(slash + 1, '/');
        if (slash) *slash = '\0';
        rc = make_directory(part);
        if (slash) *slash = '/';
    }
    int error = errno;
    free(part);
    errno = error;
    return rc;
}

static const char *temporary_directory(void) {
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

static char *make_parent(const char *dir) {
    char *path;
    if (dir) return logs_make_directories(dir) == 0 ? realpath(dir, NULL) : NULL;
    if (asprintf(&path, "%s/muster-logs-XXXXXX", temporary_directory()) < 0) return NULL;
    if (mkdtemp(path)) return path;
    free(path);
    return NULL;
}

/* Creates a new directory; a number is appended if an earlier run has the same id. */
static int make_own(const char *parent, const char *run_id, char **made) {
    for (int i = 1; i < INT_MAX; i++) {
        char number[16] = "";
        if (i > 1) snprintf(number, sizeof number, ".%d", i);
        free(*made);
        if (asprintf(made, "%s/%s%s", parent, run_id, number) < 0) *made = NULL;
        if (!*made) return -1;
        if (mkdir(*made, 0700) == 0) return 0;
        if (errno != EEXIST) return -1;
    }
    return -1;
}

mst_status logs_open(struct logs *logs, const char *dir, const char *run_id, const struct routes *routes) {
    mst_status st = MST_OK;
    *logs = (struct logs){.routes = routes};
    char *parent = make_parent(dir);
    if (!parent) return fail(dir ? dir : temporary_directory());
    logs->fds = malloc(sizeof logs->fds[0] * STREAMS * (size_t)routes->n);
    for (int i = 0; logs->fds && i < routes->n * STREAMS; i++) logs->fds[i] = -1;
    if (!logs->fds || make_own(parent, run_id, &logs->dir) != 0) st = fail(parent);
    free(parent);
    return st;
}

static void close_files(struct logs *logs) {
    for (int i = 0; logs->fds && i < logs->routes->n * STREAMS; i++) {
        if (logs->fds[i] >= 0) close(logs->fds[i]);
        logs->fds[i] = -1;
    }
}

void logs_close(struct logs *logs) {
    close_files(logs);
    free(logs->fds);
    free(logs->dir);
}

int logs_path(char *path, size_t size, const char *dir, int attempt, int local_rank, const char *name) {
    return snprintf(path, size, "%s/attempt_%d/%d%s%s", dir, attempt, local_rank, name ? "/" : "",
                    name ? name : "");
}

static int open_rank(struct logs *logs, int attempt, int local_rank, char path[PATH_MAX]) {
    logs_path(path, PATH_MAX, logs->dir, attempt, local_rank, NULL);
    if (make_directory(path) != 0) return -1;
    for (int i = 0; i < STREAMS; i++) {
        if ((routes_of(logs->routes, local_rank, i) & ROUTE_LOGGED) == 0) continue;
        logs_path(path, PATH_MAX, logs->dir, attempt, local_rank, names[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
        if (fd < 0) return -1;
        logs->fds[local_rank * STREAMS + i] = fd;
    }
    return 0;
}

mst_status logs_begin(struct logs *logs, int attempt) {
    char dir[PATH_MAX], path[PATH_MAX];
    close_files(logs);
    if (snprintf(dir, sizeof dir, "%s/attempt_%d", logs->dir, attempt) >= PATH_MAX - 64) {
        errno = ENAMETOOLONG;
        return fail(logs->dir);
    }
    if (make_directory(dir) != 0) return fail(dir);
    for (int i = 0; i < logs->routes->n; i++) {
        if (open_rank(logs, attempt, i, path) == 0) continue;
        mst_status st = fail(path);
        close_files(logs);
        return st;
    }
    return MST_OK;
}

int logs_write(struct logs *logs, int local_rank, int stream, const char *data, size_t len) {
    int *fd = &logs->fds[local_rank * STREAMS + stream];
    while (*fd >= 0 && len > 0) {
        ssize_t n = write(*fd, data, len);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno != EINTR) {
            int error = errno;
            bool first = !logs->failed;
            close(*fd);
            *fd = -1;
            logs->failed = true;
            return first ? error : 0;
        }
    }
    return 0;
}
