/* file.h - maps a file for reading, or reads and writes at an offset. */
#ifndef GPT_IO_FILE_H
#define GPT_IO_FILE_H

#include <stddef.h>

struct gpt_file {
    const char *data; /* "" for an empty file */
    size_t size;
};

int gpt_file_map(const char *path, struct gpt_file *file);
void gpt_file_unmap(struct gpt_file *file);

/* Opens a file for reading: its descriptor, which the caller closes, and its size; -1 after gpt_fail. */
int gpt_file_open(const char *path, size_t *size);
/* Reads or writes all `size` bytes at `offset` of an open file; path is for error messages. */
int gpt_file_read(int fd, void *data, size_t size, size_t offset, const char *path);
int gpt_file_write(int fd, const void *data, size_t size, size_t offset, const char *path);

#endif
