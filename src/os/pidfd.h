/*
 * pidfd.h - descriptors that become readable when a process ends. All users of this process share one for
 * each process: groups and ranks that are threads need no descriptors of their own. Any thread may call
 * these.
 */
#ifndef MSI_OS_PIDFD_H
#define MSI_OS_PIDFD_H

#include <stdbool.h>

/* -1, with errno, without one: ESRCH if the process has ended. */
int msi_pidfd_open(int pid);
void msi_pidfd_close(int fd);

/* Has that process of this pid namespace ended, even if its parent has not waited for it? */
bool msi_process_has_ended(int pid);

#endif
