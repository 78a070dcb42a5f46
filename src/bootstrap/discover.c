/* discover.c - which rank of which world this process is. See discover.h. */
#include "bootstrap/discover.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/pmi.h"
#include "bootstrap/pmix.h"
#include "os/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void msi_discover_alone(struct msi_launch *launch) {
    static const char why[] = "one process alone";
    if (launch->rank.value >= 0 || launch->size.value >= 0 || launch->host[0] || launch->port.value >= 0)
        return;
    launch->rank = launch->local_rank = (struct msi_found){0, why};
    launch->size = launch->local_size = (struct msi_found){1, why};
}

mst_status msi_discover_launch(bool discovery, const struct msi_settings *settings,
                               struct msi_launch *launch) {
    mst_status st = msi_launch_find(discovery, launch);
    if (st == MST_OK && launch->meet == MSI_MEET_PMIX && launch->host[0] &&
        !msi_pmix_load(settings->pmix_library))
        msi_launch_forgo_pmix(launch);
    return st;
}

/* What rank 0 offers: its own address, unless all ranks know one, and a port if one was asked for. */
static mst_status make_offer(const struct msi_settings *settings, const struct msi_launch *launch,
                             struct msi_address *offer) {
    const char *why;
    char own[64];
    *offer = (struct msi_address){.port = launch->port.value < 0 ? 0 : launch->port.value};
    bool known = launch->host[0] && launch->meet == MSI_MEET_PMI;
    mst_status st = MST_OK;
    if (!known) st = msi_netif_choose(settings->advertise_addr, settings->socket_ifname, NULL, own, &why);
    if (st == MST_OK) strcpy(offer->host, known ? launch->host : own);
    return st;
}

mst_status msi_discover_meet(const struct msi_settings *settings, const struct msi_wait *wait,
                             struct msi_launch *launch) {
    struct msi_address offer, met;
    if (launch->meet == MSI_MEET_TOLD) return MST_OK;
    bool pmix = launch->meet == MSI_MEET_PMIX;
    struct msi_pmix_ask ask = {.rank = launch->rank.value,
                               .size = launch->size.value,
                               .library = settings->pmix_library,
                               .advice = launch->launcher->advice};
    mst_status st = make_offer(settings, launch, &offer);
    if (st == MST_OK)
        st = pmix ? msi_pmix_meet(&ask, &offer, wait, &met) : msi_pmi_meet(ask.rank, &offer, wait, &met);
    if (st != MST_OK) return st;
    const char *from = pmix ? "rank 0, through PMIx" : "rank 0, through PMI";
    strcpy(launch->host, met.host);
    launch->host_from = from;
    launch->port = (struct msi_found){met.port, launch->port.value < 0 ? from : launch->port.from};
    launch->meet = MSI_MEET_TOLD;
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
    /* What AzureML's images need, unless somebody knows better. */
    if (!strcmp(launch->launcher->name, "azureml")) failed |= setenv("NCCL_SOCKET_IFNAME", "^docker0,lo", 0);
    return failed ? msi_fail_memory() : MST_OK;
}

static mst_status say_misfit(const struct msi_place *place) {
    return msi_fail(MST_ERR_CONFIG, "ranks go from 0 to the world size less 1",
                    "rank %d does not fit a world of %d (from %s)", place->rank, place->world_size,
                    place->source);
}

/* Rank and size: from the options, the url's query, the environment, in this order; -1 where nobody says. */
static mst_status take_ranks(const mst_init_options *options, const struct msi_launch *launch,
                             struct msi_place *place) {
    place->rank = launch->rank.value;
    place->world_size = launch->size.value;
    place->source = launch->launcher->title;
    if (place->url.rank >= 0 || place->url.world_size >= 0) {
        if (place->url.rank >= 0) place->rank = place->url.rank;
        if (place->url.world_size >= 0) place->world_size = place->url.world_size;
        place->source = "the init method";
    }
    if (options->world_size) {
        place->rank = options->rank;
        place->world_size = options->world_size;
        place->source = ".rank and .world_size";
        if (place->world_size < 1 || place->rank < 0 || place->rank >= place->world_size)
            return say_misfit(place);
    }
    return MST_OK;
}

static mst_status check_ranks(const struct msi_place *place) {
    if (place->rank < 0 || place->world_size < 0)
        return msi_fail(
            MST_ERR_CONFIG, "set both, start the program with `muster run`, or pass .rank and .world_size",
            "%s known from %s",
            place->rank < 0 ? "the world size but not the rank is" : "the rank but not the world size is",
            place->source);
    return place->rank >= place->world_size ? say_misfit(place) : MST_OK;
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
    return msi_fail(
        MST_ERR_CONFIG, row->advice && !launch->host[0] ? row->advice : "set them for all ranks",
        "%s started this program (%s=%d), but what it says does not stand in for these variables, "
        "which are not set:%s",
        row->title, launch->rank.from, launch->rank.value, missing);
}

/*
 * A host's own name often stands for loopback in its /etc/hosts, where the ranks of other hosts cannot come: there
 * rank 0 listens at the address that others would use.
 */
static mst_status open_up(const struct msi_settings *settings, const struct msi_launch *launch,
                          struct msi_address *address) {
    const char *why;
    char own[64];
    bool several = launch->local_size.value > 0 && launch->local_size.value < launch->size.value;
    if (launch->rank.value != 0 || !several || !msi_shm_is_hidden(address->host)) return MST_OK;
    mst_status st = msi_netif_choose("", settings->socket_ifname, NULL, own, &why);
    if (st != MST_OK) return st;
    msi_log(bootstrap, INFO, "%s is loopback here and ranks are on other hosts: listening on %s (%s)",
            address->host, own, why);
    strcpy(address->host, own);
    return MST_OK;
}

/* env://: nothing set means one process alone; a part of what is needed is an error that lists the rest. */
static mst_status take_env(const struct msi_settings *settings, const struct msi_wait *wait,
                           struct msi_launch *launch, struct msi_place *place) {
    msi_discover_alone(launch);
    if (place->rank < 0 && place->world_size < 0) {
        place->rank = launch->rank.value;
        place->world_size = launch->size.value;
    }
    if (place->world_size == 1 && place->rank <= 0) {
        place->rank = 0;
        place->url.scheme = MSI_SCHEME_HASH;
        return MST_OK;
    }
    mst_status st = MST_OK;
    if (place->rank >= 0 && place->world_size > 0) {
        /* A world that the caller has made of some of the ranks, or in another order, is not PMIx's. */
        if (place->rank != launch->rank.value || place->world_size != launch->size.value)
            msi_launch_forgo_pmix(launch);
        launch->rank.value = place->rank; /* whoever is rank 0 hosts the store */
        st = msi_discover_meet(settings, wait, launch);
    }
    if (st == MST_OK) st = msi_discover_missing(launch, place->rank, place->world_size);
    if (st != MST_OK) return st;
    if (launch->port.value == 0)
        return msi_fail(MST_ERR_CONFIG,
                        "port 0 is for whoever can tell others the real one; `muster run` does",
                        "MASTER_PORT is 0: the other ranks could not find the store");
    strcpy(place->url.address.host, launch->host);
    place->url.address.port = launch->port.value;
    place->url.scheme = MSI_SCHEME_TCP;
    return open_up(settings, launch, &place->url.address);
}

static void say_met_by(const mst_init_options *options, const struct msi_launch *launch,
                       struct msi_place *place) {
    bool told = options->init_method || (launch->host_from && !strcmp(launch->host_from, "MASTER_ADDR"));
    place->advice = told ? NULL : launch->launcher->advice;
    if (options->init_method)
        snprintf(place->met_by, sizeof place->met_by, "%.180s", options->init_method);
    else if (launch->launcher->depth < MSI_DEPTH_MPI)
        strcpy(place->met_by, "MASTER_ADDR and MASTER_PORT");
    else
        snprintf(place->met_by, sizeof place->met_by, "%s (address: %s; port: %s)", launch->launcher->title,
                 launch->host_from ? launch->host_from : "none",
                 launch->port.from ? launch->port.from : "none");
}

/* Who hosts the store, and under which name the job meets there. */
static void take_run(const mst_init_options *options, const struct msi_launch *launch,
                     struct msi_place *place) {
    const char *agent = msi_variable("TORCHELASTIC_USE_AGENT_STORE");
    bool tcp = place->url.scheme == MSI_SCHEME_TCP;
    bool agent_hosts = tcp && !options->init_method && agent && !strcmp(agent, "True");
    const char *run = agent_hosts ? msi_variable("TORCHELASTIC_RUN_ID") : launch->job[0] ? launch->job : NULL;
    const char *attempt = agent_hosts ? msi_variable("TORCHELASTIC_RESTART_COUNT") : NULL;
    place->hosted = tcp && !agent_hosts;
    snprintf(place->run, sizeof place->run, "%.64s.%.16s", run ? run : "job", attempt ? attempt : "0");
}

mst_status msi_discover(const mst_init_options *options, const struct msi_settings *settings,
                        const struct msi_wait *wait, struct msi_place *place) {
    bool discovery = settings->discovery && !options->no_discovery;
    struct msi_launch launch;
    *place = (struct msi_place){.rank = -1};
    mst_status st = msi_url_parse(options->init_method ? options->init_method : "env://", &place->url);
    if (st == MST_OK) st = msi_discover_launch(discovery, settings, &launch);
    if (st == MST_OK) st = take_ranks(options, &launch, place);
    bool told = options->world_size || place->url.rank >= 0 || place->url.world_size >= 0;
    if (st == MST_OK && !told) st = msi_launch_check(discovery, &launch);
    if (st == MST_OK && place->url.scheme == MSI_SCHEME_ENV && !options->store)
        st = take_env(settings, wait, &launch, place);
    if (st == MST_OK) st = check_ranks(place);
    if (st != MST_OK) return st;
    if (place->url.scheme == MSI_SCHEME_HASH && place->world_size > 1)
        return msi_fail(MST_ERR_ADDRESS,
                        "open one hash:// store and pass it to every thread's world as .store",
                        "hash:// meets nobody outside its handle");
    take_run(options, &launch, place);
    say_met_by(options, &launch, place);
    msi_call_rank(place->rank);
    msi_discover_say(options->verbose, &launch);
    return options->set_env ? msi_discover_set_env(&launch) : MST_OK;
}
