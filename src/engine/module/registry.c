/* registry.c - see registry.h. Any thread; a lock guards the tables. */
#include "engine/module/registry.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/settings.h"
#include "os/module_file.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKEND_NAME_MAX = 32, KNOWN_MOST = 32, WHY_MAX = 400 };

/*
 * Copies of the tables that were registered or loaded, with zeros for slots that an older muster did not
 * have. Under the lock; entries never change.
 */
static mst_backend known[KNOWN_MOST];
static int n_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* muster's own modules: known even if they were not built. */
static const struct {
    const char *name, *needs;
} ours[] = {
    {"mpi", "libopenmpi-dev or libmpich-dev"},
    {"gloo", "libgloo-dev"},
    {"nccl", "a C compiler"},
};
enum { OURS = sizeof ours / sizeof *ours };

static bool is_name(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_') return false;
    return n > 0 && n < BACKEND_NAME_MAX && strcmp(name, "auto") != 0;
}

static const mst_backend *look_up(const char *name) {
    if (!strcmp(name, msi_native_backend.name)) return &msi_native_backend;
    for (int i = 0; i < n_known; i++)
        if (!strcmp(known[i].name, name)) return &known[i];
    return NULL;
}

/* Checks a table before it is used. */
static mst_status check(const mst_backend *t) {
    if (!t) return msi_fail(MST_ERR_INVALID, NULL, "table is NULL");
    if (t->version != MST_BACKEND_VERSION)
        return msi_fail(MST_ERR_INVALID, "build it against this muster's backend.h",
                        "the table has version %u, but this muster needs version %d", t->version,
                        MST_BACKEND_VERSION);
    if (t->size < offsetof(mst_backend, memory_of))
        return msi_fail(MST_ERR_INVALID, "set .size to sizeof(mst_backend)", "the table has %zu bytes",
                        t->size);
    if (!t->name || !is_name(t->name))
        return msi_fail(MST_ERR_INVALID, "use letters, digits and _, and not 'auto'",
                        "'%s' is not a valid name of a backend", t->name ? t->name : "");
    return MST_OK;
}

/* The name of a required slot that is missing; NULL: none is. */
static const char *find_lack(const mst_backend *t) {
    bool memory = t->memory_of || t->alloc || t->release || t->copy;
    const struct {
        bool lacks;
        const char *slot;
    } slots[] = {
        {!t->probe, "probe"},
        {!t->rows, "rows"},
        {!t->open, "open"},
        {!t->submit, "submit"},
        {!t->progress, "progress"},
        {!t->abort, "abort"},
        {!t->close, "close"},
        {memory && !t->memory_of, "memory_of"},
        {memory && !t->alloc, "alloc"},
        {memory && !t->release, "release"},
        {memory && !t->copy, "copy"},
        {t->group_end && !t->group_begin, "group_begin"},
        {t->group_begin && !t->group_end, "group_end"},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (slots[i].lacks) return slots[i].slot;
    return NULL;
}

/* Under the lock. Adds a table that was checked, unless a slot is missing. */
static mst_status add(const mst_backend *table) {
    mst_backend copy = {0};
    memcpy(&copy, table, table->size < sizeof copy ? table->size : sizeof copy);
    const char *lacks = find_lack(&copy);
    if (lacks) return msi_fail(MST_ERR_INVALID, NULL, "the table of '%s' lacks %s", copy.name, lacks);
    if (look_up(copy.name))
        return msi_fail(MST_ERR_STATE, "give it another name", "there is a backend '%s' already", copy.name);
    if (n_known == KNOWN_MOST)
        return msi_fail(MST_ERR_STATE, NULL, "there are %d backends already, which is the limit", KNOWN_MOST);
    known[n_known++] = copy;
    return MST_OK;
}

mst_status mst_backend_register(const mst_backend *table) {
    msi_call_begin("mst_backend_register", NULL, msi_call_get_rank());
    mst_status st = check(table);
    if (st != MST_OK) return st;
    pthread_mutex_lock(&lock);
    st = add(table);
    pthread_mutex_unlock(&lock);
    return st;
}

/* The file of a backend's module; false: there is none. */
static bool find_file(const char *name, const char *path, char out[PATH_MAX]) {
    char file[BACKEND_NAME_MAX + 20];
    snprintf(file, sizeof file, "mst_backend_%s.so", name);
    return msi_module_file(file, path, out);
}

/* Writes the name of the i-th module file; false after the last. */
static bool nth_file(int i, const char *path, char name[BACKEND_NAME_MAX]) {
    char dir[PATH_MAX];
    for (int d = 0; msi_module_directory(d, path, dir); d++) {
        DIR *open = opendir(dir);
        for (struct dirent *entry; open && (entry = readdir(open));) {
            int used = 0;
            char found[BACKEND_NAME_MAX];
            if (sscanf(entry->d_name, "mst_backend_%31[A-Za-z0-9_].so%n", found, &used) != 1 ||
                used != (int)strlen(entry->d_name) || i-- > 0)
                continue;
            snprintf(name, BACKEND_NAME_MAX, "%s", found);
            closedir(open);
            return true;
        }
        if (open) closedir(open);
    }
    return false;
}

/* All names, each once: native, muster's own modules, registered ones, files. */
static int list_names(const char *path, char names[][BACKEND_NAME_MAX], int most) {
    int n = 0;
    char name[BACKEND_NAME_MAX];
    snprintf(names[n++], BACKEND_NAME_MAX, "%s", msi_native_backend.name);
    for (int i = 0; i < OURS; i++) snprintf(names[n++], BACKEND_NAME_MAX, "%s", ours[i].name);
    for (int i = 0;; i++) {
        pthread_mutex_lock(&lock);
        int tables = n_known;
        if (i < tables) snprintf(name, sizeof name, "%s", known[i].name);
        pthread_mutex_unlock(&lock);
        if (i >= tables && !nth_file(i - tables, path, name)) return n;
        bool there = n == most;
        for (int k = 0; k < n && !there; k++) there = !strcmp(names[k], name);
        if (!there) snprintf(names[n++], BACKEND_NAME_MAX, "%s", name);
    }
}

/* Fails, and suggests the nearest name. */
static mst_status say_unknown(const char *name, const char *path) {
    char names[KNOWN_MOST][BACKEND_NAME_MAX], remedy[160];
    const char *near = NULL;
    int n = list_names(path, names, KNOWN_MOST),
        fewest = (int)strlen(name) / 2 + 1; /* a name with more edits is another word */
    for (int i = 0; i < n; i++) {
        int edits = msi_edits(msi_cstr(name), names[i]);
        if (edits >= fewest) continue;
        fewest = edits;
        near = names[i];
    }
    snprintf(remedy, sizeof remedy,
             near ? "did you mean '%s'? see `muster info`"
                  : "see `muster info` for the list; modules are loaded from MUSTER_BACKEND_PATH",
             near);
    return msi_fail(MST_ERR_UNSUPPORTED, remedy, "there is no backend '%s'", name);
}

static mst_status say_no_module(const char *name, const char *path) {
    for (int i = 0; i < OURS; i++)
        if (!strcmp(name, ours[i].name))
            return msi_fail(
                MST_ERR_UNSUPPORTED,
                "build muster with that package, or add the module's directory to MUSTER_BACKEND_PATH",
                "mst_backend_%s.so was not found; it is built where %s is installed", name, ours[i].needs);
    return say_unknown(name, path);
}

/* Under the lock. A module is never unloaded: backends have threads and atexit handlers. */
static mst_status load(const char *name, const char *file, const mst_backend **table) {
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return msi_fail(MST_ERR_UNSUPPORTED,
                        "install the missing library, or build the module for this system",
                        "backend '%s' cannot be loaded: %s", name, dlerror());
    const mst_backend *(*give)(unsigned);
    void *found = dlsym(module, "mst_backend_module");
    memcpy(&give, &found, sizeof give); /* C has no cast from void * to a function pointer */
    if (!give)
        return msi_fail(MST_ERR_UNSUPPORTED, "see <muster/backend.h>",
                        "%s has no function mst_backend_module", file);
    const mst_backend *t = give(MST_BACKEND_VERSION);
    if (!t)
        return msi_fail(MST_ERR_UNSUPPORTED, "build it against this muster's backend.h",
                        "%s has no table of version %d", file, MST_BACKEND_VERSION);
    mst_status st = check(t);
    if (st == MST_OK && strcmp(t->name, name) != 0)
        st = msi_fail(MST_ERR_INVALID, "the module of backend NAME must be a file mst_backend_NAME.so",
                      "%s is the module of backend '%s'", file, t->name);
    if (st == MST_OK) st = add(t);
    if (st == MST_OK) *table = look_up(name);
    return st;
}

static mst_status get(const char *name, const char *path, const mst_backend **table) {
    char file[PATH_MAX];
    pthread_mutex_lock(&lock);
    const mst_backend *found = look_up(name);
    bool named = found || is_name(name), there = found || (named && find_file(name, path, file));
    mst_status st = found || !there ? MST_OK : load(name, file, &found);
    pthread_mutex_unlock(&lock);
    if (!named)
        return msi_fail(MST_ERR_INVALID, "see `muster info`", "'%s' is not a valid name of a backend", name);
    if (!there) return say_no_module(name, path);
    if (st == MST_OK) *table = found;
    return st;
}

mst_status msi_backend_find(const char *name, const char *path, const mst_backend **table) {
    const mst_backend *found = NULL;
    char why[WHY_MAX] = "";
    mst_status st = get(name, path, &found);
    if (!found) return st;
    if (!found->probe(why, sizeof why))
        return msi_fail(MST_ERR_UNSUPPORTED, "see `muster info`; native can always be used",
                        "backend '%s' cannot be used here: %s", name, why);
    *table = found;
    return MST_OK;
}

bool mst_backend_list(int i, const char **name, bool *usable, char *text, size_t size) {
    static _Thread_local char names[KNOWN_MOST][BACKEND_NAME_MAX];
    struct msi_settings settings;
    if (msi_settings_load(&settings, NULL) != MST_OK) settings.backend_path[0] = '\0';
    if (i < 0 || i >= list_names(settings.backend_path, names, KNOWN_MOST)) return false;
    if (name) *name = names[i];
    if (!text || size == 0) return true;
    const mst_backend *table = NULL;
    text[0] = '\0';
    get(names[i], settings.backend_path, &table);
    if (!table) snprintf(text, size, "%s", mst_last_error()->message);
    bool can = table && table->probe(text, size);
    if (usable) *usable = can;
    return true;
}

const mst_backend_capability *mst_backend_rows(const char *name) {
    const mst_backend *table = NULL;
    struct msi_settings settings;
    msi_call_begin("mst_backend_rows", NULL, msi_call_get_rank());
    if (msi_settings_load(&settings, NULL) != MST_OK) return NULL;
    get(name ? name : "", settings.backend_path, &table);
    return table ? table->rows() : NULL;
}
