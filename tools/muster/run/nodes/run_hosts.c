/* run_hosts.c - see run_hosts.h. Runs on the main thread before anything is started. */
#include "run/nodes/run_hosts.h"

#include "run/ranks/program.h"

#include "base/settings.h"
#include "os/host.h"

#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (o->ssh != NULL && o->ssh[strspn(o->ssh, " \t\n")] == '\0') {
        snprintf(why, why_size, "--ssh is empty");
        return -1;
    }
    if (o->ssh != NULL || is_alone(h)) return 0;
    if (program_find("ssh", &h->ssh) == MST_OK) return 0;
    snprintf(why, why_size, "other hosts are reached by ssh, and it is missing: %s",
             mst_last_error()->message);
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
    for (int i = 0; i < h->n_agents; i++) msi_buf_free(&h->agents[i].script);
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

static int add_agent(struct run_hosts *h, const struct run_options *o, const struct agent_words *words,
                     int node) {
    struct remote_agent *agent = &h->agents[h->n_agents++];
    char nproc[HOSTS_NPROC_MAX], unused[256];

    hosts_nproc(&h->hosts.list[node], o->nproc, nproc, unused, sizeof unused);
    agent->host = h->hosts.list[node].name;
    agent->reads_stdin = node == 0;
    return agent_words_write(words, node, nproc, &agent->script);
}

int run_hosts_prepare(struct run_hosts *h, const struct run_options *o, const struct agent_job *job,
                      char *why, size_t why_size) {
    struct agent_words words;

    if (agent_words_open(&words, o, job, h->hosts.n, why, why_size) != 0) return -1;
    h->agents = calloc((size_t)h->hosts.n, sizeof h->agents[0]);
    int rc = h->agents != NULL ? 0 : -1;
    for (int node = 0; node < h->hosts.n && rc == 0; node++)
        if (node != h->here) rc = add_agent(h, o, &words, node);
    agent_words_close(&words);
    return rc == 0 ? 0 : out_of_memory(why, why_size);
}
