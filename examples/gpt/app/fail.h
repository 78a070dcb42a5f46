/*
 * fail.h - how this program reports what went wrong: a function returns 0, or another number after it has said why.
 * The words are of the whole process; the last ones count.
 */
#ifndef GPT_APP_FAIL_H
#define GPT_APP_FAIL_H

#include <stdbool.h>

/* Keeps the words and returns -1. */
int gpt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts where it was before what gpt_fail was told last; returns -1. */
int gpt_fail_in(const char *where);

/* What gpt_fail was told last. */
const char *gpt_words(void);

/* This process is not the cause: it is to end after the one that is. */
void gpt_fall_behind(void);
bool gpt_is_behind(void);
/* Another process of the job says what went wrong, or says it too: this one is to end without words, after that one. */
void gpt_hush(void);
bool gpt_hushed(void);

#endif
