/*
 * log.h - one line per event on standard error, with rank, module and level.
 *
 * MUSTER_LOG sets the levels per module ("warn", "store=debug,warn"). The default is warn, at which a healthy
 * run prints nothing. A line is written in one piece. The code that decides that an event deserves a line
 * writes it, once.
 */
#ifndef MSI_BASE_LOG_H
#define MSI_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MSI_LOG_MODULES(X)                                                                                   \
    X(base)                                                                                                  \
    X(os)                                                                                                    \
    X(wire) X(auth) X(progress) X(store) X(transport) X(bootstrap) X(backend) X(group) X(prof) X(api) X(tool)

#define MSI_MODULE_ID(name) MSI_MODULE_##name,
enum msi_log_module { MSI_LOG_MODULES(MSI_MODULE_ID) MSI_MODULE_COUNT };
#undef MSI_MODULE_ID

enum msi_level { MSI_LOG_OFF, MSI_LOG_ERROR, MSI_LOG_WARN, MSI_LOG_INFO, MSI_LOG_DEBUG };

extern _Atomic int msi_log_levels[MSI_MODULE_COUNT];

/* Sets the levels from a text in the format of MUSTER_LOG; false, and a reason in why, if it is malformed. */
bool msi_log_configure(const char *text, char *why, size_t why_size);

void msi_log_line(enum msi_log_module module, enum msi_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool msi_log_on(enum msi_log_module module, enum msi_level level) {
    return atomic_load_explicit(&msi_log_levels[module], memory_order_relaxed) >= (int)level;
}

#define msi_log(module, level, ...)                                                                          \
    do {                                                                                                     \
        if (msi_log_on(MSI_MODULE_##module, MSI_LOG_##level))                                                \
            msi_log_line(MSI_MODULE_##module, MSI_LOG_##level, __VA_ARGS__);                                 \
    } while (0)

/* A warning that is printed once per process and place in the code. */
#define msi_warn_once(module, ...)                                                                           \
    do {                                                                                                     \
        static atomic_flag said_ = ATOMIC_FLAG_INIT;                                                         \
        if (!atomic_flag_test_and_set(&said_)) msi_log(module, WARN, __VA_ARGS__);                           \
    } while (0)

#endif
