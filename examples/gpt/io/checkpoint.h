/*
 * checkpoint.h - a model in a directory: config.json and model.safetensors, as the transformers library lays them out.
 * A checkpoint of training also has the optimiser's moments in the same file, so that one rename replaces it all; config.json, which is
 * renamed before, says the same as the one before it, unless a model of another shape is saved over that.
 *
 * Weights are in the file whole, however the processes that wrote them had split the model; each reads its slice. To
 * write, one process creates, then each writes its slices (of equal ones, one process), then one finishes.
 */
#ifndef GPT_IO_CHECKPOINT_H
#define GPT_IO_CHECKPOINT_H

#include "nn/model.h"
#include "nn/optim.h"

/* Makes the directory, and finds out now whether files can be written there. */
int gpt_checkpoint_prepare(const char *directory);
int gpt_checkpoint_create(const char *directory, const struct gpt_config *config, bool moments, size_t step);
int gpt_checkpoint_write(const char *directory, const struct gpt_model *model, const struct gpt_adam *adam);
/* What is written replaces the checkpoint that was there before; until then that one stays whole. */
int gpt_checkpoint_finish(const char *directory);
/* Removes what was written and could not be finished. */
void gpt_checkpoint_drop(const char *directory);
/* All three, for a process that has the whole model. adam may be NULL. */
int gpt_checkpoint_save(const char *directory, const struct gpt_model *model, const struct gpt_adam *adam);

int gpt_checkpoint_config(const char *directory, struct gpt_config *config);
/*
 * Reads the model's slices, of GPT-2's or of OPT's names as its config says. With adam, its moments and step too: an
 * error where the file has none.
 */
int gpt_checkpoint_load(const char *directory, struct gpt_model *model, struct gpt_adam *adam);

#endif
