/* fail.c - see fail.h. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char message[1024];
static bool muted, late;

int gpt_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return -1;
}

int gpt_fail_in(const char *where) {
    char what[sizeof message];
    memcpy(what, message, sizeof what);
    return gpt_fail("%s: %s", where, what);
}

const char *gpt_error(void) {
    return message;
}

void gpt_exit_late(void) {
    late = true;
}

bool gpt_exits_late(void) {
    return late;
}

void gpt_mute(void) {
    muted = late = true;
}

bool gpt_muted(void) {
    return muted;
}
