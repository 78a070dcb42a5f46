/*
 * options.h - command-line options from a table, which also makes the --help text.
 *
 * An option's value lands in a struct of the command's own, at the offset its entry names. Both --name VALUE
 * and --name=VALUE are understood, letters can be bundled (-abn4), an underscore in a long name is read as a
 * dash, and "--" ends the options. Messages go to stderr as one line that begins with the command's name.
 */
#ifndef MUSTER_TOOL_CLI_OPTIONS_H
#define MUSTER_TOOL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum opt_kind {
    OPT_FLAG,    /* bool */
    OPT_NUMBER,  /* long, within min and max */
    OPT_SECONDS, /* double, within min and max */
    OPT_STRING,  /* const char *, borrowed from argv */
    OPT_STRINGS, /* struct opt_strings: the option may be repeated */
};

/* Added to a kind: launchers that are started on other hosts get an option of their own in its place, or none. */
enum { OPT_STAYS_HERE = 0x100 };

/* The strings are borrowed from argv; the list is the command's to free, also after a mistake. */
struct opt_strings {
    const char **list;
    size_t n;
};

struct opt {
    const char *name;  /* long name without its dashes */
    char letter;       /* short name, or 0 */
    int kind;          /* an opt_kind, and OPT_STAYS_HERE or not */
    const char *value; /* what help calls the value; NULL for a flag */
    const char *help;  /* a newline continues it on a line of its own */
    size_t offset;     /* of the value in the command's struct */
    long min, max;
};

struct opt_command {
    const char *name;     /* "muster run" */
    const char *operands; /* "program [argument ...]" */
    const char *summary;
    const struct opt *options;
    size_t n_options;
    bool stops_at_operand; /* what follows the first operand is not ours, whatever it looks like */
};

enum { OPT_PROCEED = -1 };

/*
 * Reads argv[1..argc). Returns OPT_PROCEED, with *operands and *n_operands set to what is not an option, or
 * the exit status: 0 after --help was answered on stdout, 2 after a mistake was named on stderr. The order of
 * argv may change; a word such as -5 is an operand unless 5 is one of the letters.
 */
int opt_parse(const struct opt_command *command, int argc, char **argv, void *values, char ***operands,
              int *n_operands);

/* Prints "NAME: message" as one line on stderr and returns exit status 2. */
int opt_mistake(const struct opt_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a whole decimal number; false if text is none or it does not fit between min and max. */
bool opt_read_number(const char *text, long long min, long long max, long long *number);

void opt_print_help(const struct opt_command *command);

#endif
