/* module_file.c - see module_file.h. */
#include "os/module_file.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef MSI_BACKEND_DIR /* where modules are installed */
#define MSI_BACKEND_DIR ""
#endif

enum { DIRECTORY_MAX = PATH_MAX - 32 }; /* leaves room for a file name */

/* The directory of the file that this code is in: the shared library, or the program. */
static void own_directory(char out[DIRECTORY_MAX]) {
    Dl_info info;
    char file[PATH_MAX] = "";
    out[0] = '\0';
    if (dladdr((void *)(uintptr_t)&own_directory, &info) && info.dli_fname)
        snprintf(file, sizeof file, "%s", info.dli_fname);
    if (!strchr(file, '/')) { /* a program that was found by PATH */
        ssize_t n = readlink("/proc/self/exe", file, sizeof file - 1);
        file[n > 0 ? n : 0] = '\0';
    }
    char *slash = strrchr(file, '/');
    if (!slash) return;
    *slash = '\0';
    snprintf(out, DIRECTORY_MAX, "%.*s", DIRECTORY_MAX - 1, file);
}

bool msi_module_directory(int i, const char *path, char out[PATH_MAX]) {
    for (; path && *path; path += strcspn(path, ":"), path += *path == ':')
        if (*path != ':' && i-- == 0)
            return snprintf(out, PATH_MAX, "%.*s", (int)strcspn(path, ":"), path) > 0;
    char own[DIRECTORY_MAX];
    own_directory(own);
    if (i == 0) return snprintf(out, PATH_MAX, "%s/muster", own) > 0;        /* beside the library */
    if (i == 1) return snprintf(out, PATH_MAX, "%s/../lib/muster", own) > 0; /* beside the tool's bin */
    if (i == 2) return snprintf(out, PATH_MAX, "%s", MSI_BACKEND_DIR) > 0;
    return false;
}

bool msi_module_file(const char *file, const char *path, char out[PATH_MAX]) {
    char dir[PATH_MAX];
    for (int i = 0; msi_module_directory(i, path, dir); i++) {
        int n = snprintf(out, PATH_MAX, "%s/%s", dir, file);
        if (n > 0 && n < PATH_MAX && access(out, R_OK) == 0) return true;
    }
    return false;
}
