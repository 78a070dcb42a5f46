/* fail.c - the words of the last failure. */
#include "app/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char words[1024];
static bool hushed, behind;

int gpt_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return -1;
}

int gpt_fail_in(const char *where) {
    char what[sizeof words];
    memcpy(what, words, sizeof what);
    return gpt_fail("%s: %s", where, what);
}

const char *gpt_words(void) {
    return words;
}

void gpt_fall_behind(void) {
    behind = true;
}

bool gpt_is_behind(void) {
    return behind;
}

void gpt_hush(void) {
    hushed = behind = true;
}

bool gpt_hushed(void) {
    return hushed;
}
