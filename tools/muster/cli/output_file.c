/* output_file.c - see output_file.h. */
#include "cli/output_file.h"

#include "base/error.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *temporary; /* of the open file; NULL: none */

static void delete_temporary(void) {
    if (temporary) unlink(temporary);
    free(temporary);
    temporary = NULL;
}

static FILE *open_temporary(const char *path) {
    static bool registered;
    char *name;
    if (!registered && atexit(delete_temporary) != 0) return NULL;
    registered = true;
    if (asprintf(&name, "%s.%d", path, (int)getpid()) < 0) return NULL;
    FILE *file = fopen(name, "wxe");
    if (file)
        temporary = name;
    else
        free(name);
    return file;
}

/* Its owner could read what is written to a FIFO, or direct it elsewhere. */
mst_status output_file_check(const char *path) {
    if (!msi_is_foreign_in_shared_dir(path) && !msi_directory_is_foreign(path)) return MST_OK;
    return msi_fail(MST_ERR_SYSTEM, "name another file", "cannot write %s: it belongs to another user", path);
}

mst_status output_file_open(const char *path, FILE **file) {
    struct stat info;
    if (output_file_check(path) != MST_OK) return MST_ERR_SYSTEM;
    if (strcmp(path, "-") == 0)
        *file = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), "w");
    else if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        *file = fopen(path, "we");
    else
        *file = open_temporary(path);
    return *file ? MST_OK : msi_fail_errno(errno, "cannot write %s", path);
}

mst_status output_file_commit(FILE *file, const char *path) {
    bool good = fflush(file) == 0 && !ferror(file);
    int error = good ? 0 : errno;
    if (fclose(file) != 0 && good) error = errno;
    if (error == 0 && temporary && rename(temporary, path) != 0) error = errno;
    if (error != 0) {
        delete_temporary();
        return msi_fail_errno(error, "cannot write %s", path);
    }
    free(temporary);
    temporary = NULL;
    return MST_OK;
}
