/* agent_argv.c - see agent_argv.h. Runs on the main thread before anything is started. */
#include "run/ssh/agent_argv.h"

#include "run/output/output.h"
#include "run/ssh/agent_script.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is true of one machine only. */
static const char *const not_exported[] = {"MUSTER_ADVERTISE_ADDR", "MUSTER_FORCE_HOST"};

__attribute__((format(printf, 2, 3))) static void add(struct agent_list *l, const char *format, ...) {
    char **grown = l->failed ? NULL : realloc(l->items, (l->n + 2) * sizeof grown[0]);
    va_list args;

    l->failed = grown == NULL;
    if (l->failed) return;
    l->items = grown;
    va_start(args, format);
    int len = vasprintf(&grown[l->n], format, args);
    va_end(args);
    l->failed = len < 0;
    if (len >= 0) l->n++;
    grown[l->n] = NULL;
}

static void free_list(struct agent_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->items[i]);
    free(l->items);
    *l = (struct agent_list){0};
}

/* May a variable, NAME=VALUE, mean something on another machine? */
static bool is_exported(const char *entry) {
    size_t len = strcspn(entry, "=");

    if (strncmp(entry, "MUSTER_", 7) != 0 || entry[len] != '=' || !agent_script_can_set(entry)) return false;
    for (size_t i = 0; i < sizeof not_exported / sizeof not_exported[0]; i++)
        if (strlen(not_exported[i]) == len && memcmp(not_exported[i], entry, len) == 0) return false;
    return true;
}

/* --env NAME=VALUE stays as it was typed; --env NAME, which may be a secret, travels in the script. */
static int add_env(const struct run_options *o, struct agent_list *words, struct agent_list *set, char *why,
                   size_t why_size) {
    for (size_t i = 0; i < o->env.n; i++) {
        const char *entry = o->env.list[i];

        add(words, "--env=%s", entry);
        if (strchr(entry, '=') != NULL) continue;
        if (!agent_script_can_set(entry)) {
            snprintf(why, why_size, "--env %s: a variable of this name cannot be set on other hosts", entry);
            return -1;
        }
        add(set, "%s=%s", entry, getenv(entry));
    }
    for (size_t i = 0; environ[i] != NULL; i++)
        if (is_exported(environ[i])) add(set, "%s", environ[i]);
    return 0;
}

static void add_option(const struct run_options *o, const struct opt *option, struct agent_list *words) {
    static const struct run_options defaults = RUN_OPTIONS_DEFAULT;
    const char *value = (const char *)o + option->offset, *preset = (const char *)&defaults + option->offset;
    const char *text, *standard;
    double seconds;
    long number;
    bool flag;

    switch ((enum opt_kind)option->kind) {
    case OPT_FLAG:
        memcpy(&flag, value, sizeof flag);
        if (flag) add(words, "--%s", option->name);
        break;
    case OPT_NUMBER:
        memcpy(&number, value, sizeof number);
        if (memcmp(value, preset, sizeof number) != 0) add(words, "--%s=%ld", option->name, number);
        break;
    case OPT_SECONDS:
        memcpy(&seconds, value, sizeof seconds);
        if (memcmp(value, preset, sizeof seconds) != 0) add(words, "--%s=%.17g", option->name, seconds);
        break;
    case OPT_STRING:
        memcpy(&text, value, sizeof text);
        memcpy(&standard, preset, sizeof standard);
        if (text != NULL && (standard == NULL || strcmp(text, standard) != 0))
            add(words, "--%s=%s", option->name, text);
        break;
    case OPT_STRINGS:
        break; /* --env, the only one, is add_env's */
    }
}

static void add_options(const struct run_options *o, struct agent_list *words) {
    for (size_t i = 0; i < run_command.n_options; i++)
        if ((run_command.options[i].kind & OPT_STAYS_HERE) == 0)
            add_option(o, &run_command.options[i], words);
}

static void add_program(const struct agent_job *job, struct agent_list *words) {
    add(words, "--");
    add(words, "%s", job->program != NULL ? job->program : job->operands[0]);
    for (size_t i = 1; job->operands[i] != NULL; i++) add(words, "%s", job->operands[i]);
}

static int own_path(const struct run_options *o, char path[PATH_MAX], char *why, size_t why_size) {
    if (o->remote_muster != NULL) {
        snprintf(path, PATH_MAX, "%s", o->remote_muster);
        return 0;
    }
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (len > 0) {
        path[len] = '\0';
        return 0;
    }
    snprintf(why, why_size, "cannot find out where this muster is: %s; --remote-muster names it",
             strerror(errno));
    return -1;
}

int agent_words_open(struct agent_words *w, const struct run_options *o, const struct agent_job *job,
                     int nodes, char *why, size_t why_size) {
    *w = (struct agent_words){.job = job, .nodes = nodes};
    if (getcwd(w->directory, sizeof w->directory) == NULL) {
        snprintf(why, why_size, "cannot find out the current directory: %s", strerror(errno));
        return -1;
    }
    if (own_path(o, w->muster, why, why_size) != 0) return -1;
    add_options(o, &w->common);
    int rc = add_env(o, &w->common, &w->set, why, why_size);
    add_program(job, &w->common);
    if (rc == 0 && (w->common.failed || w->set.failed)) {
        snprintf(why, why_size, "out of memory");
        rc = -1;
    }
    if (rc != 0) agent_words_close(w);
    return rc;
}

void agent_words_close(struct agent_words *w) {
    free_list(&w->common);
    free_list(&w->set);
}

/* What this node alone is told, and then what all are. */
static void add_words(const struct agent_words *w, int node, const char *nproc, struct agent_list *words) {
    add(words, "run");
    add(words, "--nnodes=%d", w->nodes);
    add(words, "--node-rank=%d", node);
    add(words, "--master-addr=%s", w->job->address);
    add(words, "--master-port=%d", w->job->port);
    add(words, "--rdzv-id=%s", w->job->run_id);
    add(words, "--nproc-per-node=%s", nproc);
    add(words, "--agent=%d", output_may_colour(OUTPUT_STDOUT) | output_may_colour(OUTPUT_STDERR) << 1);
    for (size_t i = 0; i < w->common.n; i++) add(words, "%s", w->common.items[i]);
}

int agent_words_write(const struct agent_words *w, int node, const char *nproc, struct msi_buf *script) {
    static char *const none[] = {NULL};
    struct agent_list words = {0};

    add_words(w, node, nproc, &words);
    struct agent_script parts = {
        .directory = w->directory,
        .muster = w->muster,
        .set = (const char *const *)(w->set.items != NULL ? w->set.items : none),
        .words = (const char *const *)words.items,
    };
    if (!words.failed) agent_script_write(&parts, script);
    bool whole = !words.failed && !script->failed;
    free_list(&words);
    return whole ? 0 : -1;
}
