/*
 * options.h - parses command-line options by a table, which also makes the --help text.
 *
 * The value of an option is stored in a struct of the command, at the offset in the table. The parser
 * understands --name VALUE and --name=VALUE, bundled letters (-abn4), an underscore in place of a dash in a
 * long name, mpirun's -np and --np for the letter n, and "--" as the end of the options. Messages go to
 * stderr as one line that begins with the command's name.
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

/*
 * Added to a kind: not passed on to launchers on other hosts; not shown to users; a number that may be left
 * out: the option without =VALUE stores min - 1.
 */
enum { OPT_STAYS_HERE = 0x100, OPT_HIDDEN = 0x200, OPT_MAY_OMIT = 0x400 };

/* The strings are borrowed from argv; the command frees the list, even after an error. */
struct opt_strings {
    const char **list;
    size_t n;
};

struct opt {
    const char *name;  /* long name without dashes */
    char letter;       /* short name, or 0 */
    int kind;          /* an opt_kind, perhaps with OPT_STAYS_HERE or OPT_HIDDEN */
    const char *value; /* its name in the help text, or the choices "a|b"; NULL for a flag */
    const char *help;  /* may have several lines */
    size_t offset;     /* of the value in the struct of the command */
    long min, max;
};

struct opt_command {
    const char *name;     /* "muster run" */
    const char *operands; /* "program [argument ...]" */
    const char *summary;
    const struct opt *options;
    size_t n_options;
    bool stops_at_operand; /* all that follows the first operand is an operand */
    const char *examples;  /* lines for the end of the help text, or NULL */
};

enum { OPT_PROCEED = -1 };

/*
 * Parses argv[1..argc), whose order may change. Returns OPT_PROCEED and sets the operands, or returns the
 * exit status: 0 after it has printed the --help text, 2 after it has printed an error. An argument such as
 * -5 is an operand unless 5 is one of the letters.
 */
int opt_parse(const struct opt_command *command, int argc, char **argv, void *values, char ***operands,
              int *n_operands);

/* From now on opt_parse calls this function in place of printing the --help text. */
void opt_on_help(int (*function)(const struct opt_command *command));

/* Finds an option by its long name, or by its letter; NULL: none. */
const struct opt *opt_find_name(const struct opt_command *command, const char *name);
const struct opt *opt_find_letter(const struct opt_command *command, char letter);

/* Prints "NAME: message" as one line on stderr; returns exit status 2. */
int opt_mistake(const struct opt_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints the thread's last error, "NAME: message; remedy"; returns exit status 2. */
int opt_failed(const struct opt_command *command);

/* Prints "PROGRAM: unknown WHAT 'NAME'" with near, or the help of the program if near is NULL; returns 2. */
int opt_unknown(const char *program, const char *what, const char *name, const char *near);

/* Reads a decimal integer between min and max; false if text is not one. */
bool opt_read_number(const char *text, long long min, long long max, long long *number);

#endif
