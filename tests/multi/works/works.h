/* works.h - shared by the files of works.c. */
#ifndef TESTS_MULTI_WORKS_H
#define TESTS_MULTI_WORKS_H

#include <muster/muster.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50, LARGE = 100000 };

extern int rank, size, everybody[3];

/* Ends the process: a condition is false. */
_Noreturn void fail(const char *file, int line, const char *what);
#define CHECK(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition))
#define OK(call)         CHECK((call) == MST_OK)
#define FAILS(call, wanted, text)                                                                            \
    CHECK((call) == (wanted) && (strstr(mst_error(), text) || (fprintf(stderr, "no '%s' in ", text), 0)))

/* What callbacks count in. */
struct counter {
    _Atomic int n;
};

/* callbacks.c */
void test_order(void);
void test_late(void);
void test_wait(void);
void test_destroy(void);
/* combined.c */
void test_combine(void);
void test_rest(void);
void test_rest_threads(void);
void test_misuse_combine(void);

#endif
