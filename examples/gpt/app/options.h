/* options.h - the command line. One table defines the parser and the help. */
#ifndef GPT_APP_OPTIONS_H
#define GPT_APP_OPTIONS_H

#include "nn/config.h"

#include <stdbool.h>
#include <stdint.h>

struct gpt_options {
    const char *command;
    /* the model */
    size_t layers, width, heads, context;
    const char *norm, *activation;
    /* training */
    const char *text;
    size_t steps, stop_after, batch, micro_batches, warmup, every;
    double rate, decay, clip;
    const char *save, *load;
    size_t save_every, resume, digits;
    /* over processes */
    const char *mesh, *schedule, *backend;
    size_t chunks, deterministic, survive;
    double join_timeout; /* seconds */
    /* generation */
    const char *prompt, *ids, *prompts;
    size_t samples, tokens;
    double temperature;
    size_t seed;
    uint64_t given; /* a bit for each option of the table that the command line has */
};

/* Sets the defaults, then parses the command line. 1 after printing help. */
int gpt_options_parse(int count, char **arguments, struct gpt_options *options);
/* Fails if options contradict the config of the model in the directory. */
int gpt_options_agree(const struct gpt_options *options, const char *directory,
                      const struct gpt_config *config);
/* The model that the options describe. */
int gpt_options_config(const struct gpt_options *options, struct gpt_config *config);

#endif
