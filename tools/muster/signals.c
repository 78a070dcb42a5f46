/* signals.c - see signals.h. */
#include "signals.h"

#include "options.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* 0 for none. */
static int find(const char *name) {
    long long number;

    if (opt_read_number(name, 1, SIGNALS_MOST, &number)) return (int)number;
    if (strncmp(name, "SIG", 3) == 0) name += 3;
    for (int i = 1; i <= SIGNALS_MOST; i++) {
        const char *known = sigabbrev_np(i);
        if (known != NULL && strcmp(known, name) == 0) return i;
    }
    return 0;
}

/* What the launcher cannot have, or needs for itself. */
static bool is_taken(int number) {
    static const int taken[] = {SIGKILL, SIGSTOP, SIGCONT, SIGTSTP, SIGCHLD, SIGPIPE, SIGXFSZ,
                                SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT, SIGTRAP, SIGSYS};

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (taken[i] == number) return true;
    return false;
}

int signals_read(const char *text, struct signals *signals, char *why, size_t why_size) {
    struct signals read = {0};

    for (;;) {
        size_t len = strcspn(text, ",");
        char name[32];

        snprintf(name, sizeof name, "%.*s", (int)(len < 31 ? len : 31), text);
        int number = len < sizeof name ? find(name) : 0;
        if (number == 0) {
            snprintf(why, why_size, "--signals-to-handle takes names such as " SIGNALS_DEFAULT ", not '%s'",
                     name);
            return -1;
        }
        if (is_taken(number)) {
            snprintf(why, why_size, "--signals-to-handle cannot have %s", name);
            return -1;
        }
        read.bits |= (uint64_t)1 << (number - 1);
        if (text[len] == '\0') break;
        text += len + 1;
    }
    *signals = read;
    return 0;
}

bool signals_have(const struct signals *signals, int number) {
    return number >= 1 && number <= SIGNALS_MOST && (signals->bits >> (number - 1) & 1) != 0;
}
