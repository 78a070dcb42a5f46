/* error_file.h - the file in which a rank explains its failure, as PyTorch's @record writes it. */
#ifndef MUSTER_TOOL_RUN_FAILURE_ERROR_FILE_H
#define MUSTER_TOOL_RUN_FAILURE_ERROR_FILE_H

#include <stddef.h>

enum { ERROR_FILE_LIMIT = 1 << 20 };

/*
 * Reads the message of the file, {"message": "text"} or {"message": {"message": "text"}}, cut to size - 1
 * bytes. Sets "" if there is no such file, or if it has other contents. Newlines stay, other control
 * characters become question marks.
 */
void error_file_read(const char *path, char *text, size_t size);

#endif
