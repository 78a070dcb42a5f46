/* commands.h - the sub-commands of the muster program and their exit statuses. */
#ifndef MUSTER_TOOL_COMMANDS_H
#define MUSTER_TOOL_COMMANDS_H

/* Exit statuses of all sub-commands. A signal that ended the work is EXIT_SIGNAL plus its number. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2, /* wrong command line; nothing was started */
    EXIT_TIMEOUT = 3,
    EXIT_SIGNAL = 128,
};

/* A sub-command, as `muster --help` lists it. */
struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};
enum { N_COMMANDS = 7 };
extern const struct command commands[N_COMMANDS];

/* argv[0] is the name of the sub-command. Each returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_store(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_status(int argc, char **argv);
/* Internal, for shells: gets the words after "muster __complete"; prints candidates for the last one. */
int cmd_complete(int argc, char **argv);

#endif
