/* write.h - writing all of something to a descriptor. */
#ifndef MSI_OS_WRITE_H
#define MSI_OS_WRITE_H

#include <stddef.h>

/* Waits for room where there is none at the moment. 0, or the errno that ended it, with some of it written maybe. */
int msi_write_all(int fd, const void *data, size_t len);

#endif
