/* config.h - the shape of a model. Sizes are of the whole model, however it is split. */
#ifndef GPT_NN_CONFIG_H
#define GPT_NN_CONFIG_H

#include <stddef.h>

enum gpt_activation { GPT_GELU, GPT_RELU };
enum gpt_norm_kind { GPT_LAYER_NORM, GPT_RMS_NORM };
/* Whose names a file of weights has. Ours are GPT-2's. */
enum gpt_family { GPT_FAMILY_GPT2, GPT_FAMILY_OPT };

struct gpt_config {
    size_t vocabulary, context;         /* tokens that there are; positions of the longest sequence */
    size_t layers, width, heads, inner; /* inner: width of the MLP */
    enum gpt_activation activation;
    enum gpt_norm_kind norm;
    float epsilon;          /* of the norms */
    enum gpt_family family; /* of the file it came from */
};

/* 0 if every size is within reason and heads divide the width. */
int gpt_config_check(const struct gpt_config *config);

/*
 * Reads a config.json as the transformers library writes it, of model_type gpt2 or opt. What a file asks of a model
 * that this program does not do is an error that names it.
 */
int gpt_config_parse(const char *text, size_t length, struct gpt_config *config);
int gpt_config_load(const char *path, struct gpt_config *config);

/* Writes a config.json that gpt_config_load and the transformers library read (RMSNorm only the former). */
int gpt_config_save(const char *path, const struct gpt_config *config);

#endif
