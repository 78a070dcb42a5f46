/* options.c - the option parser and the --help text. See options.h. */
#include "cli/options.h"

#include "base/nearest.h"
#include "cli/text.h"
#include "commands.h"

#include <muster/status.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 64, LABEL_MAX = 80, LABEL_WIDTH_MOST = 24 };

struct parser {
    const struct opt_command *command;
    char **argv;
    int argc;
    int at; /* index in argv */
    char *values;
};

int opt_mistake(const struct opt_command *command, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_clean(text, false); /* keeps it on one line */
    fprintf(stderr, "%s: %s\n", command->name, text);
    return EXIT_USAGE;
}

int opt_failed(const struct opt_command *command) {
    const mst_error_info *e = mst_last_error();
    return opt_mistake(command, "%s%s%s", e->message, e->remedy[0] ? "; " : "", e->remedy);
}

int opt_unknown(const char *program, const char *what, const char *name, const char *near) {
    const struct opt_command command = {.name = program};
    if (near) return opt_mistake(&command, "unknown %s '%s'; did you mean '%s'?", what, name, near);
    return opt_mistake(&command, "unknown %s '%s'; try '%s --help'", what, name, program);
}

bool opt_read_number(const char *text, long long min, long long max, long long *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno != 0 || value < min || value > max) return false;
    *number = value;
    return true;
}

static enum opt_kind kind_of(const struct opt *option) {
    return (enum opt_kind)(option->kind & ~(OPT_STAYS_HERE | OPT_HIDDEN | OPT_MAY_OMIT));
}

/* The name of an option in messages: "-n/--nproc-per-node". Valid until the next call. */
static const char *label_of(const struct opt *option) {
    static char label[LABEL_MAX];
    const char letter[] = {'-', option->letter, '/', '\0'};
    snprintf(label, sizeof label, "%s--%s", option->letter ? letter : "", option->name);
    return label;
}

static int store_seconds(const struct parser *p, const struct opt *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < (double)option->min || value > (double)option->max)
        return opt_mistake(p->command, "%s takes seconds from %ld to %ld, not '%s'", label_of(option),
                           option->min, option->max, text);
    memcpy(p->values + option->offset, &value, sizeof value);
    return OPT_PROCEED;
}

static int store_number(const struct parser *p, const struct opt *option, const char *text) {
    long long wide;
    if (!opt_read_number(text, option->min, option->max, &wide))
        return opt_mistake(p->command, "%s takes a whole number from %ld to %ld, not '%s'", label_of(option),
                           option->min, option->max, text);
    long value = (long)wide;
    memcpy(p->values + option->offset, &value, sizeof value);
    return OPT_PROCEED;
}

static int store_next(const struct parser *p, const struct opt *option, const char *text) {
    struct opt_strings strings;
    memcpy(&strings, p->values + option->offset, sizeof strings);
    const char **grown = realloc(strings.list, (strings.n + 1) * sizeof grown[0]);
    if (!grown) return opt_mistake(p->command, "out of memory");
    grown[strings.n++] = text;
    strings.list = grown;
    memcpy(p->values + option->offset, &strings, sizeof strings);
    return OPT_PROCEED;
}

/* Stores the value of an option: text, or the next argument if text is NULL. */
static int store_value(struct parser *p, const struct opt *option, const char *text) {
    enum opt_kind kind = kind_of(option);
    const bool on = true;
    if (kind == OPT_FLAG) {
        if (text) return opt_mistake(p->command, "--%s takes no value", option->name);
        memcpy(p->values + option->offset, &on, sizeof on);
        return OPT_PROCEED;
    }
    if (!text && option->kind & OPT_MAY_OMIT) {
        const long omitted = option->min - 1;
        memcpy(p->values + option->offset, &omitted, sizeof omitted);
        return OPT_PROCEED;
    }
    if (!text) {
        if (p->at + 1 >= p->argc)
            return opt_mistake(p->command, "%s needs a value (%s)", label_of(option), option->value);
        text = p->argv[++p->at];
    }
    if (kind == OPT_NUMBER) return store_number(p, option, text);
    if (kind == OPT_SECONDS) return store_seconds(p, option, text);
    if (kind == OPT_STRINGS) return store_next(p, option, text);
    memcpy(p->values + option->offset, &text, sizeof text);
    return OPT_PROCEED;
}

/* The name of an option in the help: "-n, --nproc-per-node N", "--survive[=MIN]". */
static size_t write_label(const struct opt *option, char label[LABEL_MAX]) {
    const char letter[] = {'-', option->letter, ',', ' ', '\0'};
    bool may_omit = option->kind & OPT_MAY_OMIT;
    return (size_t)snprintf(label, LABEL_MAX, "%s--%s%s%s%s", option->letter ? letter : "    ", option->name,
                            may_omit        ? "[="
                            : option->value ? " "
                                            : "",
                            option->value ? option->value : "", may_omit ? "]" : "");
}

static void print_option(const struct opt *option, size_t width) {
    char label[LABEL_MAX];
    bool own_line = write_label(option, label) > width;
    if (own_line) printf("  %s\n", label);
    printf("  %-*s  ", (int)width, own_line ? "" : label);
    for (const char *c = option->help; *c; c++) {
        putchar(*c);
        if (*c == '\n') printf("  %-*s  ", (int)width, "");
    }
    putchar('\n');
}

static int print_help(const struct opt_command *command) {
    static const struct opt help = {.name = "help", .letter = 'h', .help = "show this text"};
    char label[LABEL_MAX];
    size_t width = write_label(&help, label);
    for (size_t i = 0; i < command->n_options; i++) {
        size_t len = command->options[i].kind & OPT_HIDDEN ? 0 : write_label(&command->options[i], label);
        if (len > width && len <= LABEL_WIDTH_MOST) width = len;
    }
    printf("usage: %s [options]%s%s\n\n%s\n\noptions:\n", command->name, command->operands[0] ? " " : "",
           command->operands, command->summary);
    for (size_t i = 0; i < command->n_options; i++)
        if (!(command->options[i].kind & OPT_HIDDEN)) print_option(&command->options[i], width);
    print_option(&help, width);
    if (command->examples) printf("\nexamples:\n%s", command->examples);
    return EXIT_DONE;
}

static int (*on_help)(const struct opt_command *command) = print_help;

void opt_on_help(int (*function)(const struct opt_command *command)) {
    on_help = function;
}

const struct opt *opt_find_name(const struct opt_command *command, const char *name) {
    for (size_t i = 0; i < command->n_options; i++)
        if (!strcmp(command->options[i].name, name)) return &command->options[i];
    return NULL;
}

const struct opt *opt_find_letter(const struct opt_command *command, char letter) {
    for (size_t i = 0; i < command->n_options; i++)
        if (command->options[i].letter == letter) return &command->options[i];
    return NULL;
}

static int unknown_long(const struct parser *p, const char *name) {
    const struct opt_command *c = p->command;
    const char *near = msi_nearest(name, c->options, c->n_options, sizeof c->options[0]);
    if (!near || opt_find_name(c, near)->kind & OPT_HIDDEN)
        return opt_mistake(c, "unknown option '--%s'; try '%s --help'", name, c->name);
    return opt_mistake(c, "unknown option '--%s'; did you mean '--%s'?", name, near);
}

/* -np and --np of mpirun. */
static bool is_np(const char *name) {
    return !strcmp(name, "np");
}

static int read_long(struct parser *p, const char *arg) {
    const char *equals = strchr(arg, '=');
    size_t len = strcspn(arg, "=");
    char name[NAME_MAX_LEN];
    if (len >= sizeof name) return opt_mistake(p->command, "unknown option '--%.20s...'", arg);
    for (size_t i = 0; i < len; i++) name[i] = arg[i] == '_' ? '-' : arg[i];
    name[len] = '\0';
    if (!strcmp(name, "help")) return on_help(p->command);
    const struct opt *option = opt_find_name(p->command, name);
    if (!option && is_np(name)) option = opt_find_letter(p->command, 'n');
    return option ? store_value(p, option, equals ? equals + 1 : NULL) : unknown_long(p, name);
}

/* Every letter resembles every other, so suggest a long name that begins with it. */
static int unknown_letter(const struct parser *p, const char *letters) {
    const struct opt_command *c = p->command;
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].name[0] == letters[0])
            return opt_mistake(c, "unknown option '-%c'; did you mean '--%s'?", letters[0],
                               c->options[i].name);
    return opt_mistake(c, "unknown option '-%c'; try '%s --help'", letters[0], c->name);
}

static int read_letters(struct parser *p, const char *letters) {
    const struct opt *number = is_np(letters) ? opt_find_letter(p->command, 'n') : NULL;
    if (number) return store_value(p, number, NULL);
    for (; *letters; letters++) {
        const struct opt *option = opt_find_letter(p->command, *letters);
        if (!option && *letters == 'h') return on_help(p->command);
        if (!option) return unknown_letter(p, letters);
        if (kind_of(option) != OPT_FLAG) return store_value(p, option, letters[1] ? letters + 1 : NULL);
        int rc = store_value(p, option, NULL);
        if (rc != OPT_PROCEED) return rc;
    }
    return OPT_PROCEED;
}

static bool is_operand(const struct opt_command *command, const char *arg) {
    if (arg[0] != '-' || !arg[1]) return true;
    return arg[1] >= '0' && arg[1] <= '9' && !opt_find_letter(command, arg[1]);
}

int opt_parse(const struct opt_command *command, int argc, char **argv, void *values, char ***operands,
              int *n_operands) {
    struct parser p = {.command = command, .argv = argv, .argc = argc, .at = 1, .values = values};
    int kept = 0; /* operands so far, moved to argv[1..kept] */
    for (; p.at < argc; p.at++) {
        char *arg = argv[p.at];
        int rc = OPT_PROCEED;
        if (is_operand(command, arg)) {
            if (command->stops_at_operand) break;
            argv[1 + kept++] = arg;
        } else if (!strcmp(arg, "--")) {
            p.at++;
            break;
        } else if (arg[1] == '-') {
            rc = read_long(&p, arg + 2);
        } else {
            rc = read_letters(&p, arg + 1);
        }
        if (rc != OPT_PROCEED) return rc;
    }
    while (p.at < argc) argv[1 + kept++] = argv[p.at++];
    argv[1 + kept] = NULL;
    *operands = argv + 1;
    *n_operands = kept;
    return OPT_PROCEED;
}
