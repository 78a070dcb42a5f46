/*
 * output.h - printing by many ranks without a mess. Each call writes its text in one piece.
 */
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

/* Prints on rank 0 of the default world (or where there is no world) and nowhere else. */
int mst_printf(const char *format, ...) MST_PRINTF_LIKE(1, 2);

/* Prints on every rank that calls it, with "rank #r: " in front, also while output is suppressed. */
int mst_printf_all(const char *format, ...) MST_PRINTF_LIKE(1, 2);

/*
 * On every rank but 0, sends all of the process's standard output (printf, puts, write, child processes) to
 * nowhere until mst_restore_output; on rank 0 changes nothing. Twice is harmless.
 */
mst_status mst_suppress_output(int rank);

/* Gives the process the standard output back that it had before mst_suppress_output. */
mst_status mst_restore_output(void);

#ifdef __cplusplus
}
#endif
#endif
