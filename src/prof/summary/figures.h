/*
 * figures.h - the figures that profiling shows: bandwidths, sizes in words, the line of a single call. Pure.
 *
 * S bytes in t seconds among n ranks are S/t (algbw), and per connection S/t times what the call makes each
 * rank's connection carry (busbw). Gbps are 10^9 bits a second, so a bit in a nanosecond is one.
 */
#ifndef MSI_PROF_SUMMARY_FIGURES_H
#define MSI_PROF_SUMMARY_FIGURES_H

#include "base/buf.h"
#include "prof/record/record.h"

enum { MSI_SIZE_TEXT = 24 };

/* A duration of 0 counts as 1 ns: nothing is infinitely fast. */
double msi_gbps(uint64_t bytes, uint64_t ns);

/* Decimals that a figure of a table has: two, as DeepSpeed's, and where nothing would be left of it four. */
static inline int msi_decimals(double figure) {
    return figure > 0 && figure < 0.01 ? 4 : 2;
}

/* "0 B", "512.0 B", "1.5 KB", "98.25 MB": 1024 to the next unit, at most two decimals. Returns text. */
const char *msi_size_text(uint64_t bytes, char text[MSI_SIZE_TEXT]);

/* As one line that does nothing to a terminal: "\\n", "\\t", "\\x1b" for what would; UTF-8 stays. */
void msi_add_printable(struct msi_buf *to, const char *text);

/* "all_reduce", or "all_reduce | [Caller Func: step]" where function is not NULL. */
void msi_add_name(struct msi_buf *to, const char *name, const char *function);

/*
 * "comm op: all_reduce | time (ms): 0.12 | msg size: 1.0 MB | algbw (Gbps): 3.20 | busbw (Gbps): 3.20", no
 * newline.
 */
void msi_add_call_line(struct msi_buf *to, const char *name, const char *function, enum msi_share share,
                       int n, uint64_t bytes, uint64_t ns);

#endif
