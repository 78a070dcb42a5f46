/* write.h - writes a whole buffer to a descriptor. */
#ifndef MSI_OS_WRITE_H
#define MSI_OS_WRITE_H

#include <stddef.h>

/* Waits if the descriptor is not ready. Returns 0, or an errno after a partial write. */
int msi_write_all(int fd, const void *data, size_t len);

#endif
