/* fail.c - the words of the last failure. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

static char words[512];

int gpt_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return -1;
}

const char *gpt_words(void) {
    return words;
}
