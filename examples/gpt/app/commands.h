/* commands.h - the commands of the program. Each returns 0, or -1 after gpt_fail. */
#ifndef GPT_APP_COMMANDS_H
#define GPT_APP_COMMANDS_H

#include "app/options.h"

int gpt_train(const struct gpt_options *options);
int gpt_generate(const struct gpt_options *options);
int gpt_logits(const struct gpt_options *options);
int gpt_matmul_bench(const struct gpt_options *options);

#endif
