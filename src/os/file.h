/*
 * file.h - reads a whole file, writes a whole buffer to a descriptor, and creates files and directories that
 * no other user can read or replace.
 */
#ifndef MSI_OS_FILE_H
#define MSI_OS_FILE_H

#include "base/buf.h"

#include <stdbool.h>

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

/*
 * Has another user, not root, made the directory or the link of this name, in a directory that all users can
 * write, such as /tmp?
 */
bool msi_is_foreign_in_shared_dir(const char *path);
/* Is the directory of this file such a directory, or one above it, below the last one of this user? */
bool msi_directory_is_foreign(const char *path);

/*
 * Creates a directory of mode 0700. Returns 0 if it is there then, or an errno: ENOTDIR if there is another
 * file, EPERM if msi_is_foreign_in_shared_dir or msi_directory_is_foreign.
 */
int msi_make_directory(const char *path);

/* Creates a file of mode 0600 for writing; -1 with errno, EEXIST if the name is taken, also by a link. */
int msi_create_file(const char *path);

/* strerror, and a clear text for the EPERM of msi_make_directory. */
const char *msi_file_error(int error);

/* Waits if the descriptor is not ready. Returns 0, or an errno after a partial write. */
int msi_write_all(int fd, const void *data, size_t len);

#endif
