/* signals.c - see signals.h. */
#include "run/ranks/signals.h"

#include "cli/options.h"

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

/* Why a signal cannot end the job, or NULL if it can. */
static const char *why_taken(int number) {
    switch (number) {
    case SIGKILL:
    case SIGSTOP:
        return "no program can catch it";
    case SIGCONT:
    case SIGTSTP:
    case SIGCHLD:
    case SIGPIPE:
    case SIGXFSZ:
        return "the launcher needs it for itself";
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
        return "it means that the launcher itself has crashed";
    default:
        return NULL;
    }
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
        if (why_taken(number) != NULL) {
            snprintf(why, why_size, "--signals-to-handle cannot have %s: %s", name, why_taken(number));
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
