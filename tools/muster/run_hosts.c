/* run_hosts.c - see run_hosts.h. Runs on the main thread before anything is started. */
#include "run_hosts.h"

#include "agent_script.h"
#include "program.h"

#include "base/settings.h"
#include "os/host.h"

#include <muster/muster.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Options that each agent gets its own of, or that are the launcher's alone. */
static const char *const not_passed_on[] = {
    "nproc-per-node", "nnodes",     "node-rank", "master-addr", "master-port", "rdzv-id",
    "rdzv-endpoint",  "standalone", "hosts",     "hostfile",    "ssh",         "ssh-local",
    "remote-muster",  "env",        "agent",
};
/* What is true of one machine only. */
static const char *const not_exported[] = {"MUSTER_ADVERTISE_ADDR", "MUSTER_FORCE_HOST"};

static int out_of_memory(char *why, size_t why_size) {
    snprintf(why, why_size, "out of memory");
    return -1;
}

/* This machine may have several names in the list: it is one node, at the place of the first. */
static void find_here(struct run_hosts *h, bool ssh_local) {
    int kept = 0;

    h->here = -1;
    for (int i = 0; i < h->hosts.n; i++) {
        struct host *host = &h->hosts.list[i];
        bool here = !ssh_local && remote_is_here(host->name);

        if (here && h->here >= 0) {
            h->hosts.list[h->here].ranks += host->ranks;
            h->hosts.list[h->here].open += host->open;
            continue;
        }
        if (here) h->here = kept;
        h->hosts.list[kept++] = *host;
    }
    h->hosts.n = kept;
}

static bool is_alone(const struct run_hosts *h) {
    return run_hosts_others(h) == 0;
}

/* The address on the way to the first of the others, unless the user's settings name another. */
static int find_address(struct run_hosts *h, char *why, size_t why_size) {
    struct msi_address target = {.port = 0};
    struct msi_settings settings;
    const char *reason;
    char found[64];

    snprintf(h->address, sizeof h->address, "127.0.0.1");
    if (is_alone(h)) return 0;
    const char *name = h->hosts.list[h->here == 0].name, *sign = strchr(name, '@');
    snprintf(target.host, sizeof target.host, "%s", sign != NULL ? sign + 1 : name);
    if (msi_settings_load(&settings, NULL) != MST_OK ||
        msi_netif_choose(settings.advertise_addr, settings.socket_ifname, &target, found, &reason) !=
            MST_OK) {
        snprintf(why, why_size, "%s", mst_last_error()->message);
        return -1;
    }
    snprintf(h->address, sizeof h->address, "%s", found);
    return 0;
}

static int find_ssh(struct run_hosts *h, const struct run_options *o, char *why, size_t why_size) {
    char reason[256];

    if (o->ssh != NULL && o->ssh[strspn(o->ssh, " \t\n")] == '\0') {
        snprintf(why, why_size, "--ssh is empty");
        return -1;
    }
    if (o->ssh != NULL || is_alone(h)) return 0;
    if (program_find("ssh", &h->ssh, reason, sizeof reason) == 0) return 0;
    snprintf(why, why_size, "other hosts are reached by ssh, and it is missing: %s", reason);
    return -1;
}

static int read_hosts(struct run_hosts *h, const struct run_options *o, char *why, size_t why_size) {
    if (o->hosts != NULL && o->hostfile != NULL) {
        snprintf(why, why_size, "--hosts and --hostfile both name the hosts; drop either");
        return -1;
    }
    const char *other = o->standalone                 ? "standalone"
                        : strcmp(o->nnodes, "1") != 0 ? "nnodes"
                        : o->node_rank >= 0           ? "node-rank"
                        : o->rdzv_endpoint != NULL    ? "rdzv-endpoint"
                        : o->agent >= 0               ? "agent"
                                                      : NULL;
    if (other != NULL) {
        snprintf(why, why_size, "--%s says which nodes there are, and so does --%s; drop either", other,
                 o->hosts != NULL ? "hosts" : "hostfile");
        return -1;
    }
    return o->hosts != NULL ? hosts_read_list(o->hosts, &h->hosts, why, why_size)
                            : hosts_read_file(o->hostfile, &h->hosts, why, why_size);
}

static int name_hosts(struct run_hosts *h, char *why, size_t why_size) {
    h->names = calloc((size_t)h->hosts.n, sizeof h->names[0]);
    if (h->names == NULL) return out_of_memory(why, why_size);
    for (int i = 0; i < h->hosts.n; i++) h->names[i] = h->hosts.list[i].name;
    return 0;
}

/* Says early, and once for all hosts, what would fail at one of them. */
static int check_counts(struct run_hosts *h, const struct run_options *o, char *why, size_t why_size) {
    char text[HOSTS_NPROC_MAX];

    for (int i = 0; i < h->hosts.n; i++)
        if (hosts_nproc(&h->hosts.list[i], o->nproc, i == h->here ? h->nproc_here : text, why, why_size) != 0)
            return -1;
    return 0;
}

int run_hosts_open(struct run_hosts *h, const struct run_options *o, char *why, size_t why_size) {
    *h = (struct run_hosts){.here = -1};
    if (read_hosts(h, o, why, why_size) != 0) return -1;
    find_here(h, o->ssh_local);
    if (name_hosts(h, why, why_size) == 0 && check_counts(h, o, why, why_size) == 0 &&
        find_ssh(h, o, why, why_size) == 0 && find_address(h, why, why_size) == 0)
        return 0;
    run_hosts_close(h);
    return -1;
}

void run_hosts_close(struct run_hosts *h) {
    for (int i = 0; i < h->n_agents; i++) text_free(&h->agents[i].script);
    free(h->agents);
    free(h->names);
    free(h->ssh);
    hosts_free(&h->hosts);
    *h = (struct run_hosts){.here = -1};
}

int run_hosts_others(const struct run_hosts *h) {
    return h == NULL ? 0 : h->hosts.n - (h->here >= 0);
}

int run_hosts_meeting(const struct run_hosts *h, const struct run_options *o, struct meeting *meeting,
                      char *why, size_t why_size) {
    struct run_options head = *o;
    char nodes[16];

    snprintf(nodes, sizeof nodes, "%d", h->hosts.n);
    head.nnodes = nodes;
    head.node_rank = 0; /* whatever its place among the nodes, this launcher hosts the store */
    if (head.master_addr == NULL) head.master_addr = h->address;
    if (head.master_port < 0) head.master_port = 0;
    if (meeting_read(&head, meeting, why, why_size) != 0) return -1;
    meeting->node_rank = h->here;
    meeting->company = run_hosts_others(h) > 0;
    return 0;
}

/* A growing list of strings that are its own, NULL at the end. */
struct list {
    char **items;
    size_t n;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void add(struct list *l, const char *format, ...) {
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

static void free_list(struct list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->items[i]);
    free(l->items);
    *l = (struct list){0};
}

static bool is_among(const char *name, size_t len, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) return true;
    return false;
}

/* --env NAME=VALUE stays as it was typed; --env NAME, which may be a secret, travels in the script. */
static int add_env(const struct run_options *o, struct list *words, struct list *set, char *why,
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
    for (size_t i = 0; environ[i] != NULL; i++) {
        size_t len = strcspn(environ[i], "=");
        bool ours = strncmp(environ[i], "MUSTER_", 7) == 0 && environ[i][len] == '=' &&
                    agent_script_can_set(environ[i]);
        if (ours && !is_among(environ[i], len, not_exported, sizeof not_exported / sizeof not_exported[0]))
            add(set, "%s", environ[i]);
    }
    return 0;
}

static void add_option(const struct run_options *o, const struct opt *option, struct list *words) {
    static const struct run_options defaults = RUN_OPTIONS_DEFAULT;
    const char *value = (const char *)o + option->offset, *preset = (const char *)&defaults + option->offset;
    const char *text, *standard;
    double seconds;
    long number;
    bool flag;

    switch (option->kind) {
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

/* What all agents are told alike. */
static void add_options(const struct run_options *o, struct list *words) {
    size_t n = sizeof not_passed_on / sizeof not_passed_on[0];

    for (size_t i = 0; i < run_command.n_options; i++) {
        const struct opt *option = &run_command.options[i];
        if (!is_among(option->name, strlen(option->name), not_passed_on, n)) add_option(o, option, words);
    }
}

static void add_program(const struct run_hosts_job *job, struct list *words) {
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

/* The script of one node; common and set are the same for all of them. */
static int write_script(const struct run_hosts *h, const struct run_options *o,
                        const struct run_hosts_job *job, int node, const struct list *common,
                        const struct list *set, const char *directory, const char *muster,
                        struct remote_agent *agent) {
    char nproc[HOSTS_NPROC_MAX], unused[256];
    struct list words = {0};

    hosts_nproc(&h->hosts.list[node], o->nproc, nproc, unused, sizeof unused);
    add(&words, "run");
    add(&words, "--nnodes=%d", h->hosts.n);
    add(&words, "--node-rank=%d", node);
    add(&words, "--master-addr=%s", job->address);
    add(&words, "--master-port=%d", job->port);
    add(&words, "--rdzv-id=%s", job->run_id);
    add(&words, "--nproc-per-node=%s", nproc);
    add(&words, "--agent=%d", output_may_colour(OUTPUT_STDOUT) | output_may_colour(OUTPUT_STDERR) << 1);
    for (size_t i = 0; i < common->n; i++) add(&words, "%s", common->items[i]);
    static char *const none[] = {NULL};
    struct agent_script script = {
        .directory = directory,
        .muster = muster,
        .set = (const char *const *)(set->items != NULL ? set->items : none),
        .words = (const char *const *)words.items,
    };
    agent->host = h->hosts.list[node].name;
    agent->reads_stdin = node == 0;
    if (!words.failed) agent_script_write(&script, &agent->script);
    bool whole = !words.failed && !agent->script.failed;
    free_list(&words);
    return whole ? 0 : -1;
}

int run_hosts_prepare(struct run_hosts *h, const struct run_options *o, const struct run_hosts_job *job,
                      char *why, size_t why_size) {
    char directory[PATH_MAX], muster[PATH_MAX];
    struct list common = {0}, set = {0};
    int rc = -1;

    if (getcwd(directory, sizeof directory) == NULL) {
        snprintf(why, why_size, "cannot find out the current directory: %s", strerror(errno));
        return -1;
    }
    if (own_path(o, muster, why, why_size) != 0) return -1;
    add_options(o, &common);
    if (add_env(o, &common, &set, why, why_size) != 0) goto free_lists;
    add_program(job, &common);
    h->agents = calloc((size_t)h->hosts.n, sizeof h->agents[0]);
    rc = h->agents != NULL && !common.failed && !set.failed ? 0 : out_of_memory(why, why_size);
    for (int node = 0; node < h->hosts.n && rc == 0; node++) {
        if (node == h->here) continue;
        struct remote_agent *agent = &h->agents[h->n_agents++];
        if (write_script(h, o, job, node, &common, &set, directory, muster, agent) != 0)
            rc = out_of_memory(why, why_size);
    }

free_lists:
    free_list(&common);
    free_list(&set);
    return rc;
}
