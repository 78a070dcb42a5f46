/* signals.c - reads a list of signals. See signals.h. */
#include "run/ranks/signals.h"

#include "base/error.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

/* The signal's number, or 0. */
static int find(const char *name) {
    long long number;
    if (opt_read_number(name, 1, SIGNALS_MOST, &number)) return (int)number;
    if (!strncmp(name, "SIG", 3)) name += 3;
    for (int i = 1; i <= SIGNALS_MOST; i++) {
        const char *known = sigabbrev_np(i);
        if (known && !strcmp(known, name)) return i;
    }
    return 0;
}

/* Adds a signal. Returns why it cannot end the job, or NULL if it can. */
static const char *add(sigset_t *signals, int number) {
    static const struct {
        const char *reason;
        int signals[8];
    } rows[] = {
        {"no program can catch it", {SIGKILL, SIGSTOP}},
        {"the launcher needs it for itself", {SIGCONT, SIGTSTP, SIGCHLD, SIGPIPE, SIGXFSZ}},
        {"it means that the launcher itself has crashed",
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; rows[i].signals[k]; k++)
            if (rows[i].signals[k] == number) return rows[i].reason;
    return sigaddset(signals, number) == 0 ? NULL : "the C library needs it for itself";
}

mst_status signals_read(const char *text, sigset_t *signals) {
    sigset_t read;
    sigemptyset(&read);
    for (;; text++) {
        size_t len = strcspn(text, ",");
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(len < 31 ? len : 31), text);
        int number = len < sizeof name ? find(name) : 0;
        if (number == 0)
            return msi_fail(MST_ERR_INVALID, NULL,
                            "--signals-to-handle takes names such as " SIGNALS_DEFAULT ", not '%s'", name);
        const char *reason = add(&read, number);
        if (reason)
            return msi_fail(MST_ERR_INVALID, NULL, "--signals-to-handle cannot have %s: %s", name, reason);
        text += len;
        if (!*text) break;
    }
    *signals = read;
    return MST_OK;
}
