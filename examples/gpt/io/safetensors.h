/*
 * safetensors.h - files of tensors: the length of the header in 8 little-endian bytes, a JSON header, then
 * the data. The input may be hostile, so every number in it is checked before it is used.
 */
#ifndef GPT_IO_SAFETENSORS_H
#define GPT_IO_SAFETENSORS_H

#include "io/file.h"

#include <stdbool.h>
#include <stdint.h>

enum gpt_dtype { GPT_F32, GPT_F16, GPT_BF16, GPT_OTHER /* of a known size, but not supported */ };
enum { GPT_NAME_SIZE = 160, GPT_MAX_DIMENSIONS = 8 };

struct gpt_tensor {
    char name[GPT_NAME_SIZE];
    enum gpt_dtype dtype;
    size_t dimensions, shape[GPT_MAX_DIMENSIONS], count;
    size_t begin, end; /* offsets in the data, in bytes */
};

struct gpt_tensors {
    struct gpt_file file;
    const char *data;        /* after the header */
    struct gpt_tensor *list; /* sorted by name */
    size_t count;
    uint64_t step; /* of training, from the metadata; else 0 */
};

/* Reads the header of a file in memory, which must outlive tensors. */
int gpt_tensors_parse(const char *bytes, size_t size, struct gpt_tensors *tensors);
int gpt_tensors_open(const char *path, struct gpt_tensors *tensors);
void gpt_tensors_free(struct gpt_tensors *tensors);

/* NULL if there is none. */
const struct gpt_tensor *gpt_tensors_find(const struct gpt_tensors *tensors, const char *name);
/* Reads `count` elements at `at`, at + step, ... as floats. The caller has checked the shape. */
void gpt_tensors_read(const struct gpt_tensors *tensors, const struct gpt_tensor *tensor, size_t at,
                      size_t step, size_t count, float *to);

/*
 * Creates a file of F32 tensors with data of 0. The list has names and shapes; sets its other members.
 * *data_at: the offset of the data in the file.
 */
int gpt_tensors_create(const char *path, struct gpt_tensor *list, size_t count, uint64_t step,
                       size_t *data_at);
/* The header that gpt_tensors_create writes; the caller frees it. */
char *gpt_tensors_header(struct gpt_tensor *list, size_t count, uint64_t step, size_t *length);

#endif
