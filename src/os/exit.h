/* exit.h - delays the end of the process: other processes still need its threads. */
#ifndef MSI_OS_EXIT_H
#define MSI_OS_EXIT_H

#include <stdint.h>

/* For a rank that can serve the store last, after a failure: ranks that wait ask the store more often. */
enum { MSI_EXIT_DELAY_MS = 500 };

/* exit, and the return from main, wait until that moment (msi_now). _exit, abort and signals do not. */
void msi_exit_not_before(int64_t moment);

#endif
