/*
 * fail.h - how this program reports what went wrong: a function returns 0, or another number after it has said why.
 * The words are of the whole process; the last ones count.
 */
#ifndef GPT_FAIL_H
#define GPT_FAIL_H

/* Keeps the words and returns -1. */
int gpt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What gpt_fail was told last. */
const char *gpt_words(void);

#endif
