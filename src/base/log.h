/*
 * log.h - one line per event on standard error, with rank, room and level.
 *
 * Levels are set per room by MUSTER_LOG ("warn", "store=debug,warn"); a healthy run prints nothing at the
 * default, warn. Lines are written whole. Whoever decides that something is worth a line writes it, once.
 */
#ifndef MSI_BASE_LOG_H
#define MSI_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MSI_LOG_MODULES(X)                                                                                   \
    X(base)                                                                                                  \
    X(os) X(wire) X(progress) X(store) X(transport) X(bootstrap) X(backend) X(group) X(prof) X(api) X(tool)

#define MSI_MODULE_ID(name) MSI_MODULE_##name,
enum msi_log_module { MSI_LOG_MODULES(MSI_MODULE_ID) MSI_MODULE_COUNT };
#undef MSI_MODULE_ID

enum msi_level { MSI_LOG_OFF, MSI_LOG_ERROR, MSI_LOG_WARN, MSI_LOG_INFO, MSI_LOG_DEBUG };

extern _Atomic int msi_log_levels[MSI_MODULE_COUNT];

/* Takes levels from text in MUSTER_LOG's form; false, and a reason in why, if it is malformed. */
bool msi_log_configure(const char *text, char *why, size_t why_size);

void msi_log_line(enum msi_log_module room, enum msi_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool msi_log_on(enum msi_log_module room, enum msi_level level) {
    return atomic_load_explicit(&msi_log_levels[room], memory_order_relaxed) >= (int)level;
}

#define msi_log(room, level, ...)                                                                            \
    do {                                                                                                     \
        if (msi_log_on(MSI_MODULE_##room, MSI_LOG_##level))                                                  \
            msi_log_line(MSI_MODULE_##room, MSI_LOG_##level, __VA_ARGS__);                                   \
    } while (0)

/* A warning said once per process and place. */
#define msi_warn_once(room, ...)                                                                             \
    do {                                                                                                     \
        static atomic_flag said_ = ATOMIC_FLAG_INIT;                                                         \
        if (!atomic_flag_test_and_set(&said_)) msi_log(room, WARN, __VA_ARGS__);                             \
    } while (0)

#endif
