/* discover.c - finds rank, world size and the store's address. See discover.h. */
#include "bootstrap/discover.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/pmi.h"
#include "os/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void msi_discover_alone(struct msi_launch *launch) {
    static const char why[] = "one process alone";
    if (launch->rank.value >= 0 || launch->size.value >= 0 || launch->host[0] || launch->port.value >= 0)
        return;
    launch->rank = launch->local_rank = (struct msi_launch_value){0, why};
    launch->size = launch->local_size = (struct msi_launch_value){1, why};
}

mst_status msi_discover_launch(bool discovery, const struct msi_settings *settings,
                               struct msi_launch *launch) {
    mst_status st = msi_launch_find(discovery, launch);
    if (st == MST_OK && launch->source == MSI_ADDRESS_FROM_PMIX && launch->host[0] &&
        !msi_pmix_load(settings->pmix_library))
        msi_launch_forgo_pmix(launch);
    return st;
}

/* The address that rank 0 offers: its own, unless all ranks know one, with the port if one is given. */
static mst_status make_offer(const struct msi_settings *settings, const struct msi_launch *launch,
                             struct msi_address *offer) {
    const char *why;
    char own[64];
    *offer = (struct msi_address){.port = launch->port.value < 0 ? 0 : launch->port.value};
    bool known = launch->host[0] && launch->source == MSI_ADDRESS_FROM_PMI;
    mst_status st = MST_OK;
    if (!known) st = msi_netif_choose(settings->advertise_addr, settings->socket_ifname, NULL, own, &why);
    if (st == MST_OK) strcpy(offer->host, known ? launch->host : own);
    return st;
}

mst_status msi_discover_address(const struct msi_settings *settings, const struct msi_wait *wait,
                                struct msi_launch *launch) {
    struct msi_address offer, agreed;
    if (launch->source == MSI_ADDRESS_FROM_ENV) return MST_OK;
    bool pmix = launch->source == MSI_ADDRESS_FROM_PMIX;
    struct msi_pmi_job job = {.rank = launch->rank.value,
                              .size = launch->size.value,
                              .library = settings->pmix_library,
                              .advice = launch->launcher->advice};
    mst_status st = make_offer(settings, launch, &offer);
    if (st == MST_OK) st = (pmix ? msi_pmix_agree : msi_pmi_agree)(&job, &offer, wait, &agreed);
    if (st != MST_OK) return st;
    const char *from = pmix ? "rank 0, through PMIx" : "rank 0, through PMI";
    strcpy(launch->host, agreed.host);
    launch->host_from = from;
    launch->port = (struct msi_launch_value){agreed.port, launch->port.value < 0 ? from : launch->port.from};
    launch->source = MSI_ADDRESS_FROM_ENV;
    return MST_OK;
}

void msi_discover_say(bool always, const struct msi_launch *launch) {
    if (!always && !msi_log_on(MSI_MODULE_bootstrap, MSI_LOG_INFO)) return;
    msi_log_line(MSI_MODULE_bootstrap, MSI_LOG_INFO,
                 "discovered %s: world_rank=%d, local_rank=%d, world_size=%d, local_size=%d, master_addr=%s, "
                 "master_port=%d",
                 launch->launcher->title, launch->rank.value, launch->local_rank.value, launch->size.value,
                 launch->local_size.value, launch->host[0] ? launch->host : "?", launch->port.value);
}

mst_status msi_discover_set_env(const struct msi_launch *launch) {
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"RANK", launch->rank.value},
        {"WORLD_SIZE", launch->size.value},
        {"LOCAL_RANK", launch->local_rank.value},
        {"LOCAL_WORLD_SIZE", launch->local_size.value},
        {"MASTER_PORT", launch->port.value},
    };
    char text[16];
    int failed = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value < 0) continue;
        snprintf(text, sizeof text, "%d", numbers[i].value);
        failed |= setenv(numbers[i].name, text, 1);
    }
    if (launch->host[0]) failed |= setenv("MASTER_ADDR", launch->host, 1);
    /* AzureML's images need this; a value that is already set stays. */
    if (!strcmp(launch->launcher->name, "azureml")) failed |= setenv("NCCL_SOCKET_IFNAME", "^docker0,lo", 0);
    return failed ? msi_fail_memory() : MST_OK;
}

static mst_status fail_misfit(const struct msi_join_spec *spec) {
    return msi_fail(MST_ERR_CONFIG, "ranks go from 0 to the world size less 1",
                    "rank %d does not fit a world of %d (from %s)", spec->rank, spec->world_size,
                    spec->source);
}

/* Rank and size from the options, the url's query or the environment, in this order; -1: not known. */
static mst_status read_ranks(const mst_init_options *options, const struct msi_launch *launch,
                             struct msi_join_spec *spec) {
    spec->rank = launch->rank.value;
    spec->world_size = launch->size.value;
    spec->source = launch->launcher->title;
    if (spec->url.rank >= 0 || spec->url.world_size >= 0) {
        if (spec->url.rank >= 0) spec->rank = spec->url.rank;
        if (spec->url.world_size >= 0) spec->world_size = spec->url.world_size;
        spec->source = "the init method";
    }
    if (options->world_size) {
        spec->rank = options->rank;
        spec->world_size = options->world_size;
        spec->source = ".rank and .world_size";
        if (spec->world_size < 1 || spec->rank < 0 || spec->rank >= spec->world_size)
            return fail_misfit(spec);
    }
    return MST_OK;
}

static mst_status check_ranks(const struct msi_join_spec *spec) {
    if (spec->rank < 0 || spec->world_size < 0)
        return msi_fail(MST_ERR_CONFIG,
                        "set both, start the program with `muster run`, or pass .rank and .world_size",
                        spec->rank < 0 ? "only the world size is known, not the rank (from %s)"
                                       : "only the rank is known, not the world size (from %s)",
                        spec->source);
    return spec->rank >= spec->world_size ? fail_misfit(spec) : MST_OK;
}

mst_status msi_discover_missing(const struct msi_launch *launch, int rank, int size) {
    const struct msi_launcher *row = launch->launcher;
    char missing[80] = "";
    if (rank < 0) strcat(missing, " RANK");
    if (size < 0) strcat(missing, " WORLD_SIZE");
    if (!launch->host[0]) strcat(missing, " MASTER_ADDR");
    if (launch->port.value < 0) strcat(missing, " MASTER_PORT");
    if (!missing[0]) return MST_OK;
    if (row->depth < MSI_DEPTH_MPI)
        return msi_fail(MST_ERR_CONFIG,
                        "set them, start the program with `muster run`, or give an init method",
                        "env:// needs these variables, which are not set:%s", missing);
    return msi_fail(MST_ERR_CONFIG, row->advice && !launch->host[0] ? row->advice : "set them for all ranks",
                    "%s started this program (%s=%d), but these variables are needed and not set:%s",
                    row->title, launch->rank.from, launch->rank.value, missing);
}

/*
 * /etc/hosts often maps a host's own name to loopback, which other hosts cannot reach. In that case rank 0
 * listens on the address of a network interface.
 */
static mst_status avoid_loopback(const struct msi_settings *settings, const struct msi_launch *launch,
                                 struct msi_address *address) {
    const char *why;
    char own[64];
    bool several = launch->local_size.value > 0 && launch->local_size.value < launch->size.value;
    if (launch->rank.value != 0 || !several || !msi_host_is_loopback(address->host)) return MST_OK;
    mst_status st = msi_netif_choose("", settings->socket_ifname, NULL, own, &why);
    if (st != MST_OK) return st;
    msi_log(bootstrap, INFO, "%s is loopback here and ranks are on other hosts: listening on %s (%s)",
            address->host, own, why);
    strcpy(address->host, own);
    return MST_OK;
}

/* env://: without any variable the world has one process; missing variables are an error that lists them. */
static mst_status use_env(const struct msi_settings *settings, const struct msi_wait *wait,
                          struct msi_launch *launch, struct msi_join_spec *spec) {
    msi_discover_alone(launch);
    if (spec->rank < 0 && spec->world_size < 0) {
        spec->rank = launch->rank.value;
        spec->world_size = launch->size.value;
    }
    if (spec->world_size == 1 && spec->rank <= 0) {
        spec->rank = 0;
        spec->url.scheme = MSI_SCHEME_HASH;
        return MST_OK;
    }
    mst_status st = MST_OK;
    if (spec->rank >= 0 && spec->world_size > 0) {
        /* PMIx does not know a world that the caller makes of some ranks or in another order. */
        if (spec->rank != launch->rank.value || spec->world_size != launch->size.value)
            msi_launch_forgo_pmix(launch);
        launch->rank.value = spec->rank; /* rank 0 hosts the store */
        st = msi_discover_address(settings, wait, launch);
    }
    if (st == MST_OK) st = msi_discover_missing(launch, spec->rank, spec->world_size);
    if (st != MST_OK) return st;
    if (launch->port.value == 0)
        return msi_fail(MST_ERR_CONFIG,
                        "set the port on which rank 0 listens, or start the program with `muster run`",
                        "MASTER_PORT is 0: the other ranks cannot find the store");
    strcpy(spec->url.address.host, launch->host);
    spec->url.address.port = launch->port.value;
    spec->url.scheme = MSI_SCHEME_TCP;
    return avoid_loopback(settings, launch, &spec->url.address);
}

static void set_url_from(const mst_init_options *options, const struct msi_launch *launch,
                         struct msi_join_spec *spec) {
    bool given = options->init_method || (launch->host_from && !strcmp(launch->host_from, "MASTER_ADDR"));
    spec->advice = given ? NULL : launch->launcher->advice;
    if (options->init_method)
        snprintf(spec->url_from, sizeof spec->url_from, "%.180s", options->init_method);
    else if (launch->launcher->depth < MSI_DEPTH_MPI)
        strcpy(spec->url_from, "MASTER_ADDR and MASTER_PORT");
    else
        snprintf(spec->url_from, sizeof spec->url_from, "%s (address: %s; port: %s)", launch->launcher->title,
                 launch->host_from ? launch->host_from : "none",
                 launch->port.from ? launch->port.from : "none");
}

/* Which process hosts the store, and the job's name in it. */
static void set_run(const mst_init_options *options, const struct msi_launch *launch,
                    struct msi_join_spec *spec) {
    const char *agent = msi_variable("TORCHELASTIC_USE_AGENT_STORE");
    bool tcp = spec->url.scheme == MSI_SCHEME_TCP;
    bool agent_hosts = tcp && !options->init_method && agent && !strcmp(agent, "True");
    const char *run = agent_hosts ? msi_variable("TORCHELASTIC_RUN_ID") : launch->job[0] ? launch->job : NULL;
    /* A store that is given may have the keys of ranks that the launcher has restarted, as the agent's. */
    const char *attempt = agent_hosts || options->store ? msi_variable("TORCHELASTIC_RESTART_COUNT") : NULL;
    spec->hosted = tcp && !agent_hosts;
    snprintf(spec->run, sizeof spec->run, "%.64s.%.16s", run ? run : "job", attempt ? attempt : "0");
}

mst_status msi_discover(const mst_init_options *options, const struct msi_settings *settings,
                        const struct msi_wait *wait, struct msi_join_spec *spec) {
    bool discovery = settings->discovery && !options->no_discovery;
    struct msi_launch launch;
    *spec = (struct msi_join_spec){.rank = -1};
    mst_status st = msi_url_parse(options->init_method ? options->init_method : "env://", &spec->url);
    if (st == MST_OK) st = msi_discover_launch(discovery, settings, &launch);
    if (st == MST_OK) st = read_ranks(options, &launch, spec);
    bool given = options->world_size || spec->url.rank >= 0 || spec->url.world_size >= 0;
    if (st == MST_OK && !given) st = msi_launch_check(discovery, &launch);
    if (st == MST_OK && spec->url.scheme == MSI_SCHEME_ENV && !options->store)
        st = use_env(settings, wait, &launch, spec);
    if (st == MST_OK) st = check_ranks(spec);
    if (st != MST_OK) return st;
    if (spec->url.scheme == MSI_SCHEME_HASH && spec->world_size > 1)
        return msi_fail(MST_ERR_ADDRESS,
                        "open one hash:// store and pass it to every thread's world as .store",
                        "a hash:// store cannot be reached by other processes");
    set_run(options, &launch, spec);
    set_url_from(options, &launch, spec);
    msi_call_rank(spec->rank);
    msi_discover_say(options->verbose, &launch);
    return options->set_env ? msi_discover_set_env(&launch) : MST_OK;
}
