/*
 * store.c - "muster store": finds the action, opens the store and runs the action. Runs on the main thread. A
 * signal handler fires the cancellation that every store call has, which ends any wait.
 */
#include "base/nearest.h"
#include "commands.h"
#include "store/actions.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name)              offsetof(struct store_options, name), 0, 0
#define RANGE(name, least, most) offsetof(struct store_options, name), least, most

static const struct opt client_options[] = {
    {"host", 0, OPT_STRING, "HOST", "the host of the store (default 127.0.0.1)", FIELD(host)},
    {"port", 'p', OPT_NUMBER, "PORT", "its port (default 29500)", RANGE(port, 1, 65535)},
    {"timeout", 't', OPT_SECONDS, "SECONDS", "how long to wait for the store, and for keys (default 30)",
     RANGE(timeout, 0, 1000000)},
    {"open", 0, OPT_FLAG, NULL, "do not authenticate, as for a store of PyTorch", FIELD(open)},
};

static const struct opt serve_options[] = {
    {"host", 0, OPT_STRING, "HOST", "the address to listen on (default 127.0.0.1)", FIELD(host)},
    {"port", 'p', OPT_NUMBER, "PORT", "the port to listen on; 0 takes a free one (default 29500)",
     RANGE(port, 0, 65535)},
    {"port-file", 0, OPT_STRING, "PATH",
     "write the port to this file once it is open; remove the file at the end", FIELD(port_file)},
    {"open", 0, OPT_FLAG, NULL,
     "let clients use it without authentication, as PyTorch's do: who reaches\n"
     "its port can read and change it",
     FIELD(open)},
};

static const char examples[] = "  muster store serve --port 29500 &    host a store on this machine\n"
                               "  muster store set greeting hello      write a value\n"
                               "  muster store get greeting            read it\n";

/* Used by the signal handler. */
static mst_cancel *cancel_on_signal;

static void on_signal(int number) {
    int error = errno;
    (void)number;
    mst_cancel_fire(cancel_on_signal);
    errno = error;
}

static void catch_signal(int number) {
    struct sigaction before, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, NULL, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, NULL);
}

int store_failed(mst_status status) {
    static const struct opt_command command = {.name = "muster store"};
    if (status == MST_ERR_CANCELLED) {
        opt_mistake(&command, "interrupted");
        return EXIT_SIGNAL + SIGINT;
    }
    opt_failed(&command);
    return status == MST_ERR_TIMEOUT ? EXIT_TIMEOUT : EXIT_FAILED;
}

const char *store_address(const char *host, int port, char text[STORE_ADDRESS]) {
    bool v6 = strchr(host, ':') && host[0] != '[';
    snprintf(text, STORE_ADDRESS, "%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", port);
    return text;
}

static mst_status open_store(struct store_session *s, bool serves) {
    double ms = s->options.timeout * 1000;
    char url[STORE_ADDRESS + 8], address[STORE_ADDRESS];
    snprintf(url, sizeof url, "tcp://%s", store_address(s->options.host, (int)s->options.port, address));
    return mst_store_open(url, &s->store, .is_master = serves, .open = s->options.open,
                          .timeout_ms = ms < 1 ? 1 : (int)ms, .cancel = s->cancel);
}

static int perform(const struct store_action *action, struct store_session *s) {
    mst_status st = mst_cancel_new(&s->cancel);
    if (st != MST_OK) return store_failed(st);
    cancel_on_signal = s->cancel;
    catch_signal(SIGINT);
    if (action->serves) catch_signal(SIGTERM);
    st = open_store(s, action->serves);
    int status = st == MST_OK ? action->run(s) : store_failed(st);
    mst_store_free(s->store);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    mst_cancel_free(s->cancel);
    return status;
}

static int run_action(const struct store_action *action, int argc, char **argv) {
    struct store_session s = {.options = {.host = "127.0.0.1", .port = 29500, .timeout = 30}};
    char name[64];
    struct opt_command command = {
        .name = name,
        .operands = action->operands,
        .summary = action->help,
        .options = action->serves ? serve_options : client_options,
        .n_options = 4,
        .examples = examples,
    };
    snprintf(name, sizeof name, "muster store %s", action->name);
    int status = opt_parse(&command, argc, argv, &s.options, &s.operands, &s.n);
    if (status != OPT_PROCEED) return status;
    if (s.n < action->min_operands || s.n > action->max_operands)
        return opt_mistake(&command, "takes %s, not %d argument%s",
                           action->operands[0] ? action->operands : "no arguments", s.n, s.n == 1 ? "" : "s");
    if (action->takes_number && !opt_read_number(s.operands[1], INT64_MIN, INT64_MAX, &s.number))
        return opt_mistake(&command, "takes a whole number, not '%s'", s.operands[1]);
    return perform(action, &s);
}

static void print_help(FILE *to) {
    fputs("usage: muster store ACTION [options] [argument ...]\n\n"
          "Serves a key/value store for muster and PyTorch processes, or uses one.\n\n"
          "actions:\n",
          to);
    for (size_t i = 0; i < store_n_actions; i++)
        fprintf(to, "  %-6s %-11s %s\n", store_actions[i].name, store_actions[i].operands,
                store_actions[i].help);
    fputs("\n'muster store ACTION --help' lists its options.\n"
          "\nexamples:\n",
          to);
    fputs(examples, to);
}

int cmd_store(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        print_help(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < store_n_actions; i++)
        if (!strcmp(name, store_actions[i].name)) return run_action(&store_actions[i], argc - 1, argv + 1);
    return opt_unknown("muster store", "action", name,
                       msi_nearest(name, store_actions, store_n_actions, sizeof store_actions[0]));
}
