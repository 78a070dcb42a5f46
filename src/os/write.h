/* write.h - writing to a file. */
#ifndef MSI_OS_WRITE_H
#define MSI_OS_WRITE_H

#include <stddef.h>

/* Writes all of it; 0, or an error as errno has them, after which a part may have been written. */
int msi_write_all(int fd, const void *data, size_t n);

#endif
