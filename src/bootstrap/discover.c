/* discover.c - which rank of which world this process is. See discover.h. */
#include "bootstrap/discover.h"
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* *value is left alone where the variable is not set. */
static mst_status take_number(const char *name, int least, int most, int *value) {
    const char *text = variable(name);
    if (!text) return MST_OK;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number < least || number > most)
        return msi_fail(MST_ERR_CONFIG, NULL, "%s='%s' is not a whole number from %d to %d", name, text,
                        least, most);
    *value = (int)number;
    return MST_OK;
}

/* Rank and size: from the options, the url's query, the environment, in this order; -1 where nobody says. */
static mst_status take_ranks(const mst_init_options *options, struct msi_place *place) {
    int rank = -1, size = -1;
    mst_status st = take_number("RANK", 0, INT_MAX, &rank);
    if (st == MST_OK) st = take_number("WORLD_SIZE", 1, INT_MAX, &size);
    if (st != MST_OK) return st;
    place->source = rank >= 0 || size >= 0 ? "RANK and WORLD_SIZE" : "nothing is set";
    if (place->url.rank >= 0 || place->url.world_size >= 0) {
        if (place->url.rank >= 0) rank = place->url.rank;
        if (place->url.world_size >= 0) size = place->url.world_size;
        place->source = "the init method";
    }
    if (options->world_size) {
        rank = options->rank;
        size = options->world_size;
        place->source = ".rank and .world_size";
        if (size < 1 || rank < 0 || rank >= size)
            return msi_fail(MST_ERR_CONFIG, "ranks go from 0 to the world size less 1",
                            "rank %d does not fit a world of %d (from %s)", rank, size, place->source);
    }
    place->rank = rank;
    place->world_size = size;
    return MST_OK;
}

static mst_status check_ranks(const struct msi_place *place) {
    if (place->rank < 0 || place->world_size < 0)
        return msi_fail(
            MST_ERR_CONFIG, "set both, start the program with `muster run`, or pass .rank and .world_size",
            "%s known from %s",
            place->rank < 0 ? "the world size but not the rank is" : "the rank but not the world size is",
            place->source);
    if (place->world_size < 1 || place->rank >= place->world_size)
        return msi_fail(MST_ERR_CONFIG, "ranks go from 0 to the world size less 1",
                        "rank %d does not fit a world of %d (from %s)", place->rank, place->world_size,
                        place->source);
    return MST_OK;
}

/* env://: nothing set means one process alone; a part of the variables is an error that lists the rest. */
static mst_status take_env(struct msi_place *place) {
    const char *host = variable("MASTER_ADDR"), *port = variable("MASTER_PORT");
    bool nothing = place->rank < 0 && place->world_size < 0 && !host && !port;
    if (nothing) {
        place->rank = 0;
        place->world_size = 1;
    }
    if (place->world_size == 1 && place->rank <= 0) {
        place->rank = 0;
        place->url.scheme = MSI_SCHEME_HASH;
        return MST_OK;
    }
    char missing[80] = "";
    if (place->rank < 0) strcat(missing, " RANK");
    if (place->world_size < 0) strcat(missing, " WORLD_SIZE");
    if (!host) strcat(missing, " MASTER_ADDR");
    if (!port) strcat(missing, " MASTER_PORT");
    if (missing[0])
        return msi_fail(MST_ERR_CONFIG,
                        "set them, start the program with `muster run`, or give an init method",
                        "env:// needs these variables, which are not set:%s", missing);
    if (strlen(host) >= MSI_HOST_MAX) return msi_fail(MST_ERR_CONFIG, NULL, "MASTER_ADDR is too long");
    strcpy(place->url.address.host, host);
    place->url.scheme = MSI_SCHEME_TCP;
    mst_status st = take_number("MASTER_PORT", 0, 65535, &place->url.address.port);
    if (st == MST_OK && place->url.address.port == 0)
        st = msi_fail(MST_ERR_CONFIG, "port 0 is for whoever can tell others the real one; `muster run` does",
                      "MASTER_PORT is 0: the other ranks could not find the store");
    return st;
}

mst_status msi_discover(const mst_init_options *options, struct msi_place *place) {
    *place = (struct msi_place){.rank = -1};
    mst_status st = msi_url_parse(options->init_method ? options->init_method : "env://", &place->url);
    if (st == MST_OK) st = take_ranks(options, place);
    if (st == MST_OK && place->url.scheme == MSI_SCHEME_ENV && !options->store) st = take_env(place);
    if (st == MST_OK) st = check_ranks(place);
    if (st != MST_OK) return st;
    if (place->url.scheme == MSI_SCHEME_HASH && place->world_size > 1)
        return msi_fail(MST_ERR_ADDRESS,
                        "open one hash:// store and pass it to every thread's world as .store",
                        "hash:// meets nobody outside its handle");
    const char *agent = variable("TORCHELASTIC_USE_AGENT_STORE");
    bool agent_hosts =
        place->url.scheme == MSI_SCHEME_TCP && !options->init_method && agent && !strcmp(agent, "True");
    place->hosted = place->url.scheme == MSI_SCHEME_TCP && !agent_hosts;
    place->met_by = options->init_method ? options->init_method : "MASTER_ADDR and MASTER_PORT";
    const char *run = agent_hosts ? variable("TORCHELASTIC_RUN_ID") : NULL;
    const char *attempt = agent_hosts ? variable("TORCHELASTIC_RESTART_COUNT") : NULL;
    snprintf(place->run, sizeof place->run, "%.64s.%.16s", run ? run : "job", attempt ? attempt : "0");
    msi_call_rank(place->rank);
    return MST_OK;
}
