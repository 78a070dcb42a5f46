/*
 * agent_argv.c - the command lines of a job's agents, the launchers on other hosts, and the variables that
 * their shells set first. Most of it is the same for all agents and is written once. See run_hosts.h.
 */
#include "run/nodes/run_hosts.h"
#include "run/output/output.h"
#include "run/ssh/agent_script.h"

#include "base/error.h"
#include "base/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct agents {
    const struct run_options *options;
    const struct worker_env_facts *facts;
    const struct hosts *hosts;
    struct msi_buf exports, arguments; /* as in struct agent_script; the same for all agents */
    const char *secret;                /* "": none */
    char directory[PATH_MAX], muster[PATH_MAX];
};

/* Settings that describe one machine. */
static const char *const not_exported[] = {"MUSTER_ADVERTISE_ADDR", "MUSTER_FORCE_HOST", MSI_SECRET_VARIABLE};

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
static mst_status add_env(const struct run_options *o, struct agents *a) {
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
    const void *value = (const char *)o + option->offset, *preset = (const char *)&defaults + option->offset;
    const char *const *text = value, *const *default_text = preset;
    switch ((enum opt_kind)(option->kind & ~OPT_MAY_OMIT)) {
    case OPT_FLAG:
        if (*(const bool *)value) add(arguments, "--%s", option->name);
        break;
    case OPT_NUMBER:
        if (memcmp(value, preset, sizeof(long)) == 0) break;
        if (*(const long *)value < option->min)
            add(arguments, "--%s", option->name);
        else
            add(arguments, "--%s=%ld", option->name, *(const long *)value);
        break;
    case OPT_SECONDS:
        if (memcmp(value, preset, sizeof(double)) != 0)
            add(arguments, "--%s=%.17g", option->name, *(const double *)value);
        break;
    case OPT_STRING:
        if (*text && (!*default_text || strcmp(*text, *default_text) != 0))
            add(arguments, "--%s=%s", option->name, *text);
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
                        "cannot determine the path of this muster: %s", strerror(errno));
    path[len] = 0;
    return MST_OK;
}

/* Writes what all agents have in common. */
static mst_status add_common(struct agents *a, const struct workers_options *workers) {
    if (!getcwd(a->directory, sizeof a->directory))
        return msi_fail_errno(errno, "cannot determine the current directory");
    mst_status st = find_muster(a->options, a->muster);
    if (st != MST_OK) return st;
    for (size_t i = 0; i < run_command.n_options; i++)
        if (!(run_command.options[i].kind & OPT_STAYS_HERE))
            add_option(a->options, &run_command.options[i], &a->arguments);
    st = add_env(a->options, a);
    add(&a->arguments, "--");
    add(&a->arguments, "%s", workers->program ? workers->program : workers->argv[0]);
    for (size_t i = 1; workers->argv[i]; i++) add(&a->arguments, "%s", workers->argv[i]);
    return st == MST_OK && (a->arguments.failed || a->exports.failed) ? msi_fail_memory() : st;
}

static mst_status write_script(const struct agents *a, int node, struct msi_buf *script) {
    struct msi_buf arguments = {0};
    char nproc[HOSTS_NPROC_MAX];
    mst_status st = hosts_nproc(&a->hosts->list[node], a->options->nproc, nproc);
    if (st != MST_OK) return st;
    add(&arguments, "run");
    add(&arguments, "--nnodes=%d", a->hosts->n);
    add(&arguments, "--node-rank=%d", node);
    add(&arguments, "--master-addr=%s", a->facts->master_addr);
    add(&arguments, "--master-port=%d", a->facts->master_port);
    add(&arguments, "--rdzv-id=%s", a->facts->run_id);
    add(&arguments, "--nproc-per-node=%s", nproc);
    add(&arguments, "--agent=%d", output_may_colour(OUTPUT_STDOUT) | output_may_colour(OUTPUT_STDERR) << 1);
    if (*a->secret) add(&arguments, "--agent-secret");
    msi_buf_add(&arguments, a->arguments.data, a->arguments.len);
    struct agent_script parts = {.directory = a->directory,
                                 .muster = a->muster,
                                 .secret = a->secret,
                                 .exports = msi_buf_str(&a->exports),
                                 .arguments = msi_buf_str(&arguments)};
    if (!arguments.failed) agent_script_write(&parts, script);
    bool whole = !arguments.failed && !script->failed;
    msi_buf_free(&arguments);
    return whole ? MST_OK : msi_fail_memory();
}

mst_status run_hosts_prepare(struct run_hosts *h, const struct run_options *o,
                             const struct worker_env_facts *facts, const struct workers_options *workers,
                             const char *secret) {
    struct agents a = {.options = o, .facts = facts, .hosts = &h->hosts, .secret = secret};
    mst_status st = add_common(&a, workers);
    h->remote.agents = calloc((size_t)h->hosts.n, sizeof h->remote.agents[0]);
    if (st == MST_OK && !h->remote.agents) st = msi_fail_memory();
    for (int node = 0; node < h->hosts.n && st == MST_OK; node++) {
        if (node == h->here) continue;
        struct remote_agent *agent = &h->remote.agents[h->remote.n++];
        *agent = (struct remote_agent){.host = h->hosts.list[node].name, .reads_stdin = node == 0};
        st = write_script(&a, node, &agent->script);
    }
    msi_buf_free(&a.arguments);
    msi_buf_free(&a.exports);
    return st;
}
