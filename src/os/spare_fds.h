/*
 * spare_fds.h - a few descriptors that a process with several ranks keeps in reserve. If the process runs out
 * of descriptors while its ranks join, a rank takes the reserve to tell the others why it fails. Any thread
 * may call these.
 */
#ifndef MSI_OS_SPARE_FDS_H
#define MSI_OS_SPARE_FDS_H

#include <stdbool.h>

/* Called once for each world of this process, before it joins and after its end. */
void msi_spare_fds_hold(void);
void msi_spare_fds_drop(void);

/* Is this process out of descriptors? Then releases the reserve; false if there is none. */
bool msi_spare_fds_use(void);

#endif
