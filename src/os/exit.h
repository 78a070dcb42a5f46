/* exit.h - delays the end of this process. */
#ifndef MSI_OS_EXIT_H
#define MSI_OS_EXIT_H

#include <stdint.h>

/* exit() does not end this process before that time of msi_now. A later time replaces an earlier one. */
void msi_exit_not_before(int64_t moment);

#endif
