/*
 * fail.h - errors: a function returns 0, or -1 after gpt_fail. The process keeps one message, that of the
 * last failure.
 */
#ifndef GPT_BASE_FAIL_H
#define GPT_BASE_FAIL_H

#include <stdbool.h>

/* Sets the message and returns -1. */
int gpt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Puts "where: " in front of the message and returns -1. */
int gpt_fail_in(const char *where);
/* The message of the last failure. */
const char *gpt_error(void);

/*
 * One process of a job reports a failure, and it must exit first: launchers show the first process that
 * fails. This process is not the cause of the failure, so it exits a few seconds later...
 */
void gpt_exit_late(void);
bool gpt_exits_late(void);
/* ... and it prints nothing either, because another process reports the same failure. */
void gpt_mute(void);
bool gpt_muted(void);

#endif
