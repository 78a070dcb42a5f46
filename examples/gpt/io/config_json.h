/*
 * config_json.h - config.json as the transformers library writes it, for models of model_type gpt2 and opt. A
 * file that needs what this program does not implement is an error; the message says what.
 */
#ifndef GPT_IO_CONFIG_JSON_H
#define GPT_IO_CONFIG_JSON_H

#include "nn/config.h"

int gpt_config_parse(const char *text, size_t length, struct gpt_config *config);
int gpt_config_load(const char *path, struct gpt_config *config);
/* The transformers library reads the file too, unless the model has RMSNorm. */
int gpt_config_save(const char *path, const struct gpt_config *config);

#endif
