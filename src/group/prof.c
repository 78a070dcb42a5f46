/*
 * prof.c - begins the profile of a world: what is recorded, and on which clock. Ranks exchange this through
 * the store, so that it is in no profile and does not depend on a backend. summary.c collects the profiles.
 */
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "group/world.h"
#include "os/clock.h"
#include "prof/clock/zero.h"
#include "prof/flight/dump.h"
#include "wire/cursor.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ZERO_MS = 5000, OWN_MS = 5000 };

/*
 * Rank 0 publishes when the world formed, on its monotonic and wall clocks, and the port of its clock server.
 * If rank 0 profiles nothing, it has published that when it joined (bootstrap/join.c), so that no rank waits
 * for it. The world begins even without a clock server.
 */
static mst_status publish_zero(struct msi_world *world, const struct msi_settings *settings,
                               struct msi_prof_world_options *o) {
    char text[MSI_CLOCK_ZERO_MAX];
    struct msi_clock_zero zero = {.port = 0};
    if (world->members.host_count > 1 &&
        msi_clock_server_open(world->members.members[0].address, world->size, settings, &o->clock.server,
                              &zero.port) != MST_OK)
        msi_log(prof, WARN,
                "cannot start the clock server, so profiles of other hosts use their wall clocks: %s",
                mst_error());
    o->clock.zero = zero.at = msi_now();
    o->unix_ns = zero.unix_ns = msi_calendar();
    msi_clock_zero_write(text, &zero);
    struct msi_wait wait = {msi_deadline(OWN_MS), NULL};
    return msi_world_put(world, &wait, "prof/zero", msi_cstr(text));
}

/* Has rank 0 another clock? */
static bool is_on_another_host(const struct msi_world *world) {
    return world->members.members[world->rank].host != world->members.members[0].host;
}

/* Compares the clock with that of rank 0's host: first by the wall clocks, later by the clock server. */
static void follow_clock(const struct msi_world *world, int port, const struct msi_settings *settings,
                         struct msi_prof_world_options *o) {
    const struct msi_member *first = &world->members.members[0];
    struct msi_address address = {.port = port};
    if (!is_on_another_host(world)) return;
    o->clock.offset = o->clock.zero + (msi_calendar() - o->unix_ns) - msi_now();
    o->clock.error = MSI_PROF_NO_CLOCK_NS;
    if (port == 0) return;
    snprintf(address.host, sizeof address.host, "%s", first->address);
    if (msi_clock_client_open(&address, settings, &o->clock.client) != MST_OK)
        msi_log(prof, WARN, "cannot ask for the clock of rank 0, so this profile uses the wall clock: %s",
                mst_error());
}

static mst_status read_zero(struct msi_world *world, const struct msi_settings *settings,
                            struct msi_prof_world_options *o) {
    struct msi_buf text = {0};
    struct msi_wait wait = {msi_deadline(ZERO_MS), NULL};
    struct msi_clock_zero zero;
    mst_status st = msi_world_get(world, &wait, "prof/zero", 0, &text);
    bool valid = st == MST_OK && msi_clock_zero_read(msi_buf_str(&text), &zero);
    msi_buf_free(&text);
    o->clock.zero = valid ? zero.at : msi_now();
    o->clock.error = valid ? 0 : MSI_PROF_NO_CLOCK_NS;
    o->unix_ns = valid ? zero.unix_ns : msi_calendar();
    if (valid)
        follow_clock(world, zero.port, settings, o);
    else
        msi_log(prof, WARN,
                "rank 0 has not published the start time of the world, so this profile counts from its own "
                "start%s%s",
                st == MST_OK ? "" : ": ", st == MST_OK ? "" : mst_error());
    return MST_OK;
}

/*
 * MUSTER_PROF and MUSTER_TRACE enable recording. The file of MUSTER_CONFIG says what is recorded; without a
 * file all operations are recorded.
 */
static mst_status configure(const struct msi_settings *settings) {
    struct msi_prof_config config = msi_prof_config_default;
    mst_status st = settings->config[0] ? msi_prof_config_read(settings->config, &config) : MST_OK;
    if (st != MST_OK) return st;
    if (settings->prof || settings->trace[0]) config.enabled = true;
    if (settings->config[0] || config.enabled) msi_recorder_set(&config, false);
    return MST_OK;
}

/* The absolute path of the trace directory, since the program may change its working directory. */
static const char *absolute(const char *directory, char path[PATH_MAX]) {
    char here[PATH_MAX];
    if (!directory[0] || directory[0] == '/' || !getcwd(here, sizeof here)) return directory;
    int n = snprintf(path, PATH_MAX, "%s/%s", here, directory);
    return n < PATH_MAX ? path : directory;
}

mst_status msi_world_begin_prof(struct msi_world *world, const struct msi_settings *settings) {
    const struct msi_member *own = &world->members.members[world->rank];
    char path[PATH_MAX];
    struct msi_prof_world_options o = {
        .id = {.rank = world->rank, .size = world->size, .pid = getpid()},
        .trace = absolute(settings->trace, path),
    };
    msi_copy_text(o.id.host, sizeof o.id.host, own->host_name);
    mst_status st = configure(settings);
    if (st != MST_OK) return st;
    msi_flight_set_world(world, o.trace, &o.id);
    world->prints_profile = settings->prof;
    if (settings->trace[0] || settings->prof)
        st = world->rank ? read_zero(world, settings, &o) : publish_zero(world, settings, &o);
    else if (is_on_another_host(world))
        o.clock.error = MSI_PROF_NO_CLOCK_NS; /* the program may enable profiling later */
    if (st == MST_OK) st = msi_prof_world_begin(&o, &world->prof);
    if (st == MST_OK) return MST_OK;
    msi_clock_client_close(o.clock.client);
    msi_clock_server_close(o.clock.server);
    return st;
}

const struct msi_prof_group *msi_group_recorded(mst_group *group) {
    if (!group->recorded)
        group->recorded = msi_prof_group(group->world->prof, &(struct msi_prof_group){.size = group->size,
                                                                                      .rank = group->rank,
                                                                                      .id = group->id,
                                                                                      .name = group->name,
                                                                                      .ranks = group->ranks});
    return group->recorded;
}
