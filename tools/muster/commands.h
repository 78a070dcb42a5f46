/* commands.h - the sub-commands of the muster program, and what they say on exit. */
#ifndef MUSTER_TOOL_COMMANDS_H
#define MUSTER_TOOL_COMMANDS_H

/* Exit statuses that all sub-commands share. A signal that ended the work adds 128 to its number. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2, /* the command line cannot be carried out; nothing was started */
    EXIT_TIMEOUT = 3,
    EXIT_SIGNAL = 128,
};

/* Each runs with argv[0] as its own name and returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_store(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_report(int argc, char **argv);

#endif
