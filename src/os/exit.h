/* exit.h - delays the end of the process: other processes still need its threads. */
#ifndef MSI_OS_EXIT_H
#define MSI_OS_EXIT_H

#include <stdint.h>

/* exit, and the return from main, wait until that moment (msi_now). _exit, abort and signals do not. */
void msi_exit_not_before(int64_t moment);

#endif
