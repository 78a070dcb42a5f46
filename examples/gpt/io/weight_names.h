/* weight_names.h - finds a parameter in a file of weights with the names and layouts of GPT-2 or OPT. */
#ifndef GPT_IO_WEIGHT_NAMES_H
#define GPT_IO_WEIGHT_NAMES_H

#include "io/safetensors.h"
#include "nn/params.h"

/*
 * Consecutive elements of a parameter's row in the file: element i is element base + i * step of the tensor.
 */
struct gpt_source {
    const struct gpt_tensor *tensor;
    size_t base, step;
};

/*
 * The source of a row from `column` to the end of the row, or of its block (q, k or v). An error names what
 * is missing.
 */
int gpt_source_of(const struct gpt_tensors *tensors, const struct gpt_config *config,
                  const struct gpt_param *param, size_t row, size_t column, struct gpt_source *source);

#endif
