/* names.h - where in a file of weights a parameter lies, by the names and layouts of GPT-2 and of OPT. */
#ifndef GPT_IO_NAMES_H
#define GPT_IO_NAMES_H

#include "io/safetensors.h"
#include "nn/params.h"

/*
 * Part of a parameter's row in the file: its element (row, column) is at base + column * step there, where column counts
 * from the row's begin, or from that of q, k or v.
 */
struct gpt_source {
    const struct gpt_tensor *tensor;
    size_t base, step;
};

/* For the row's columns from `column` on up to the end of the row or of its block. An error names what is missing. */
int gpt_source_of(const struct gpt_tensors *tensors, const struct gpt_config *config,
                  const struct gpt_param *param, size_t row, size_t column, struct gpt_source *source);

#endif
