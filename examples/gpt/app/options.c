/* options.c - see options.h. */
#include "app/options.h"

#include "base/fail.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { COUNT, SWITCH, NUMBER, TEXT };
enum { MAX_COUNT = 1 << 30, MAX_DIGITS = 17, MAX_SECONDS = 1000000 };
/* Which commands accept an option. */
enum { TRAIN = 1, GENERATE = 2, LOGITS = 4, MATMUL = 8 };

static const struct {
    const char *name;
    int bit;
    const char *help;
} commands[] = {{"train", TRAIN, "train a model on a text"},
                {"generate", GENERATE, "generate text with a model"},
                {"logits", LOGITS, "print the logits of --prompt or --ids, a line for each token"},
                {"matmul", MATMUL, "measure the matrix products"}};

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
    {"context", TRAIN | MATMUL, COUNT, AT(context), "64",
     "its longest sequence, and the length of training sequences"},
    {"norm", TRAIN, TEXT, AT(norm), "layer", "layer or rms"},
    {"activation", TRAIN, TEXT, AT(activation), "gelu", "gelu or relu"},
    {"text", TRAIN, TEXT, AT(text), NULL, "train on this file (default: a licence text of the system)"},
    {"steps", TRAIN, COUNT, AT(steps), "600", "train until this many steps are done"},
    {"stop-after", TRAIN, COUNT, AT(stop_after), "0", "stop after this many steps in all, to continue later"},
    {"batch", TRAIN | GENERATE | MATMUL, COUNT, AT(batch), "8",
     "sequences of a step; generate: the most texts of a micro-batch"},
    {"micro-batches", TRAIN, COUNT, AT(micro_batches), "0",
     "micro-batches of a step, for each replica; 0: one for each stage"},
    {"rate", TRAIN, NUMBER, AT(rate), "0.003", "maximum of the learning rate"},
    {"warmup", TRAIN, COUNT, AT(warmup), "20", "steps until the maximum"},
    {"decay", TRAIN, NUMBER, AT(decay), "0.1", "weight decay"},
    {"clip", TRAIN, NUMBER, AT(clip), "1", "maximum of the gradient norm; 0: no limit"},
    {"every", TRAIN, COUNT, AT(every), "20", "steps between lines of progress"},
    {"save", TRAIN, TEXT, AT(save), NULL, "save the model in this directory at the end"},
    {"save-every", TRAIN, COUNT, AT(save_every), "0", "save also after every this many steps"},
    {"resume", TRAIN, SWITCH, AT(resume), "0", "1: continue from the model in --save, if there is one"},
    {"digits", TRAIN, COUNT, AT(digits), "4", "digits of the losses in lines of progress"},
    {"mesh", TRAIN | GENERATE, TEXT, AT(mesh), NULL,
     "the mesh of processes, as in dp=2,pp=2,tp=2,cp=2; generate: pp and tp only"},
    {"schedule", TRAIN, TEXT, AT(schedule), "1f1b", "of the pipeline: 1f1b, gpipe or interleaved"},
    {"chunks", TRAIN, COUNT, AT(chunks), "2",
     "chunks of the model on each stage, for --schedule interleaved"},
    {"backend", TRAIN | GENERATE, TEXT, AT(backend), NULL,
     "backend [MUSTER_BACKEND]; train: several, as in native,mpi, are compared"},
    {"deterministic", TRAIN | GENERATE, SWITCH, AT(deterministic), "0",
     "1: the same bits however processes are placed on hosts"},
    {"survive", TRAIN, SWITCH, AT(survive), "0",
     "1: when a process dies, the others continue; --mesh has only dp"},
    {"join-timeout", TRAIN, NUMBER, AT(join_timeout), "0",
     "with --survive: seconds to wait for new processes in their places"},
    {"load", TRAIN | GENERATE | LOGITS, TEXT, AT(load), NULL,
     "load the model from this directory; train continues at its step"},
    {"prompt", GENERATE | LOGITS, TEXT, AT(prompt), "The ", "text to continue"},
    {"ids", GENERATE | LOGITS, TEXT, AT(ids), NULL, "tokens to continue instead, as in 464,257"},
    {"prompts", GENERATE, TEXT, AT(prompts), NULL,
     "a prompt for each line of this file; ids if tokens are not bytes"},
    {"samples", GENERATE, COUNT, AT(samples), "1", "texts for each prompt"},
    {"tokens", GENERATE, COUNT, AT(tokens), "200", "tokens to generate for each text"},
    {"temperature", GENERATE, NUMBER, AT(temperature), "0.7", "of sampling; 0: always the most likely token"},
    {"seed", TRAIN | GENERATE, COUNT, AT(seed), "1", "of initial values, data and sampling"},
#undef AT
};

enum { OPTIONS = sizeof table / sizeof *table, COMMANDS = sizeof commands / sizeof *commands };

static bool is_option(size_t i, size_t offset) {
    return table[i].offset == offset;
}

_Static_assert(OPTIONS <= 64, "a bit of gpt_options.given for each");

static bool is_given(const struct gpt_options *o, size_t offset) {
    size_t i = 0;
    while (!is_option(i, offset)) i++;
    return o->given >> i & 1;
}
#define GIVEN(o, field) is_given(o, offsetof(struct gpt_options, field))

static const char *expected(size_t i) {
    static const char *const text[] = {
        [COUNT] = "an integer from 0 to 2^30", [SWITCH] = "0 or 1", [NUMBER] = "a number of at least 0"};
    return is_option(i, offsetof(struct gpt_options, seed)) ? "an integer of at least 0"
                                                            : text[table[i].kind];
}

static int set(struct gpt_options *options, size_t i, const char *value) {
    char *to = (char *)options + table[i].offset, *end = NULL;
    bool valid;
    errno = 0;
    if (!value || table[i].kind == TEXT) {
        if (value) *(const char **)(void *)to = value;
        return 0;
    }
    if (table[i].kind == NUMBER) {
        double number = strtod(value, &end);
        *(double *)(void *)to = number;
        valid = isfinite(number);
    } else {
        unsigned long long number = strtoull(value, &end, 10);
        *(size_t *)(void *)to = (size_t)number;
        valid = number <= (table[i].kind == SWITCH ? 1 : MAX_COUNT) ||
                is_option(i, offsetof(struct gpt_options, seed));
    }
    /* strtoull and strtod also accept space, signs, nan, inf and 0x10 */
    if (errno || !valid || *value < '.' || *value > '9' || *end || value[strcspn(value, "xX")])
        return gpt_fail("--%s %s: expected %s", table[i].name, value, expected(i));
    return 0;
}

/* Checks that do not depend on the model. */
static int check(const struct gpt_options *o) {
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved"};
    bool known = false;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        known |= strcmp(o->schedule, schedules[i]) == 0;
    if (!known) return gpt_fail("--schedule %s: expected 1f1b, gpipe or interleaved", o->schedule);
    if (o->chunks == 0) return gpt_fail("--chunks 0: a stage needs at least one chunk");
    if (o->backend && !o->mesh)
        return gpt_fail("--backend %s: a single process uses no backend; give --mesh", o->backend);
    if (GIVEN(o, join_timeout) && !o->survive) return gpt_fail("--join-timeout needs --survive 1");
    if (o->join_timeout > MAX_SECONDS)
        return gpt_fail("--join-timeout %g: expected at most %d", o->join_timeout, MAX_SECONDS);
    if (o->survive && (!o->mesh || strncmp(o->mesh, "dp=", 3) != 0 || strchr(o->mesh, ',')))
        return gpt_fail(
            "--survive needs --mesh dp=N: with other dimensions a process that dies takes a part of "
            "the model with it");
    if (GIVEN(o, chunks) && strcmp(o->schedule, "interleaved") != 0)
        return gpt_fail("--chunks needs --schedule interleaved");
    if (GIVEN(o, prompt) + GIVEN(o, ids) + GIVEN(o, prompts) > 1)
        return gpt_fail("give only one of --prompt, --ids and --prompts");
    if (o->digits > MAX_DIGITS) return gpt_fail("--digits %zu: expected at most %d", o->digits, MAX_DIGITS);
    if ((o->resume || o->save_every) && !o->save)
        return gpt_fail("--%s needs a directory: give --save", o->resume ? "resume" : "save-every");
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

/* The index of option "--name" or "--name=value"; OPTIONS if there is none. */
static size_t find_option(const char *word) {
    size_t i = 0, length = strcspn(word, "=");
    if (strncmp(word, "--", 2) != 0) return OPTIONS;
    while (i < OPTIONS &&
           (strlen(table[i].name) + 2 != length || strncmp(word + 2, table[i].name, length - 2) != 0))
        i++;
    return i;
}

static int fail_unknown(const char *word) {
    if (*word == '-') return gpt_fail("%s: no such option; gpt --help lists them", word);
    return gpt_fail("%s: expected an option, as in --load %s; gpt --help lists them", word, word);
}

/* Parses the options after the command. 1: the user asks for help. */
static int read_options(int count, char **words, size_t command, struct gpt_options *options) {
    for (int a = 0; a < count; a++) {
        const char *word = words[a], *value = strchr(word, '=');
        size_t i = find_option(word);
        if (asks_for_help(word)) return 1;
        if (i == OPTIONS) return fail_unknown(word);
        if (!(table[i].commands & commands[command].bit))
            return gpt_fail("--%s: gpt %s has no such option", table[i].name, commands[command].name);
        if (!value && ++a == count) return gpt_fail("%s: expected a value", word);
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
                            : "%s: no such command; gpt --help lists them",
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
        size_t wanted, actual;
    } sizes[] = {{GIVEN(o, layers), "layers", o->layers, config->layers},
                 {GIVEN(o, width), "width", o->width, config->width},
                 {GIVEN(o, heads), "heads", o->heads, config->heads},
                 {GIVEN(o, context), "context", o->context, config->context}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].given && sizes[i].wanted != sizes[i].actual)
            return gpt_fail("--%s %zu: the model in %s has %zu; omit the option, or save elsewhere",
                            sizes[i].name, sizes[i].wanted, directory, sizes[i].actual);
    bool norm = (strcmp(o->norm, "rms") == 0) == (config->norm == GPT_RMS_NORM);
    bool activation = (strcmp(o->activation, "relu") == 0) == (config->activation == GPT_RELU);
    if ((GIVEN(o, norm) && !norm) || (GIVEN(o, activation) && !activation))
        return gpt_fail("--%s: the model in %s has another; omit the option, or save elsewhere",
                        norm ? "activation" : "norm", directory);
    return 0;
}

int gpt_options_config(const struct gpt_options *o, struct gpt_config *config) {
    bool rms = strcmp(o->norm, "rms") == 0, relu = strcmp(o->activation, "relu") == 0;
    if (!rms && strcmp(o->norm, "layer") != 0) return gpt_fail("--norm %s: expected layer or rms", o->norm);
    if (!relu && strcmp(o->activation, "gelu") != 0)
        return gpt_fail("--activation %s: expected gelu or relu", o->activation);
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
