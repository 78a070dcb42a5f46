/* discover.c - the public calls on the launcher's environment. */
#include "bootstrap/discover.h"
#include "base/error.h"
#include "base/options.h"

#include <string.h>

static const char *text_or_none(const char *text) {
    return text ? text : "";
}

/* The source of rank 0's address. */
static const char *address_source(const struct msi_launch *launch) {
    switch (launch->source) {
    case MSI_ADDRESS_FROM_PMI:
        return "agreed by all ranks through PMI";
    case MSI_ADDRESS_FROM_PMIX:
        return "agreed by all ranks through PMIx";
    case MSI_ADDRESS_FROM_ENV:
        break;
    }
    return text_or_none(launch->host_from);
}

static void show(const struct msi_launch *launch, mst_discovery *found) {
    *found = (mst_discovery){
        .launcher = launch->launcher->name,
        .title = launch->launcher->title,
        .rank = launch->rank.value,
        .world_size = launch->size.value,
        .local_rank = launch->local_rank.value,
        .local_size = launch->local_size.value,
        .master_port = launch->port.value < 0 ? 0 : launch->port.value,
        .rank_from = text_or_none(launch->rank.from),
        .world_size_from = text_or_none(launch->size.from),
        .local_rank_from = text_or_none(launch->local_rank.from),
        .local_size_from = text_or_none(launch->local_size.from),
        .master_addr_from = address_source(launch),
        .master_port_from = text_or_none(launch->port.from),
    };
    if (launch->source == MSI_ADDRESS_FROM_ENV) strcpy(found->master_addr, launch->host);
}

/* Reads and checks the environment. */
static mst_status find(bool discovery, const struct msi_settings *settings, struct msi_launch *launch) {
    mst_status st = msi_discover_launch(discovery, settings, launch);
    if (st == MST_OK) st = msi_launch_check(discovery, launch);
    if (st == MST_OK) msi_discover_alone(launch);
    if (st == MST_OK && (launch->rank.value < 0 || launch->size.value < 0))
        st = msi_discover_missing(launch, launch->rank.value, launch->size.value);
    if (st == MST_OK) msi_call_rank(launch->rank.value);
    return st;
}

mst_status mst_discover_with(mst_discovery *found, const mst_discover_options *given) {
    mst_discover_options options;
    struct msi_settings settings;
    struct msi_launch launch;
    msi_call_rank(-1);
    mst_status st = msi_options_begin("mst_discover", &options, sizeof options, given);
    if (st == MST_OK && !found) st = msi_fail(MST_ERR_INVALID, NULL, "found is NULL");
    if (st == MST_OK) st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = find(settings.discovery && !options.no_discovery, &settings, &launch);
    if (st != MST_OK) return st;
    show(&launch, found);
    if (options.verbose) msi_discover_say(true, &launch);
    return options.set_env ? msi_discover_set_env(&launch) : MST_OK;
}

mst_status mst_mpi_discovery(int port, bool verbose) {
    struct msi_settings settings;
    struct msi_launch launch;
    msi_call_begin("mst_mpi_discovery", NULL, -1);
    if (port < 0 || port > 65535)
        return msi_fail(MST_ERR_INVALID, "0 lets muster choose", "port %d is not from 0 to 65535", port);
    mst_status st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = find(true, &settings, &launch);
    if (st == MST_OK && port) launch.port = (struct msi_launch_value){port, "the caller"};
    struct msi_wait wait = {msi_deadline(settings.init_timeout_ms), NULL};
    if (st == MST_OK) st = msi_discover_address(&settings, &wait, &launch);
    if (st != MST_OK) return st;
    if (launch.size.value == 1 && !launch.host[0]) {
        strcpy(launch.host, "127.0.0.1");
        launch.host_from = "one process alone";
    }
    if (launch.port.value < 0) launch.port = (struct msi_launch_value){MSI_DEFAULT_PORT, "the default"};
    st = msi_discover_missing(&launch, launch.rank.value, launch.size.value);
    if (st != MST_OK) return st;
    if (verbose) msi_discover_say(true, &launch);
    return msi_discover_set_env(&launch);
}

bool mst_in_aml(void) {
    return msi_variable("AZUREML_EXPERIMENT_ID") != NULL;
}

bool mst_in_aws_sm(void) {
    return msi_variable("SM_TRAINING_ENV") != NULL;
}

bool mst_in_dlts(void) {
    return msi_variable("DLTS_JOB_ID") != NULL;
}
