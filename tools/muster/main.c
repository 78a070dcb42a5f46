/* main.c - the muster program: finds and runs the sub-command. */
#include "base/nearest.h"
#include "cli/options.h"
#include "commands.h"

#include <muster/version.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct command commands[] = {
    {"run", cmd_run, "start a program as N ranks"},
    {"status", cmd_status, "show what the ranks of a running job do"},
    {"info", cmd_info, "show how muster was built and what it finds on this machine"},
    {"store", cmd_store, "serve a key/value store, or use one"},
    {"bench", cmd_bench, "measure muster and compare it with other libraries"},
    {"tune", cmd_tune, "measure the cost of communication and write a cost model"},
    {"report", cmd_report, "show the traces and flight recorders of a job"},
};

static void print_help(FILE *to) {
    fputs("usage: muster COMMAND [options] [argument ...]\n\ncommands:\n", to);
    for (size_t i = 0; i < N_COMMANDS; i++) fprintf(to, "  %-7s %s\n", commands[i].name, commands[i].help);
    fputs("\noptions:\n  -h, --help     show this text; 'muster COMMAND --help' describes a command\n"
          "  -V, --version  print the version\n"
          "\nexamples:\n"
          "  muster run -n 4 ./program        start four ranks on this machine\n"
          "  muster bench all_reduce          measure it, with the MPIs that are installed\n"
          "  muster info                      show what muster finds on this machine\n",
          to);
}

/*
 * Opens /dev/null in place of closed standard descriptors, or a later pipe or socket would take their
 * numbers. Reading 0 and writing 1 still fail, unless forgiving.
 */
static void fill_standard_descriptors(bool forgiving) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDWR};
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", forgiving ? O_RDWR : modes[fd]);
}

static int finish(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (status == EXIT_DONE) fputs("muster: cannot write to standard output\n", stderr);
    return status != EXIT_DONE ? status : EXIT_FAILED;
}

int main(int argc, char **argv) {
    /* A launcher without a terminal may have neither input nor output. */
    fill_standard_descriptors(argc > 1 && !strcmp(argv[1], "run"));
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return finish(EXIT_DONE);
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("muster %s\n", mst_version());
        return finish(EXIT_DONE);
    }
    if (!strcmp(name, "__complete")) return finish(cmd_complete(argc - 2, argv + 2));
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) return finish(commands[i].run(argc - 1, argv + 1));
    return opt_unknown("muster", name[0] == '-' ? "option" : "command", name,
                       msi_nearest(name, commands, N_COMMANDS, sizeof commands[0]));
}
