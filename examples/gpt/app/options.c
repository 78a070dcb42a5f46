/* options.c - the table of options. */
#include "app/options.h"

#include "app/fail.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { COUNT, SWITCH, NUMBER, TEXT };
enum { COUNT_MOST = 1 << 30, DIGITS_MOST = 17 };
/* The commands that have an option. */
enum { TRAIN = 1, WRITE = 2, LOOK = 4, MEASURE = 8 };

static const struct {
    const char *name;
    int bit;
    const char *help;
} commands[] = {{"train", TRAIN, "train a model on a text"},
                {"generate", WRITE, "write text with a model"},
                {"logits", LOOK, "print what a model makes of --prompt or --ids, a line a token"},
                {"matmul", MEASURE, "measure the matrix products"}};

static const struct {
    const char *name;
    int commands;
    enum kind kind;
    size_t offset;
    const char *initial, *help;
} table[] = {
#define AT(field) offsetof(struct gpt_options, field)
    {"layers", TRAIN, COUNT, AT(layers), "4", "layers of a new model"},
    {"width", TRAIN, COUNT, AT(width), "128", "its width"},
    {"heads", TRAIN, COUNT, AT(heads), "4", "its attention heads"},
    {"context", TRAIN | MEASURE, COUNT, AT(context), "64", "its longest sequence, and the one trained on"},
    {"norm", TRAIN, TEXT, AT(norm), "layer", "layer or rms"},
    {"activation", TRAIN, TEXT, AT(activation), "gelu", "gelu or relu"},
    {"text", TRAIN, TEXT, AT(text), NULL, "train on this file (default: a licence that is found here)"},
    {"steps", TRAIN, COUNT, AT(steps), "600", "train until so many steps are done"},
    {"stop-after", TRAIN, COUNT, AT(stop_after), "0",
     "but stop when so many are done in all, to go on later"},
    {"batch", TRAIN | WRITE | MEASURE, COUNT, AT(batch), "8",
     "sequences of a step; texts that a stage goes on with at once, at most"},
    {"micro-batches", TRAIN, COUNT, AT(micro_batches), "0",
     "parts that a step's sequences are computed in; 0: one for each stage"},
    {"rate", TRAIN, NUMBER, AT(rate), "0.003", "most of the learning rate"},
    {"warmup", TRAIN, COUNT, AT(warmup), "20", "steps over which it rises"},
    {"decay", TRAIN, NUMBER, AT(decay), "0.1", "weight decay"},
    {"clip", TRAIN, NUMBER, AT(clip), "1", "longest gradient; 0 for any"},
    {"every", TRAIN, COUNT, AT(every), "20", "steps between lines of progress"},
    {"save", TRAIN, TEXT, AT(save), NULL, "write the model to this directory at the end"},
    {"save-every", TRAIN, COUNT, AT(save_every), "0", "and every so many steps"},
    {"resume", TRAIN, SWITCH, AT(resume), "0", "1: go on from what --save holds, if there is anything"},
    {"digits", TRAIN, COUNT, AT(digits), "4", "of the losses in lines of progress"},
    {"mesh", TRAIN | WRITE, TEXT, AT(mesh), NULL,
     "processes under a launcher, as in dp=2,pp=2,tp=2; cp splits sequences; pp and tp to generate"},
    {"schedule", TRAIN, TEXT, AT(schedule), "1f1b", "of stages: 1f1b, gpipe or interleaved"},
    {"chunks", TRAIN, COUNT, AT(chunks), "2", "parts of the model on each stage, interleaved"},
    {"backend", TRAIN | WRITE, TEXT, AT(backend), NULL,
     "of the processes [MUSTER_BACKEND]; several take turns in training, a line each: native,mpi"},
    {"deterministic", TRAIN | WRITE, SWITCH, AT(deterministic), "0",
     "1: the same bits however the processes are connected"},
    {"load", TRAIN | WRITE | LOOK, TEXT, AT(load), NULL,
     "begin with the model in this directory; train goes on from its step"},
    {"prompt", WRITE | LOOK, TEXT, AT(prompt), "The ", "text to go on from"},
    {"ids", WRITE | LOOK, TEXT, AT(ids), NULL, "tokens to go on from instead, as numbers: 464,257"},
    {"prompts", WRITE, TEXT, AT(prompts), NULL,
     "a text for each line of this file; lines are numbers where tokens are not bytes"},
    {"samples", WRITE, COUNT, AT(samples), "1", "texts of each prompt, each drawn for itself"},
    {"tokens", WRITE, COUNT, AT(tokens), "200", "how many to generate, of each text"},
    {"temperature", WRITE, NUMBER, AT(temperature), "0.7", "0 takes the likeliest token always"},
    {"seed", TRAIN | WRITE, COUNT, AT(seed), "1", "of first values, data and generation"},
#undef AT
};

enum { OPTIONS = sizeof table / sizeof *table, COMMANDS = sizeof commands / sizeof *commands };

static bool is_at(size_t i, size_t offset) {
    return table[i].offset == offset;
}

_Static_assert(OPTIONS <= 64, "a bit for each");

static bool is_given(const struct gpt_options *o, size_t offset) {
    size_t i = 0;
    while (!is_at(i, offset)) i++;
    return o->given >> i & 1;
}
#define GIVEN(o, field) is_given(o, offsetof(struct gpt_options, field))

static const char *wanted(size_t i) {
    static const char *const words[] = {[COUNT] = "a whole number that is not negative, up to 2^30, is",
                                        [SWITCH] = "0 or 1 is",
                                        [NUMBER] = "a number that is not negative is"};
    return is_at(i, offsetof(struct gpt_options, seed)) ? "a whole number that is not negative is"
                                                        : words[table[i].kind];
}

static int set(struct gpt_options *options, size_t i, const char *value) {
    char *to = (char *)options + table[i].offset, *end = NULL;
    bool right;
    errno = 0;
    if (!value || table[i].kind == TEXT) {
        if (value) *(const char **)(void *)to = value;
        return 0;
    }
    if (table[i].kind == NUMBER) {
        double number = strtod(value, &end);
        *(double *)(void *)to = number;
        right = isfinite(number);
    } else {
        unsigned long long number = strtoull(value, &end, 10);
        *(size_t *)(void *)to = (size_t)number;
        right = number <= (table[i].kind == SWITCH ? 1 : COUNT_MOST) ||
                is_at(i, offsetof(struct gpt_options, seed));
    }
    /* what else strtoull and strtod take: space, signs, nan, inf, 0x10 */
    if (errno || !right || *value < '.' || *value > '9' || *end || value[strcspn(value, "xX")])
        return gpt_fail("--%s %s: %s expected", table[i].name, value, wanted(i));
    return 0;
}

/* What options say that makes no sense, whatever the model. */
static int check(const struct gpt_options *o) {
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved"};
    bool known = false;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        known |= strcmp(o->schedule, schedules[i]) == 0;
    if (!known) return gpt_fail("--schedule %s: 1f1b, gpipe or interleaved is expected", o->schedule);
    if (o->chunks == 0) return gpt_fail("--chunks 0: a stage has at least one part of the model");
    if (o->backend && !o->mesh)
        return gpt_fail("--backend %s: one process has none; give --mesh", o->backend);
    if (GIVEN(o, chunks) && strcmp(o->schedule, "interleaved") != 0)
        return gpt_fail("--chunks: a stage has several parts with --schedule interleaved alone");
    if (GIVEN(o, prompt) + GIVEN(o, ids) + GIVEN(o, prompts) > 1)
        return gpt_fail("--prompt, --ids and --prompts: give one of them");
    if (o->digits > DIGITS_MOST)
        return gpt_fail("--digits %zu: at most %d are expected", o->digits, DIGITS_MOST);
    if ((o->resume || o->save_every) && !o->save)
        return gpt_fail("--%s: say with --save which directory", o->resume ? "resume" : "save-every");
    return 0;
}

static void help(void) {
    puts("gpt COMMAND [options]\n");
    for (size_t i = 0; i < COMMANDS; i++) printf("  %-10s %s\n", commands[i].name, commands[i].help);
    puts("");
    for (size_t i = 0; i < OPTIONS; i++)
        printf("  --%-14s %s%s%s%s\n", table[i].name, table[i].help, table[i].initial ? " [" : "",
               table[i].initial ? table[i].initial : "", table[i].initial ? "]" : "");
}

static bool asks_for_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static size_t find_command(const char *word) {
    size_t i = 0;
    while (i < COMMANDS && strcmp(word, commands[i].name) != 0) i++;
    return i;
}

/* The option of a word "--name" or "--name=value"; OPTIONS: there is none. */
static size_t find_option(const char *word) {
    size_t i = 0, length = strcspn(word, "=");
    if (strncmp(word, "--", 2) != 0) return OPTIONS;
    while (i < OPTIONS &&
           (strlen(table[i].name) + 2 != length || strncmp(word + 2, table[i].name, length - 2) != 0))
        i++;
    return i;
}

static int say_unknown(const char *word) {
    if (*word == '-') return gpt_fail("%s: there is no such option; gpt --help lists them", word);
    return gpt_fail("%s: an option is expected, as in --load %s; gpt --help lists them", word, word);
}

/* The options behind the command. 1 where help was asked for. */
static int read_options(int count, char **words, size_t command, struct gpt_options *options) {
    for (int a = 0; a < count; a++) {
        const char *word = words[a], *value = strchr(word, '=');
        size_t i = find_option(word);
        if (asks_for_help(word)) return 1;
        if (i == OPTIONS) return say_unknown(word);
        if (!(table[i].commands & commands[command].bit))
            return gpt_fail("--%s: gpt %s has no such option", table[i].name, commands[command].name);
        if (!value && ++a == count) return gpt_fail("%s: a value is expected", word);
        if (set(options, i, value ? value + 1 : words[a])) return -1;
        options->given |= UINT64_C(1) << i;
    }
    return check(options);
}

int gpt_options_parse(int count, char **arguments, struct gpt_options *options) {
    *options = (struct gpt_options){0};
    for (size_t i = 0; i < OPTIONS; i++)
        if (set(options, i, table[i].initial)) return -1;
    int st = count < 2 || asks_for_help(arguments[1]) || strcmp(arguments[1], "help") == 0;
    size_t command = st ? COMMANDS : find_command(arguments[1]);
    if (!st && command == COMMANDS)
        return gpt_fail(*arguments[1] == '-'
                            ? "%s: a command comes first, as in gpt train; gpt --help lists them"
                            : "%s: there is no such command; gpt --help lists them",
                        arguments[1]);
    if (!st) {
        options->command = commands[command].name;
        st = read_options(count - 2, arguments + 2, command, options);
    }
    if (st > 0) help();
    return st;
}

int gpt_options_agree(const struct gpt_options *o, const char *directory, const struct gpt_config *config) {
    const struct {
        bool given;
        const char *name;
        size_t wanted, there;
    } sizes[] = {{GIVEN(o, layers), "layers", o->layers, config->layers},
                 {GIVEN(o, width), "width", o->width, config->width},
                 {GIVEN(o, heads), "heads", o->heads, config->heads},
                 {GIVEN(o, context), "context", o->context, config->context}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].given && sizes[i].wanted != sizes[i].there)
            return gpt_fail("--%s %zu: it is %zu in the model of %s; leave it out, or save elsewhere",
                            sizes[i].name, sizes[i].wanted, sizes[i].there, directory);
    bool norm = (strcmp(o->norm, "rms") == 0) == (config->norm == GPT_RMS_NORM);
    bool activation = (strcmp(o->activation, "relu") == 0) == (config->activation == GPT_RELU);
    if ((GIVEN(o, norm) && !norm) || (GIVEN(o, activation) && !activation))
        return gpt_fail("--%s: the model of %s has another; leave it out, or save elsewhere",
                        norm ? "activation" : "norm", directory);
    return 0;
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
