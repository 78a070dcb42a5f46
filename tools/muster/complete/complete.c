/*
 * complete.c - the words that a shell may complete, for the scripts in this directory. Internal: `muster
 * __complete WORD ...` gets the words after "muster" and prints the candidates for the last one.
 *
 * The candidates come from the tables that parse the command line, so that they are those of --help. A line
 * is "WORD<tab>DESCRIPTION", or one of ":files", ":dirs" and ":command" if the shell itself knows the
 * candidates. The name of an option's value says what it may be: "a|b" are choices, FILE is a file, and
 * ",..." marks a list.
 */
#include "bench/bench.h"
#include "bench/ops/ops.h"
#include "cli/options.h"
#include "coll/plan.h"
#include "commands.h"
#include "status/jobs.h"
#include "store/actions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char **words; /* of the command line, without those before the options */
    int n;        /* the last one is to be completed */
    bool ops;     /* its operands are operations of the benchmark */
} line;

/* Prints a candidate if it begins with the word; prefix is a part of the word that precedes the candidate. */
static void offer(const char *word, const char *prefix, size_t prefix_len, const char *candidate,
                  const char *help) {
    if (strncmp(word + prefix_len, candidate, strlen(word + prefix_len)) != 0) return;
    printf("%.*s%s\t%.*s\n", (int)prefix_len, prefix, candidate, (int)strcspn(help, "\n"), help);
}

/* Offers the items of a text that are separated by a character. Upper case is a placeholder, not a choice. */
static void offer_items(const char *word, const char *prefix, size_t prefix_len, const char *items,
                        char separator) {
    char item[32];
    while (bench_next_item(&items, separator, item))
        if (!isupper((unsigned char)item[0])) offer(word, prefix, prefix_len, item, "");
}

static void offer_ops(const char *word) {
    for (int i = 0; i < LOOP_OPS; i++) offer(word, "", 0, loop_op_names[i], "operation");
    offer(word, "", 0, "all", "all operations");
}

/* The names of jobs whose launchers run on this host. */
static void offer_jobs(const char *word) {
    struct job_card *list = calloc(JOBS_MOST, sizeof *list);
    int n = list ? jobs_find(list) : 0;
    for (int i = 0; i < n; i++) offer(word, "", 0, list[i].run, list[i].program);
    free(list);
}

/* Offers the choices of a value. start: where the value begins in the word. */
static void offer_value(const struct opt *option, const char *word, size_t start) {
    char name[128];
    snprintf(name, sizeof name, "%s", option->value);
    char *more = strstr(name, ",...");
    if (more) {
        const char *comma = strrchr(word + start, ',');
        *more = '\0';
        if (comma) start = (size_t)(comma + 1 - word);
    }
    if (!strcmp(name, "FILE") || !strcmp(name, "PATH") || !strcmp(name, "COMMAND")) {
        puts(":files");
    } else if (!strcmp(name, "DIR")) {
        puts(":dirs");
    } else if (!strcmp(name, "BACKEND")) {
        offer_items(word, word, start, ops_backend_names(true), ' ');
        offer_items(word, word, start, ops_backend_names(false), ' ');
    } else if (!strcmp(name, "DTYPE")) {
        for (int i = 0; i < LOOP_DTYPES; i++) offer(word, word, start, loop_dtypes[i].name, "");
    } else if (!strcmp(name, "COLLECTIVE")) {
        for (int i = 0; i < MSI_KIND_COUNT; i++)
            offer(word, word, start, msi_coll_name((enum msi_kind)i), "");
    } else if (strchr(name, '|')) {
        offer_items(word, word, start, name, '|');
    }
}

static void offer_options(const struct opt_command *command, const char *word) {
    char text[80];
    for (size_t i = 0; i <= command->n_options; i++) {
        static const struct opt help = {.name = "help", .letter = 'h', .help = "show the options"};
        const struct opt *option = i < command->n_options ? &command->options[i] : &help;
        if (option->kind & OPT_HIDDEN) continue;
        snprintf(text, sizeof text, "--%s", option->name);
        offer(word, "", 0, text, option->help);
        snprintf(text, sizeof text, "-%c", option->letter);
        if (option->letter && strlen(word) < 3) offer(word, "", 0, text, option->help);
    }
}

/* The option that a word sets; *value gets its value in the same word, or NULL. */
static const struct opt *option_of(const struct opt_command *command, const char *word, const char **value) {
    char name[64];
    const char *equals = strchr(word, '=');
    *value = NULL;
    if (word[0] != '-' || !word[1]) return NULL;
    if (!strcmp(word, "-np") || !strcmp(word, "--np")) return opt_find_letter(command, 'n');
    if (word[1] != '-') {
        *value = word[2] ? word + 2 : NULL;
        return opt_find_letter(command, word[1]);
    }
    *value = equals ? equals + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    return opt_find_name(command, name);
}

static void offer_operand(const struct opt_command *command, const char *word) {
    if (command->stops_at_operand)
        puts(":command");
    else if (line.ops)
        offer_ops(word);
    else if (!strcmp(command->operands, "DIR"))
        puts(":dirs");
    else if (!strcmp(command->operands, "[job]"))
        offer_jobs(word);
    else if (!command->operands[0])
        offer_options(command, word);
}

/* Completes the last word as the parser of the command would read it. */
static int complete_options(const struct opt_command *command) {
    const struct opt *waiting = NULL; /* the option whose value is the next word */
    const char *value, *last = line.words[line.n - 1];
    bool options_end = false;
    for (int i = 0; i + 1 < line.n; i++) {
        const char *word = line.words[i];
        if (waiting) {
            waiting = NULL;
        } else if (command->stops_at_operand && (options_end || word[0] != '-')) {
            puts(":files"); /* an argument of the program */
            return EXIT_DONE;
        } else if (!strcmp(word, "--")) {
            options_end = true;
        } else {
            waiting = option_of(command, word, &value);
            if (waiting && (value || !waiting->value || waiting->kind & OPT_MAY_OMIT)) waiting = NULL;
        }
    }
    const struct opt *option = waiting ? waiting : option_of(command, last, &value);
    if (waiting)
        offer_value(waiting, last, 0);
    else if (option && option->value && value && last[1] == '-')
        offer_value(option, last, (size_t)(value - last));
    else if (last[0] == '-' && !options_end)
        offer_options(command, last);
    else
        offer_operand(command, last);
    return EXIT_DONE;
}

/* Completes the words after a command; first precedes "--help" for the commands that have sub-commands. */
static int complete_after(const struct command *command, char *first, char **words, int n) {
    char name[32], help[] = "--help", *argv[] = {name, first ? first : help, help, NULL};
    snprintf(name, sizeof name, "%s", command->name);
    line.words = words;
    line.n = n;
    opt_on_help(complete_options);
    return command->run(first ? 3 : 2, argv);
}

static int complete_store(const struct command *command, char **words, int n) {
    for (size_t i = 0; n == 1 && i < store_n_actions; i++)
        offer(words[0], "", 0, store_actions[i].name, store_actions[i].help);
    for (size_t i = 0; n > 1 && i < store_n_actions; i++)
        if (!strcmp(words[0], store_actions[i].name))
            return complete_after(command, words[0], words + 1, n - 1);
    if (n == 1) offer(words[0], "", 0, "--help", "list the actions");
    return EXIT_DONE;
}

static int complete_bench(const struct command *command, char **words, int n) {
    char all[] = "all";
    const char *name, *help;
    for (int i = 0; (name = bench_name(i, &help)) != NULL; i++) {
        if (n == 1) offer(words[0], "", 0, name, help);
        if (n > 1 && !strcmp(words[0], name)) return complete_after(command, words[0], words + 1, n - 1);
    }
    line.ops = true;
    return complete_after(command, all, words, n);
}

int cmd_complete(int argc, char **argv) {
    if (argc < 1) return EXIT_USAGE;
    if (argc == 1) {
        for (size_t i = 0; i < N_COMMANDS; i++) offer(argv[0], "", 0, commands[i].name, commands[i].help);
        offer(argv[0], "", 0, "--help", "list the commands");
        offer(argv[0], "", 0, "--version", "print the version");
        return EXIT_DONE;
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (strcmp(argv[0], command->name) != 0) continue;
        if (command->run == cmd_store) return complete_store(command, argv + 1, argc - 1);
        if (command->run == cmd_bench) return complete_bench(command, argv + 1, argc - 1);
        return complete_after(command, NULL, argv + 1, argc - 1);
    }
    return EXIT_DONE;
}
