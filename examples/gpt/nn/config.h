/* config.h - the shape of a model. Sizes are of the whole model, however it is split. */
#ifndef GPT_NN_CONFIG_H
#define GPT_NN_CONFIG_H

#include <stddef.h>

enum gpt_activation { GPT_GELU, GPT_RELU };
enum gpt_norm_kind { GPT_LAYER_NORM, GPT_RMS_NORM };
/* Whose names and layouts a file of weights has. This program writes those of GPT-2. */
enum gpt_family { GPT_FAMILY_GPT2, GPT_FAMILY_OPT };

struct gpt_config {
    size_t vocabulary, context;         /* number of tokens; length of the longest sequence */
    size_t layers, width, heads, inner; /* inner: width of the MLP */
    enum gpt_activation activation;
    enum gpt_norm_kind norm;
    float epsilon;          /* of the norms */
    enum gpt_family family; /* of the file that it came from */
};

/* 0 if every size is in its range and heads divide the width. */
int gpt_config_check(const struct gpt_config *config);

#endif
