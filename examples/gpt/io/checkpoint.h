/*
 * checkpoint.h - a model in a directory: config.json and model.safetensors, in the layout of the transformers
 * library. A checkpoint of training has the optimizer's averages in the same file, so that one rename
 * replaces the whole checkpoint. config.json is renamed first; its content changes only if a model of another
 * shape is saved over the old one.
 *
 * The file holds whole parameters, however the processes split the model; each process reads its slices. To
 * write, one process creates the files, then all write their slices (one process for each slice), then one
 * process finishes.
 */
#ifndef GPT_IO_CHECKPOINT_H
#define GPT_IO_CHECKPOINT_H

#include "nn/model.h"
#include "nn/optim.h"

/* Creates the directory and checks that files can be written there, before training starts. */
int gpt_checkpoint_prepare(const char *directory);
int gpt_checkpoint_create(const char *directory, const struct gpt_config *config, bool averages, size_t step);
int gpt_checkpoint_write(const char *directory, const struct gpt_model *model, const struct gpt_adam *adam);
/* Replaces the previous checkpoint, which stays valid until then. */
int gpt_checkpoint_finish(const char *directory);
/* Removes an unfinished checkpoint. */
void gpt_checkpoint_discard(const char *directory);
/* Creates, writes and finishes, in a process that holds the whole model. adam may be NULL. */
int gpt_checkpoint_save(const char *directory, const struct gpt_model *model, const struct gpt_adam *adam);

int gpt_checkpoint_config(const char *directory, struct gpt_config *config);
/*
 * Reads the model's slices. The config says whether the file has the names of GPT-2 or of OPT. With adam,
 * also reads its averages and step, and fails if the file has none.
 */
int gpt_checkpoint_load(const char *directory, struct gpt_model *model, struct gpt_adam *adam);

#endif
