/* run_hosts.c - see run_hosts.h. */
#include "run/nodes/run_hosts.h"

#include "run/ranks/program.h"

#include "base/error.h"
#include "base/settings.h"
#include "os/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This machine may have several names in the list: they become one node at the position of the first. */
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

/* The address on the route to the first other host, unless the settings name another. */
static mst_status find_address(struct run_hosts *h) {
    struct msi_address target = {.port = 0};
    struct msi_settings settings;
    const char *reason;
    strcpy(h->address, "127.0.0.1");
    if (run_hosts_others(h) == 0) return MST_OK;
    const char *name = h->hosts.list[h->here == 0].name, *sign = strchr(name, '@');
    snprintf(target.host, sizeof target.host, "%s", sign ? sign + 1 : name);
    mst_status st = msi_settings_load(&settings, NULL);
    if (st != MST_OK) return st;
    return msi_netif_choose(settings.advertise_addr, settings.socket_ifname, &target, h->address, &reason);
}

static mst_status find_ssh(struct run_hosts *h, const struct run_options *o) {
    if (o->ssh && !o->ssh[strspn(o->ssh, " \t\n")]) return msi_fail(MST_ERR_INVALID, NULL, "--ssh is empty");
    h->remote.ssh = o->ssh;
    if (o->ssh || run_hosts_others(h) == 0 || program_find("ssh", &h->remote.program) == MST_OK)
        return MST_OK;
    char reason[256];
    snprintf(reason, sizeof reason, "%s", mst_last_error()->message);
    return msi_fail(MST_ERR_NOT_FOUND, NULL, "other hosts are reached by ssh, and it is missing: %s", reason);
}

static mst_status read_hosts(struct run_hosts *h, const struct run_options *o) {
    const char *other = o->standalone             ? "standalone"
                        : strcmp(o->nnodes, "1")  ? "nnodes"
                        : o->node_rank >= 0       ? "node-rank"
                        : o->rdzv_endpoint        ? "rdzv-endpoint"
                        : o->agent >= 0           ? "agent"
                        : o->hosts && o->hostfile ? "hosts"
                                                  : NULL;
    if (other)
        return msi_fail(MST_ERR_INVALID, "remove one of them", "--%s and --%s both name the nodes of the job",
                        other, o->hostfile ? "hostfile" : "hosts");
    return o->hosts ? hosts_read_list(o->hosts, &h->hosts) : hosts_read_file(o->hostfile, &h->hosts);
}

/* Finds mistakes here that each host would find later. */
static mst_status check_counts(struct run_hosts *h, const struct run_options *o) {
    char text[HOSTS_NPROC_MAX];
    mst_status st = MST_OK;
    for (int i = 0; i < h->hosts.n && st == MST_OK; i++)
        st = hosts_nproc(&h->hosts.list[i], o->nproc, i == h->here ? h->nproc_here : text);
    return st;
}

mst_status run_hosts_open(struct run_hosts *h, const struct run_options *o) {
    mst_status st = read_hosts(h, o);
    if (st != MST_OK) return st;
    find_here(h, o->ssh_local);
    st = check_counts(h, o);
    if (st == MST_OK) st = find_ssh(h, o);
    return st == MST_OK ? find_address(h) : st;
}

void run_hosts_close(struct run_hosts *h) {
    for (int i = 0; i < h->remote.n; i++) msi_buf_free(&h->remote.agents[i].script);
    free(h->remote.agents);
    free(h->remote.program);
    hosts_free(&h->hosts);
}

int run_hosts_others(const struct run_hosts *h) {
    return h->hosts.n - (h->here >= 0 && h->hosts.n > 0);
}

mst_status run_hosts_rendezvous(const struct run_hosts *h, const struct run_options *o,
                                struct rendezvous *r) {
    struct run_options coordinator = *o;
    char nodes[16];
    snprintf(nodes, sizeof nodes, "%d", h->hosts.n);
    coordinator.nnodes = nodes;
    coordinator.node_rank = 0; /* this launcher hosts the store, whatever its node rank is */
    if (!coordinator.master_addr) coordinator.master_addr = h->address;
    if (coordinator.master_port < 0) coordinator.master_port = 0;
    mst_status st = rendezvous_read(&coordinator, r);
    if (st != MST_OK) return st;
    r->node_rank = h->here;
    r->multi_node = run_hosts_others(h) > 0;
    return MST_OK;
}
