/* fail.c - the words of the last failure. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char words[512];
static bool hushed;

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

void gpt_hush(void) {
    hushed = true;
}

bool gpt_hushed(void) {
    return hushed;
}

void gpt_hush_all_but_first(void) {
    const char *rank = getenv("RANK");
    if (rank && atoi(rank) > 0) gpt_hush();
}
