/*
 * intercept.h - fails a chosen allocation or system call of the library.
 *
 * The linker replaces the calls of this program and of the static library (--wrap, see CMakeLists.txt), so
 * that it works with sanitizers, too. Calls inside libc are not intercepted. Counting and failing concern the
 * thread that armed itself; the list of allocated blocks concerns the process.
 */
#ifndef FAIL_CALLS_INTERCEPT_H
#define FAIL_CALLS_INTERCEPT_H

#include <stdbool.h>
#include <stddef.h>

/* From now on the n-th intercepted call of this thread fails, with lasting also those after it; 0: none. */
void intercept_arm(int n, bool lasting);
/* Returns the number of calls since intercept_arm. */
int intercept_disarm(void);

/* The first call that failed in this process and its errno; NULL: none. */
const char *intercept_failed(int *error);

/* Blocks that were allocated by one call in the program and not freed. */
struct blocks {
    const void *site; /* of the call; a forked process has the same addresses */
    int n;
    size_t bytes;
};
/* The number of blocks that were allocated so far. */
int intercept_made(void);
/* Lists the blocks that were allocated after the first skip ones, at most max sites; returns how many. */
int intercept_list(int skip, struct blocks *list, int max);
/* The address of a site in the program's file, for addr2line. */
size_t intercept_offset(const void *site);

#endif
