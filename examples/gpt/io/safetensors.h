/*
 * safetensors.h - files of tensors: 8 bytes of little-endian length, a JSON header of that length, then the data. A file
 * may come from anybody, so every number in it is checked before it is used.
 */
#ifndef GPT_IO_SAFETENSORS_H
#define GPT_IO_SAFETENSORS_H

#include "io/file.h"

#include <stdbool.h>
#include <stdint.h>

enum gpt_dtype { GPT_F32, GPT_F16, GPT_BF16, GPT_OTHER /* of a known size, but not read */ };
enum { GPT_NAME_ROOM = 160, GPT_DIMENSIONS_MOST = 8 };

struct gpt_tensor {
    char name[GPT_NAME_ROOM];
    enum gpt_dtype dtype;
    size_t dimensions, shape[GPT_DIMENSIONS_MOST], count;
    size_t begin, end; /* bytes, from the end of the header */
};

struct gpt_tensors {
    struct gpt_file file;
    const char *data;        /* after the header */
    struct gpt_tensor *list; /* sorted by name */
    size_t count;
    uint64_t step; /* of training, from the metadata; 0 without */
};

/* Reads the header of a file that lies at bytes, which must stay. Free what it allocated. */
int gpt_tensors_parse(const char *bytes, size_t size, struct gpt_tensors *tensors);
int gpt_tensors_open(const char *path, struct gpt_tensors *tensors);
void gpt_tensors_free(struct gpt_tensors *tensors);

/* NULL if there is none. */
const struct gpt_tensor *gpt_tensors_find(const struct gpt_tensors *tensors, const char *name);
/* `count` elements from `at` on, `step` apart, as floats. The caller has checked the shape. */
void gpt_tensors_read(const struct gpt_tensors *tensors, const struct gpt_tensor *tensor, size_t at,
                      size_t step, size_t count, float *to);

/*
 * Creates a file of F32 tensors, data all zero: names and shapes are given, and the places in the file are set in the
 * list. data_at is where in the file the data begin.
 */
int gpt_tensors_create(const char *path, struct gpt_tensor *list, size_t count, uint64_t step,
                       size_t *data_at);
/* The header alone, to be freed: what gpt_tensors_create writes first. */
char *gpt_tensors_header(struct gpt_tensor *list, size_t count, uint64_t step, size_t *length);

#endif
