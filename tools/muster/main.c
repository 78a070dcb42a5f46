/*
 * main.c - the muster program: finds the sub-command and hands over. Each sub-command is a file of its own
 * and owns everything from there on.
 */
#include "base/nearest.h"
#include "commands.h"

#include <muster/version.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"run", cmd_run, "start a program as N ranks"},
    {"info", cmd_info, "show what muster finds on this machine"},
    {"store", cmd_store, "serve a key/value store, or talk to one"},
    {"bench", cmd_bench, "measure muster, beside its peers where they are installed"},
    {"tune", cmd_tune, "measure what communication costs, so that programs choose well"},
    {"report", cmd_report, "show what the traces and recordings of a run say"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
    fputs("usage: muster COMMAND [options] [argument ...]\n\ncommands:\n", to);
    for (size_t i = 0; i < N_COMMANDS; i++) fprintf(to, "  %-7s %s\n", commands[i].name, commands[i].help);
    fputs("\n'muster COMMAND --help' says more about one of them; 'muster --version' says which muster this "
          "is.\n",
          to);
}

static int unknown(const char *name) {
    const char *near = msi_nearest(name, commands, N_COMMANDS, sizeof commands[0]);
    const char *kind = name[0] == '-' ? "option" : "command";
    if (near != NULL && name[0] != '-')
        fprintf(stderr, "muster: unknown %s '%s'; did you mean '%s'?\n", kind, name, near);
    else
        fprintf(stderr, "muster: unknown %s '%s'; try 'muster --help'\n", kind, name);
    return EXIT_USAGE;
}

/*
 * Descriptors 0 to 2 must be taken, or a pipe or socket would be opened there and mistaken for them. What
 * takes the place of a closed one fails as that would: nothing can be read from 0, nor written to 1.
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
    /* A launcher without a terminal may well have neither input nor output. */
    fill_standard_descriptors(argc > 1 && strcmp(argv[1], "run") == 0);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return finish(EXIT_DONE);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("muster %s\n", mst_version());
        return finish(EXIT_DONE);
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return finish(commands[i].run(argc - 1, argv + 1));
    return unknown(name);
}
