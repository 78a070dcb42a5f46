/* log.c - log lines and their levels. See log.h. */
#include "base/log.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODULE_NAME(name)  #name,
#define MODULE_LEVEL(name) MSI_LOG_WARN,
static const char *const module_names[] = {MSI_LOG_MODULES(MODULE_NAME)};
static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};
_Atomic int msi_log_levels[MSI_MODULE_COUNT] = {MSI_LOG_MODULES(MODULE_LEVEL)};

enum { LEVEL_COUNT = sizeof level_names / sizeof *level_names };

static int find(const char *const *names, int count, const char *text, size_t len) {
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], text, len)) return i;
    return -1;
}

bool msi_log_configure(const char *text, char *why, size_t why_size) {
    int levels[MSI_MODULE_COUNT];
    for (int i = 0; i < MSI_MODULE_COUNT; i++) levels[i] = MSI_LOG_WARN;
    bool named[MSI_MODULE_COUNT] = {false};
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ",");
        const char *equals = memchr(p, '=', len);
        const char *name = equals ? equals + 1 : p;
        int level = find(level_names, LEVEL_COUNT, name, len - (size_t)(name - p));
        int module = equals ? find(module_names, MSI_MODULE_COUNT, p, (size_t)(equals - p)) : -1;
        if (level < 0 || (equals && module < 0)) {
            snprintf(why, why_size, "'%.*s' is not off, error, warn, info, debug, nor module=level", (int)len,
                     p);
            return false;
        }
        for (int i = 0; i < MSI_MODULE_COUNT; i++)
            if (i == module || (module < 0 && !named[i])) levels[i] = level;
        if (module >= 0) named[module] = true;
        p += len;
        if (*p) p++;
    }
    for (int i = 0; i < MSI_MODULE_COUNT; i++)
        atomic_store_explicit(&msi_log_levels[i], levels[i], memory_order_relaxed);
    return true;
}

void msi_log_line(enum msi_log_module module, enum msi_level level, const char *format, ...) {
    char line[1200];
    int rank = msi_call_get_rank(), n;
    if (rank >= 0)
        n = snprintf(line, sizeof line, "[muster] rank %d %s %s: ", rank, module_names[module],
                     level_names[level]);
    else
        n = snprintf(line, sizeof line, "[muster] %s %s: ", module_names[module], level_names[level]);
    va_list args;
    va_start(args, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof line - 1) len = sizeof line - 1;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < ' ') line[i] = ' ';
    line[len++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}
