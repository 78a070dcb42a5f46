/*
 * figures.h - numbers and texts of profiles: bandwidths, sizes, the line of a single call. Pure.
 *
 * S bytes in t seconds among n ranks have a bandwidth of S/t (algbw). Each connection carries algbw times the
 * share of the call (busbw; base/kind.h). Gbps are 10^9 bits per second, or bits per nanosecond.
 */
#ifndef MSI_PROF_SUMMARY_FIGURES_H
#define MSI_PROF_SUMMARY_FIGURES_H

#include "base/buf.h"
#include "prof/record/record.h"

enum { MSI_SIZE_TEXT = 24 };

/* A duration of 0 counts as 1 ns. */
double msi_gbps(uint64_t bytes, uint64_t ns);

/* Decimals of a number in a table: two, as DeepSpeed's, but four for small numbers. */
static inline int msi_decimals(double figure) {
    return figure > 0 && figure < 0.01 ? 4 : 2;
}

/* "0 B", "512.0 B", "1.5 KB", "98.25 MB": 1024 to the next unit, at most two decimals. Returns text. */
const char *msi_size_text(uint64_t bytes, char text[MSI_SIZE_TEXT]);

/* Adds text with control characters as "\\n", "\\t", "\\x1b"; UTF-8 stays. */
void msi_add_printable(struct msi_buf *to, const char *text);

/* "all_reduce", or "all_reduce | [Caller Func: step]" if function is not NULL. */
void msi_add_name(struct msi_buf *to, const char *name, const char *function);

/* "comm op: all_reduce | time (ms): 0.12 | msg size: 1.0 MB | algbw (Gbps): 3.20 | busbw (Gbps): 3.20" */
void msi_add_call_line(struct msi_buf *to, const struct msi_record *record, const char *function,
                       uint64_t ns);

#endif
