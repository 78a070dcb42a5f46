/* output.h - printing from many ranks. Each call writes its text with one system call. */
#ifndef MUSTER_OUTPUT_H
#define MUSTER_OUTPUT_H

#include <muster/types.h>

#if defined(__GNUC__)
#define MST_PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define MST_PRINTF_LIKE(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Prints only on rank 0 of the default world, and in processes without a world. */
int mst_printf(const char *format, ...) MST_PRINTF_LIKE(1, 2);

/* Prints on every calling rank with the prefix "rank #r: ", also while output is suppressed. */
int mst_printf_all(const char *format, ...) MST_PRINTF_LIKE(1, 2);

/*
 * Discards the standard output of the process (printf, puts, write, child processes) until
 * mst_restore_output. Does nothing on rank 0. May be called repeatedly.
 */
mst_status mst_suppress_output(int rank);

/* Restores the standard output of the process. */
mst_status mst_restore_output(void);

#ifdef __cplusplus
}
#endif
#endif
