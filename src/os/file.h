/* file.h - reads a whole file, and writes a whole buffer to a descriptor. */
#ifndef MSI_OS_FILE_H
#define MSI_OS_FILE_H

#include "base/buf.h"

/* Opens a regular file for reading; -1 with errno, EISDIR or EINVAL for other files. Never blocks. */
int msi_file_open(const char *path);

/* Appends the contents of a regular file. Returns 0 or an errno; EFBIG: it has more than most bytes. */
int msi_file_read(const char *path, size_t most, struct msi_buf *to);

/* Copies the first line of a small file, without its newline; "" if it cannot be read. Returns out. */
const char *msi_file_line(const char *path, char *out, size_t size);

/*
 * Appends what is left of a descriptor that may be a pipe. Returns 0 or an errno; EFBIG: it has more than
 * most bytes; ETIMEDOUT: it did not end before the deadline.
 */
int msi_read_all(int fd, size_t most, int64_t deadline, struct msi_buf *to);

/* Waits if the descriptor is not ready. Returns 0, or an errno after a partial write. */
int msi_write_all(int fd, const void *data, size_t len);

#endif
