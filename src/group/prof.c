/*
 * prof.c - profiles of a world: what is recorded when it begins, and on which clock. What ranks tell each other goes through the
 * store, so that it is in no profile and works whatever the groups' engines are. summary.c has what comes of it.
 */
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "group/world.h"
#include "os/clock.h"
#include "prof/clock/fit.h"
#include "prof/flight/dump.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ZERO_MS = 5000, OWN_MS = 5000 };
#define CALENDARS_NS                                                                                         \
    INT64_C(1000000000) /* calendars of hosts that nobody looks after differ by less, mostly */

/*
 * When the world formed: rank 0 says so, in nanoseconds of its clock and of the calendar, and at which port it can be asked for the time.
 * Where it is not traced it has said so when it arrived (bootstrap/join.c), so that nobody waits for it in vain. What keeps it from
 * telling others the time is no reason not to begin.
 */
static mst_status tell_zero(struct msi_world *world, struct msi_prof_who *who) {
    char text[96];
    int port = 0;
    if (world->members.host_count > 1 &&
        msi_clock_server_open(world->members.members[0].address, world->size, &who->keeper, &port) != MST_OK)
        msi_log(prof, WARN,
                "other hosts cannot ask for the time, so that their traces have it by the calendar: %s",
                mst_error());
    who->zero = msi_now();
    who->unix_ns = msi_calendar();
    snprintf(text, sizeof text, "%lld %lld %d", (long long)who->zero, (long long)who->unix_ns, port);
    struct msi_wait wait = {msi_deadline(OWN_MS), NULL};
    return msi_world_put(world, &wait, "prof/zero", msi_cstr(text));
}

/* The clock of another host: by the calendars at first, and as its answers say from then on. */
static void follow(const struct msi_world *world, int port, struct msi_prof_who *who) {
    const struct msi_member *first = &world->members.members[0];
    struct msi_address address = {.port = port};
    if (world->members.members[world->rank].host == first->host) return;
    who->offset = who->zero + (msi_calendar() - who->unix_ns) - msi_now();
    who->error = CALENDARS_NS;
    if (port == 0) return;
    snprintf(address.host, sizeof address.host, "%s", first->address);
    if (msi_clock_client_open(&address, &who->clock_client) != MST_OK)
        msi_log(prof, WARN,
                "the clock of rank 0 is not asked, so that this trace has the time by the calendar: %s",
                mst_error());
}

static mst_status hear_zero(struct msi_world *world, struct msi_prof_who *who) {
    struct msi_buf text = {0};
    struct msi_wait wait = {msi_deadline(ZERO_MS), NULL};
    long long zero = -1, calendar = -1;
    int port = -1;
    mst_status st = msi_world_get(world, &wait, "prof/zero", 0, &text);
    msi_buf_add_u8(&text, 0);
    bool heard = st == MST_OK && !text.failed &&
                 sscanf((const char *)text.data, "%lld %lld %d", &zero, &calendar, &port) == 3 && zero >= 0 &&
                 zero <= MSI_TIME_MOST && calendar >= 0 && calendar <= INT64_MAX / 2 && port >= 0 &&
                 port <= UINT16_MAX;
    msi_buf_free(&text);
    who->zero = heard ? zero : msi_now();
    who->unix_ns = heard ? calendar : msi_calendar();
    if (heard)
        follow(world, port, who);
    else
        msi_log(prof, WARN,
                "rank 0 has not said when the world formed, so this trace has a time of its own%s%s",
                st == MST_OK ? "" : ": ", st == MST_OK ? "" : mst_error());
    return MST_OK;
}

/* MUSTER_PROF and MUSTER_TRACE enable it; what is recorded then is for the file to say, and everything where there is none. */
static mst_status configure(const struct msi_settings *settings) {
    struct msi_prof_config config = msi_prof_config_default;
    mst_status st = settings->config[0] ? msi_prof_config_read(settings->config, &config) : MST_OK;
    if (st != MST_OK) return st;
    if (settings->prof || settings->trace[0]) config.enabled = true;
    if (settings->config[0] || config.enabled) msi_recorder_set(&config, false);
    return MST_OK;
}

enum { HOME_MAX = 4096 };

/* The directory of traces as it is called from anywhere: the program may go to another later. */
static const char *find_home(const char *directory, char path[HOME_MAX]) {
    char here[HOME_MAX];
    if (!directory[0] || directory[0] == '/' || !getcwd(here, sizeof here)) return directory;
    int n = snprintf(path, HOME_MAX, "%s/%s", here, directory);
    return n < HOME_MAX ? path : directory;
}

mst_status msi_world_begin_prof(struct msi_world *world, const struct msi_settings *settings) {
    const struct msi_member *own = &world->members.members[world->rank];
    char home[HOME_MAX];
    struct msi_prof_who who = {.rank = world->rank,
                               .size = world->size,
                               .pid = (int)getpid(),
                               .host = own->host_name,
                               .trace = find_home(settings->trace, home)};
    mst_status st = configure(settings);
    if (st != MST_OK) return st;
    msi_flight_home(world, who.trace, world->rank, world->size, own->host_name);
    world->prints_profile = settings->prof;
    if (settings->trace[0]) st = world->rank ? hear_zero(world, &who) : tell_zero(world, &who);
    if (st == MST_OK) st = msi_prof_world_begin(&who, &world->prof);
    if (st == MST_OK) return MST_OK;
    msi_clock_client_close(who.clock_client);
    msi_clock_server_close(who.keeper);
    return st;
}

static int global_rank(const void *group, int rank) {
    return msi_group_global_rank(group, rank);
}

const struct msi_prof_group *msi_group_recorded(mst_group *group) {
    if (!group->recorded)
        group->recorded = msi_prof_group(group->world->prof, group->id, group->name, group->rank, group->size,
                                         global_rank, group);
    return group->recorded;
}
