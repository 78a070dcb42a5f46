/* file.h - a file's bytes, mapped for reading. */
#ifndef GPT_FILE_H
#define GPT_FILE_H

#include <stddef.h>

struct gpt_file {
    const char *data; /* "" for an empty file */
    size_t size;
};

int gpt_file_open(const char *path, struct gpt_file *file);
void gpt_file_close(struct gpt_file *file);

/* Writes all `size` bytes at `offset` of an open file; path is for the words of an error. */
int gpt_file_write(int fd, const void *data, size_t size, size_t offset, const char *path);

#endif
