/* options.c - the table of options. */
#include "options.h"

#include "fail.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { COUNT, NUMBER, TEXT };
enum { COUNT_MOST = 1 << 30, DIGITS_MOST = 17 };

static const struct {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *initial, *help;
} table[] = {
#define AT(field) offsetof(struct gpt_options, field)
    {"layers", COUNT, AT(layers), "4", "layers of a new model"},
    {"width", COUNT, AT(width), "128", "its width"},
    {"heads", COUNT, AT(heads), "4", "its attention heads"},
    {"context", COUNT, AT(context), "64", "its longest sequence, and the one trained on"},
    {"norm", TEXT, AT(norm), "layer", "layer or rms"},
    {"activation", TEXT, AT(activation), "gelu", "gelu or relu"},
    {"text", TEXT, AT(text), NULL, "train on this file (default: a licence that is found here)"},
    {"steps", COUNT, AT(steps), "600", "train until so many steps are done"},
    {"stop-after", COUNT, AT(stop_after), "0", "but stop after so many, to go on later"},
    {"batch", COUNT, AT(batch), "8", "sequences of a step; texts that a stage goes on with at once, at most"},
    {"micro-batches", COUNT, AT(micro_batches), "0",
     "parts that a step's sequences are computed in; 0: one for each stage"},
    {"rate", NUMBER, AT(rate), "0.003", "most of the learning rate"},
    {"warmup", COUNT, AT(warmup), "20", "steps over which it rises"},
    {"decay", NUMBER, AT(decay), "0.1", "weight decay"},
    {"clip", NUMBER, AT(clip), "1", "longest gradient; 0 for any"},
    {"every", COUNT, AT(every), "20", "steps between lines of progress"},
    {"save", TEXT, AT(save), NULL, "write the model to this directory at the end"},
    {"save-every", COUNT, AT(save_every), "0", "and every so many steps"},
    {"resume", COUNT, AT(resume), "0", "1: go on from what --save holds, if there is anything"},
    {"digits", COUNT, AT(digits), "4", "of the losses in lines of progress"},
    {"mesh", TEXT, AT(mesh), NULL, "processes under muster run, as in dp=2,pp=2,tp=2; cp splits sequences"},
    {"schedule", TEXT, AT(schedule), "1f1b", "of stages: 1f1b, gpipe or interleaved"},
    {"chunks", COUNT, AT(chunks), "2", "parts of the model on each stage, interleaved"},
    {"backend", TEXT, AT(backend), NULL,
     "of the processes; several take turns, a line each, as in native,mpi [MUSTER_BACKEND]"},
    {"deterministic", COUNT, AT(deterministic), "0", "1: the same bits however the processes are connected"},
    {"load", TEXT, AT(load), NULL, "begin with the model in this directory"},
    {"prompt", TEXT, AT(prompt), "The ", "text to go on from"},
    {"ids", TEXT, AT(ids), NULL, "tokens to go on from instead, as numbers: 464,257"},
    {"prompts", TEXT, AT(prompts), NULL,
     "a text for each line of this file; lines are numbers where tokens are not bytes"},
    {"samples", COUNT, AT(samples), "1", "texts of each prompt, each drawn for itself"},
    {"tokens", COUNT, AT(tokens), "200", "how many to generate, of each text"},
    {"temperature", NUMBER, AT(temperature), "0.7", "0 takes the likeliest token always"},
    {"seed", COUNT, AT(seed), "1", "of first values, data and generation"},
#undef AT
};

enum { OPTIONS = sizeof table / sizeof *table };

static int set(struct gpt_options *options, size_t i, const char *value) {
    char *to = (char *)options + table[i].offset, *end = NULL;
    bool right;
    errno = 0;
    if (!value || table[i].kind == TEXT) {
        if (value) *(const char **)(void *)to = value;
        return 0;
    }
    if (table[i].kind == COUNT) {
        unsigned long long number = strtoull(value, &end, 10);
        *(size_t *)(void *)to = (size_t)number;
        right = number <= COUNT_MOST || table[i].offset == offsetof(struct gpt_options, seed);
    } else {
        double number = strtod(value, &end);
        *(double *)(void *)to = number;
        right = isfinite(number);
    }
    /* what else strtoull and strtod take: space, signs, nan, inf, 0x10 */
    if (errno || !right || *value < '.' || *value > '9' || *end || value[strcspn(value, "xX")])
        return gpt_fail("--%s %s: a %s is expected", table[i].name, value,
                        table[i].kind == COUNT ? "whole number that is not negative, up to 2^30"
                                               : "number that is not negative");
    return 0;
}

/* What options say that makes no sense, whatever the model. */
static int check(const struct gpt_options *o) {
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved"};
    bool known = false;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        known |= strcmp(o->schedule, schedules[i]) == 0;
    if (!known) return gpt_fail("--schedule %s: 1f1b, gpipe or interleaved is expected", o->schedule);
    if (o->digits > DIGITS_MOST)
        return gpt_fail("--digits %zu: at most %d are expected", o->digits, DIGITS_MOST);
    if (o->resume > 1 || o->deterministic > 1)
        return gpt_fail("--resume and --deterministic: 0 or 1 is expected");
    if ((o->resume || o->save_every) && !o->save)
        return gpt_fail("--%s: say with --save which directory", o->resume ? "resume" : "save-every");
    return 0;
}

static void help(void) {
    puts("gpt train|generate|logits|matmul [options]\n\n"
         "  train      train a model on a text\n"
         "  generate   write text with a model\n"
         "  logits     print what a model makes of --ids, a line a token\n"
         "  matmul     measure the matrix products\n");
    for (size_t i = 0; i < OPTIONS; i++)
        printf("  --%-14s %s%s%s%s\n", table[i].name, table[i].help, table[i].initial ? " [" : "",
               table[i].initial ? table[i].initial : "", table[i].initial ? "]" : "");
}

int gpt_options_parse(int count, char **arguments, struct gpt_options *options) {
    *options = (struct gpt_options){0};
    for (size_t i = 0; i < OPTIONS; i++)
        if (set(options, i, table[i].initial)) return -1;
    if (count < 2 || strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "help") == 0) {
        help();
        return 1;
    }
    options->command = arguments[1];
    for (int a = 2; a < count; a += 2) {
        const char *name = arguments[a];
        size_t i = 0;
        if (strcmp(name, "--help") == 0) {
            help();
            return 1;
        }
        while (i < OPTIONS && (strncmp(name, "--", 2) != 0 || strcmp(name + 2, table[i].name) != 0)) i++;
        if (i == OPTIONS) return gpt_fail("%s: there is no such option; gpt --help lists them", name);
        if (a + 1 == count) return gpt_fail("%s: a value is expected", name);
        if (set(options, i, arguments[a + 1])) return -1;
    }
    return check(options);
}

int gpt_options_config(const struct gpt_options *o, struct gpt_config *config) {
    bool rms = strcmp(o->norm, "rms") == 0, relu = strcmp(o->activation, "relu") == 0;
    if (!rms && strcmp(o->norm, "layer") != 0)
        return gpt_fail("--norm %s: layer or rms is expected", o->norm);
    if (!relu && strcmp(o->activation, "gelu") != 0)
        return gpt_fail("--activation %s: gelu or relu is expected", o->activation);
    *config = (struct gpt_config){.vocabulary = 256,
                                  .context = o->context,
                                  .layers = o->layers,
                                  .width = o->width,
                                  .heads = o->heads,
                                  .inner = 4 * o->width,
                                  .activation = relu ? GPT_RELU : GPT_GELU,
                                  .norm = rms ? GPT_RMS_NORM : GPT_LAYER_NORM,
                                  .epsilon = 1e-5f};
    return gpt_config_check(config);
}
