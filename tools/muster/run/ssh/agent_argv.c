/* agent_argv.c - see agent_argv.h. */
#include "run/ssh/agent_argv.h"

#include "run/output/output.h"
#include "run/ssh/agent_script.h"

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Settings that describe one machine. */
static const char *const not_exported[] = {"MUSTER_ADVERTISE_ADDR", "MUSTER_FORCE_HOST"};

/* Appends one argument. */
__attribute__((format(printf, 2, 3))) static void add(struct msi_buf *arguments, const char *format, ...) {
    char *argument;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&argument, format, args);
    va_end(args);
    arguments->failed |= len < 0;
    if (len < 0) return;
    agent_script_add_argument(arguments, argument);
    free(argument);
}

/* Does the variable NAME=VALUE go to other machines? */
static bool is_exported(const char *entry) {
    size_t len = strcspn(entry, "=");
    if (strncmp(entry, "MUSTER_", 7) != 0 || entry[len] != '=' || !agent_script_can_set(entry)) return false;
    for (size_t i = 0; i < sizeof not_exported / sizeof not_exported[0]; i++)
        if (strlen(not_exported[i]) == len && !memcmp(not_exported[i], entry, len)) return false;
    return true;
}

/* --env NAME=VALUE goes to the arguments; the value of --env NAME, which may be secret, to the script. */
static mst_status add_env(const struct run_options *o, struct agent_argv *a) {
    for (size_t i = 0; i < o->env.n; i++) {
        const char *entry = o->env.list[i];
        add(&a->arguments, "--env=%s", entry);
        if (strchr(entry, '=')) continue;
        if (!agent_script_can_set(entry))
            return msi_fail(MST_ERR_INVALID, NULL, "--env %s: a shell cannot set a variable of this name",
                            entry);
        agent_script_add_export(&a->exports, entry, getenv(entry));
    }
    for (size_t i = 0; environ[i]; i++)
        if (is_exported(environ[i]))
            agent_script_add_export(&a->exports, environ[i], strchr(environ[i], '=') + 1);
    return MST_OK;
}

/* Appends the option if its value is not the default. */
static void add_option(const struct run_options *o, const struct opt *option, struct msi_buf *arguments) {
    static const struct run_options defaults = RUN_OPTIONS_DEFAULT;
    const char *value = (const char *)o + option->offset, *preset = (const char *)&defaults + option->offset;
    const char *text, *default_text;
    double seconds;
    long number;
    bool flag;
    switch ((enum opt_kind)option->kind) {
    case OPT_FLAG:
        memcpy(&flag, value, sizeof flag);
        if (flag) add(arguments, "--%s", option->name);
        break;
    case OPT_NUMBER:
        memcpy(&number, value, sizeof number);
        if (memcmp(value, preset, sizeof number) != 0) add(arguments, "--%s=%ld", option->name, number);
        break;
    case OPT_SECONDS:
        memcpy(&seconds, value, sizeof seconds);
        if (memcmp(value, preset, sizeof seconds) != 0) add(arguments, "--%s=%.17g", option->name, seconds);
        break;
    case OPT_STRING:
        memcpy(&text, value, sizeof text);
        memcpy(&default_text, preset, sizeof default_text);
        if (text && (!default_text || strcmp(text, default_text) != 0))
            add(arguments, "--%s=%s", option->name, text);
        break;
    case OPT_STRINGS: /* --env is the only one; see add_env */
        break;
    }
}

static mst_status find_muster(const struct run_options *o, char path[PATH_MAX]) {
    if (o->remote_muster) {
        snprintf(path, PATH_MAX, "%s", o->remote_muster);
        return MST_OK;
    }
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (len <= 0)
        return msi_fail(MST_ERR_SYSTEM, "give its path with --remote-muster",
                        "cannot find out the path of this muster: %s", strerror(errno));
    path[len] = 0;
    return MST_OK;
}

mst_status agent_argv_open(struct agent_argv *a, const struct run_options *o, const struct agent_job *job,
                           int nodes) {
    *a = (struct agent_argv){.job = job, .nodes = nodes};
    if (!getcwd(a->directory, sizeof a->directory))
        return msi_fail_errno(errno, "cannot find out the current directory");
    mst_status st = find_muster(o, a->muster);
    if (st != MST_OK) return st;
    for (size_t i = 0; i < run_command.n_options; i++)
        if (!(run_command.options[i].kind & OPT_STAYS_HERE))
            add_option(o, &run_command.options[i], &a->arguments);
    st = add_env(o, a);
    add(&a->arguments, "--");
    add(&a->arguments, "%s", job->program ? job->program : job->operands[0]);
    for (size_t i = 1; job->operands[i]; i++) add(&a->arguments, "%s", job->operands[i]);
    if (st == MST_OK && (a->arguments.failed || a->exports.failed)) st = msi_fail_memory();
    if (st != MST_OK) agent_argv_close(a);
    return st;
}

void agent_argv_close(struct agent_argv *a) {
    msi_buf_free(&a->arguments);
    msi_buf_free(&a->exports);
}

mst_status agent_argv_write(const struct agent_argv *a, int node, const char *nproc, struct msi_buf *script) {
    struct msi_buf arguments = {0};
    add(&arguments, "run");
    add(&arguments, "--nnodes=%d", a->nodes);
    add(&arguments, "--node-rank=%d", node);
    add(&arguments, "--master-addr=%s", a->job->address);
    add(&arguments, "--master-port=%d", a->job->port);
    add(&arguments, "--rdzv-id=%s", a->job->run_id);
    add(&arguments, "--nproc-per-node=%s", nproc);
    add(&arguments, "--agent=%d", output_may_colour(OUTPUT_STDOUT) | output_may_colour(OUTPUT_STDERR) << 1);
    msi_buf_add(&arguments, a->arguments.data, a->arguments.len);
    struct agent_script parts = {.directory = a->directory,
                                 .muster = a->muster,
                                 .exports = msi_buf_str(&a->exports),
                                 .arguments = msi_buf_str(&arguments)};
    if (!arguments.failed) agent_script_write(&parts, script);
    bool whole = !arguments.failed && !script->failed;
    msi_buf_free(&arguments);
    return whole ? MST_OK : msi_fail_memory();
}
