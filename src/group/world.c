/* world.c - opening and closing a world. See world.h. */
#include "group/world.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "bootstrap/admission.h"
#include "engine/module/compose.h"
#include "os/host.h"
#include "os/spare_fds.h"
#include "prof/flight/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { REOPEN_MS = 1000, REPORT_MS = 2000 };

/* Rank 0 cannot host the store at its address: adds where the address comes from and how to change it. */
static mst_status fail_to_host(mst_status st, const struct msi_join_spec *spec) {
    const mst_error_info *why = mst_last_error();
    char what[400], remedy[400];
    snprintf(what, sizeof what, "%s", why->message);
    if (st == MST_ERR_PORT_TAKEN)
        snprintf(remedy, sizeof remedy,
                 "set MASTER_PORT or the init method to another port for all ranks, or start them with "
                 "`muster run`, which finds a free one");
    else
        snprintf(remedy, sizeof remedy, "%s", spec->advice ? spec->advice : why->remedy);
    return msi_fail(st, remedy, "%s; rank 0 must host the store there because of %s", what, spec->url_from);
}

/* Opens the store: the given one, or that of the url. */
static mst_status open_store(struct msi_world *world, const mst_init_options *options,
                             const struct msi_join_spec *spec, const struct msi_settings *settings,
                             const struct msi_wait *wait) {
    mst_store_options store_options = {.size = sizeof store_options,
                                       .is_master = spec->hosted && spec->rank == 0};
    struct msi_slow slow = msi_slow_begin(settings->slow_s, msi_now());
    struct msi_wait part = msi_slow_part(&slow, wait);
    char host[MSI_ADDRESS_TEXT_MAX + 40];
    mst_status st;
    if (options->store) {
        if (!msi_store_is_live(options->store))
            return msi_fail(MST_ERR_STATE, "open it with mst_store_open",
                            ".store does not exist: it was freed, or the handle is invalid");
        world->store = options->store;
        return MST_OK;
    }
    if (spec->url.scheme == MSI_SCHEME_FILE)
        st = msi_store_open_file(spec->url.path, true, settings, wait, &world->store);
    else
        st = msi_store_open(&spec->url, settings, &part, &store_options, &world->store);
    if (st == MST_ERR_UNREACHABLE && msi_slow_is_due(&slow, wait->deadline)) {
        snprintf(host, sizeof host, "%sthe store at %s", spec->hosted ? "rank 0, which hosts " : "",
                 world->where);
        msi_slow_write(&slow, wait->deadline, NULL, NULL, host);
        st = msi_store_open(&spec->url, settings, wait, &store_options, &world->store);
    }
    bool mine = store_options.is_master;
    if (mine && (st == MST_ERR_PORT_TAKEN || st == MST_ERR_ADDRESS)) st = fail_to_host(st, spec);
    world->owns_store = st == MST_OK;
    return st;
}

/*
 * The store that rank 0 hosted was lost while this rank was joining. Rank 0 may have left an earlier world
 * with that store and may open the next one. After an orderly end this rank waits until the deadline, after a
 * loss for REOPEN_MS.
 */
static mst_status reopen_store(struct msi_world *world, const mst_init_options *options,
                               const struct msi_join_spec *spec, const struct msi_settings *settings,
                               const struct msi_wait *wait, mst_status why) {
    struct msi_wait again = *wait;
    int64_t moment = msi_deadline(REOPEN_MS);
    if (why == MST_ERR_STORE_LOST && moment < again.deadline) again.deadline = moment;
    msi_store_free(world->store);
    world->owns_store = false;
    mst_status st = open_store(world, options, spec, settings, &again);
    if (st != MST_ERR_UNREACHABLE || why != MST_ERR_STORE_LOST) return st;
    return msi_blame(
        msi_fail(why, "look at rank 0's own output",
                 "rank 0%s%s%s died or left while the world was forming; it hosted the store at %s",
                 *spec->rank_0 ? " (" : "", spec->rank_0, *spec->rank_0 ? ")" : "", world->where),
        0);
}

static void release(struct msi_world *world) {
    msi_prof_world_end(world->prof);
    msi_flight_clear_world(world);
    msi_endpoint_close(&world->endpoint);
    msi_team_free(world->team);
    msi_members_free(&world->members);
    if (world->owns_store) msi_store_free(world->store);
    msi_spare_fds_drop();
    msi_world_forget_cause(world);
    pthread_mutex_destroy(&world->cause_lock);
    pthread_mutex_destroy(&world->votes_lock);
    pthread_mutex_destroy(&world->standby_lock);
    pthread_mutex_destroy(&world->lock);
    free(world->counts);
    free(world->lost_ranks);
    msi_summed_free(world->summed);
    free(world);
}

/* Does this process join a world that runs already? */
static bool joins(const mst_init_options *options, const struct msi_settings *settings) {
    return options->join || settings->join;
}

/* Takes the values of the options, the environment and the launcher. */
static mst_status configure(struct msi_world *world, const mst_init_options *options,
                            const struct msi_settings *settings, const struct msi_wait *wait) {
    mst_init_options as = *options;
    if (joins(options, settings) && !as.world_size) as.rank = 1, as.world_size = 2; /* it hosts no store */
    mst_status st = msi_discover(&as, settings, wait, &world->spec);
    if (st != MST_OK) return st;
    const struct msi_url *url = &world->spec.url;
    snprintf(world->lineage, sizeof world->lineage, "%s", world->spec.run);
    world->hosted = world->spec.hosted && !options->store;
    if (url->scheme == MSI_SCHEME_TCP)
        msi_address_format(&url->address, world->where);
    else
        snprintf(world->where, sizeof world->where, "%.*s", MSI_HOST_MAX, url->path);
    world->timeout_ms = options->timeout_ms ? options->timeout_ms : (int)settings->timeout_ms;
    return MST_OK;
}

/* Sets this rank's number, and what depends on it. */
static mst_status number_rank(struct msi_world *world, const struct msi_settings *settings) {
    world->rank = world->spec.rank;
    world->size = world->spec.world_size;
    msi_call_rank(world->rank);
    world->forks = msi_forks();
    world->linger_ms = settings->store_linger_ms;
    world->slow_s = settings->slow_s;
    world->spin_us = settings->spin_us;
    world->cma = (enum msi_copy_mode)settings->cma;
    world->nt_stores = (enum msi_copy_mode)settings->nt_stores;
    world->streams = (int)settings->tcp_streams;
    world->spec.rank_0 = world->rank_0;
    msi_random(&world->spec.nonce, sizeof world->spec.nonce);
    world->lost_ranks = calloc((size_t)world->size, sizeof *world->lost_ranks);
    return world->lost_ranks ? MST_OK : msi_fail_memory();
}

static mst_status join(struct msi_world *world, const struct msi_settings *settings,
                       const struct msi_wait *wait) {
    return msi_join(world->store, &world->spec, settings, wait, world->prefix, &world->members);
}

/* Waits until the ranks of the running world admit this process. Repeats that if one of them dies. */
static mst_status join_running(struct msi_world *world, const struct msi_settings *settings,
                               const struct msi_wait *wait) {
    for (;;) {
        struct msi_admission given;
        mst_status st = msi_admission_wait(world->store, world->lineage, wait, &given);
        if (st != MST_OK) return st;
        world->spec.rank = given.rank;
        world->spec.world_size = given.size;
        world->first_old = given.first_old;
        msi_world_set_store_ranks(world, -1, -1); /* not known yet */
        msi_continued_run(world->spec.run, world->lineage, given.epoch);
        free(world->lost_ranks);
        st = number_rank(world, settings);
        if (st == MST_OK) st = join(world, settings, wait);
        if (st != MST_ERR_PEER_LOST) return st;
    }
}

static mst_status set_up(struct msi_world *world, const mst_init_options *options,
                         const struct msi_settings *settings, const char *backend) {
    int64_t join_ms = options->timeout_ms ? options->timeout_ms : settings->init_timeout_ms;
    struct msi_wait wait = {msi_deadline(join_ms), options->cancel};
    mst_status st = configure(world, options, settings, &wait);
    if (st == MST_OK) st = number_rank(world, settings);
    if (st != MST_OK) return st;
    world->spec.backend = backend;
    msi_rank_state_world(world->rank, world->size);
    st = open_store(world, options, &world->spec, settings, &wait);
    if (st != MST_OK && msi_spare_fds_use()) st = open_store(world, options, &world->spec, settings, &wait);
    if (st == MST_OK && joins(options, settings)) return join_running(world, settings, &wait);
    while (st == MST_OK) {
        st = join(world, settings, &wait);
        if (st != MST_ERR_STORE_LOST && st != MST_ERR_STORE_ENDED) break;
        if (!world->hosted || world->rank == 0) break;
        st = reopen_store(world, options, &world->spec, settings, &wait, st);
        if (st == MST_OK) continue;
        break;
    }
    return st;
}

/* The same for a world that continues another one, with a store connection of its own. */
static mst_status set_up_again(struct msi_world *world, const struct msi_world *previous,
                               const struct msi_place *place, const struct msi_settings *settings,
                               const char *backend, const struct msi_wait *wait) {
    world->spec = previous->spec;
    world->spec.backend = backend;
    world->spec.check = place->check;
    world->spec.check_context = place->context;
    world->spec.rank = place->rank;
    world->spec.world_size = place->size;
    snprintf(world->spec.run, sizeof world->spec.run, "%s", place->run);
    snprintf(world->lineage, sizeof world->lineage, "%s", previous->lineage);
    snprintf(world->where, sizeof world->where, "%s", previous->where);
    world->first_old = place->first_old;
    msi_world_set_store_ranks(world, place->store_ranks[0], place->store_ranks[1]);
    world->hosted = previous->hosted;
    world->timeout_ms = msi_group_timeout(previous->all);
    mst_status st = number_rank(world, settings);
    if (st == MST_OK) st = previous->store->ops->clone(previous->store, settings, wait, &world->store);
    world->owns_store = st == MST_OK;
    return st == MST_OK ? join(world, settings, wait) : st;
}

/* The world's backends, from the options or the environment. */
static mst_status choose_backends(struct msi_world *world, const mst_init_options *options,
                                  const struct msi_settings *settings, struct msi_backends *backends) {
    snprintf(world->backend_path, sizeof world->backend_path, "%s", settings->backend_path);
    world->stage = settings->stage;
    world->check = settings->check;
    mst_status st = msi_kinds_parse(settings->force_fallback, &world->forced);
    if (st != MST_OK) return st;
    const char *device = options->comm_device,
               *wanted = options->backend ? options->backend : settings->backend;
    if (device && strcmp(device, "cpu") != 0 && strcmp(device, "gpu") != 0)
        return msi_fail(MST_ERR_INVALID, "give \"cpu\" or \"gpu\"", ".comm_device is '%.60s'", device);
    if (device && options->backend)
        return msi_fail(MST_ERR_INVALID, "give one of them", "both .comm_device and .backend are given");
    if (device) wanted = !strcmp(device, "gpu") ? "nccl" : "native";
    return msi_backends_parse(wanted, world->backend_path, backends);
}

mst_status msi_world_open_engine(struct msi_world *world, int64_t timeout_ms, mst_cancel *cancel) {
    const mst_backend *table = world->all->backends.of[MST_MEMORY_HOST];
    struct msi_comm *comm;
    mst_memory memory;
    if (!table || !table->world_first) return MST_OK;
    mst_status st = msi_group_comm(world->all, NULL, &comm, &memory);
    return st == MST_OK ? msi_comm_open(comm, (int)timeout_ms, cancel) : st;
}

/* How a world is opened: by options, or as the continuation of another one. */
struct opening {
    const mst_init_options *options;
    struct msi_world *previous; /* NULL: none */
    const struct msi_place *place;
    const struct msi_wait *wait; /* of the continuation */
};

/* The others have this rank as a member, but it has failed: tells them that it leaves. */
static void leave_early(struct msi_world *world, mst_status status) {
    struct msi_saved_error error;
    msi_error_save(&error, status);
    if (world->linger_ms > REPORT_MS) world->linger_ms = REPORT_MS;
    msi_world_leave(world, true);
    msi_error_restore(&error);
}

/* Without memory for it the rank has one thread. */
static void make_team(struct msi_world *world, const struct msi_settings *settings) {
    const struct msi_members *members = &world->members;
    int local = members->local_sizes[members->members[world->rank].host], threads = (int)settings->threads;
    world->team = msi_team_new(threads ? threads : msi_team_share(local), threads != 0);
}

/* Joins the ranks, and sets up what needs the members. */
static mst_status form_world(struct msi_world *world, const struct opening *how,
                             const struct msi_settings *settings, struct msi_backends *backends) {
    mst_status st = msi_algo_parse(settings->algo, &world->tuning.algo);
    world->tuning.model = msi_model_default;
    if (st == MST_OK && settings->model[0]) st = msi_model_read(settings->model, &world->tuning.model);
    if (st == MST_OK) st = choose_backends(world, how->options, settings, backends);
    if (st == MST_OK)
        st = how->previous
                 ? set_up_again(world, how->previous, how->place, settings, backends->text, how->wait)
                 : set_up(world, how->options, settings, backends->text);
    if (st != MST_OK) return st;
    st = msi_endpoint_init(&world->endpoint, world->rank, world->size, world->prefix,
                           world->members.members[world->rank].address, msi_tuning_hash(&world->tuning));
    world->endpoint.memory.limit = (size_t)settings->shm_bytes;
    if (st == MST_OK) st = msi_auth_init(&world->endpoint.auth, settings);
    if (st == MST_OK) make_team(world, settings);
    if (st == MST_OK) msi_world_copy_store(world, how->previous, settings);
    if (st == MST_OK) st = msi_world_begin_prof(world, settings);
    if (st != MST_OK) leave_early(world, st);
    return st;
}

/* Makes the group of all ranks. */
static mst_status make_all(struct msi_world *world, const struct opening *how,
                           const struct msi_settings *settings, const struct msi_backends *backends) {
    mst_group_options all = {.name = "world"};
    struct msi_group_spec spec = {.n = world->size, .backends = backends, .options = &all};
    int64_t timeout_ms = how->options->timeout_ms ? how->options->timeout_ms : settings->init_timeout_ms;
    mst_status st = msi_group_new(world, &spec, &world->all);
    if (st == MST_OK) st = msi_world_open_engine(world, timeout_ms, how->options->cancel);
    if (st != MST_OK && world->all) {
        msi_group_leave(world->all);
        msi_group_free(world->all);
    }
    if (st != MST_OK) leave_early(world, st);
    return st;
}

static mst_status open_world(const struct opening *how, mst_group **group) {
    struct msi_settings settings;
    struct msi_backends backends;
    mst_status st = msi_settings_load(&settings, NULL);
    if (st != MST_OK) return st;
    if (how->options->tls) settings.tls = 1;
    if (!msi_rank_state_on() && getenv(MSI_RANK_STATE_VARIABLE))
        msi_log(group, DEBUG,
                MSI_RANK_STATE_VARIABLE " names no rank state; calls are not reported to the launcher");
    if (settings.flight) msi_flight_open();
    struct msi_world *world = calloc(1, sizeof *world);
    if (!world) return msi_fail_memory();
    pthread_mutex_init(&world->votes_lock, NULL);
    pthread_mutex_init(&world->standby_lock, NULL);
    msi_list_init(&world->votes);
    pthread_mutex_init(&world->lock, NULL);
    msi_list_init(&world->groups);
    msi_world_set_store_ranks(world, 0, -1);
    world->cause = -1;
    pthread_mutex_init(&world->cause_lock, NULL);
    msi_spare_fds_hold();
    st = form_world(world, how, &settings, &backends);
    if (st == MST_OK) st = make_all(world, how, &settings, &backends);
    if (st != MST_OK) {
        /* Gives the others time to read the failure. */
        if (world->owns_store) world->store->linger_ms = REPORT_MS;
        release(world);
        return st;
    }
    msi_log(group, INFO, "world of %d formed on %d host%s", world->size, world->members.host_count,
            world->members.host_count == 1 ? "" : "s");
    msi_group_recorded(world->all); /* the first of all groups */
    *group = world->all;
    return MST_OK;
}

mst_status msi_world_open(const mst_init_options *options, mst_group **group) {
    msi_rank_state_open();
    if (msi_rank_state_on()) msi_sink_set(MSI_SINK_RANK_STATE, true);
    msi_rank_phase(MSI_RANK_STATE_JOINING);
    uint64_t entered = msi_call_enter(0, 0, 0);
    mst_status st = open_world(&(struct opening){.options = options}, group);
    msi_rank_phase(st == MST_OK ? MSI_RANK_STATE_JOINED : MSI_RANK_STATE_REFUSED);
    return msi_call_leave(entered, st);
}

enum { LEFT = 1 }; /* a leave_by in the past */

/* While the world is being closed, a store that does not answer delays it once. */
static mst_status exec(struct msi_world *world, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    /* Relaxed, as below: the time orders nothing. */
    int64_t leave_by = atomic_load_explicit(&world->leave_by, memory_order_relaxed);
    struct msi_wait limited = *wait;
    if (!leave_by) return msi_store_exec(world->store, wait, x, n);
    if (leave_by < limited.deadline) limited.deadline = leave_by;
    mst_status st = msi_now() < leave_by ? msi_store_exec(world->store, &limited, x, n) : MST_ERR_TIMEOUT;
    bool silent = st == MST_ERR_TIMEOUT && !msi_ops[x[n - 1].req.op].waits;
    if (silent) atomic_store_explicit(&world->leave_by, LEFT, memory_order_relaxed);
    return st;
}

mst_status msi_world_fail_store(struct msi_world *world) {
    const mst_status st = MST_ERR_STORE_LOST;
    bool silent = msi_world_store_is_silent(world);
    if (msi_world_store_host(world) < 0)
        return msi_fail(st, "find out why it ended, then open the world again",
                        "the store of this world at %s is lost%s", world->where,
                        silent ? ": its host does not answer" : "");
    int rank = msi_world_store_host(world), cause = msi_world_noted_cause(world, rank);
    const struct msi_member *host = &world->members.members[rank], *other = &world->members.members[cause];
    if (cause != rank)
        msi_fail(st, "look at the output of those ranks, then open the world again",
                 "rank %d (host %s, pid %d) ended because of rank %d (host %s, pid %d); it hosted the store "
                 "of this world",
                 rank, host->host_name, host->pid, cause, other->host_name, other->pid);
    else if (silent)
        msi_fail(st, "check that host and the network, then open the world again",
                 "rank %d (host %s, pid %d) is lost with the store of this world: its host does not answer",
                 rank, host->host_name, host->pid);
    else
        msi_fail(st, "look at that rank's own output, then open the world again",
                 "rank %d (host %s, pid %d) died or left; it hosted the store of this world", rank,
                 host->host_name, host->pid);
    return msi_blame(st, cause);
}

/* The store has not answered in time: its host may be stopped. */
static mst_status say_silent(const struct msi_world *world) {
    int rank = msi_world_store_host(world);
    if (rank < 0 || rank == world->rank) return MST_ERR_TIMEOUT;
    const struct msi_member *host = &world->members.members[rank];
    mst_status st = msi_fail(MST_ERR_TIMEOUT, "find out where that rank is, or raise .timeout_ms",
                             "rank %d (host %s, pid %d), which hosts the store, does not answer", rank,
                             host->host_name, host->pid);
    return msi_blame(st, rank);
}

mst_status msi_world_exec(struct msi_world *world, const struct msi_wait *wait, struct msi_store_rpc *x,
                          size_t n) {
    mst_status st = MST_ERR_STORE_LOST;
    if (!atomic_load_explicit(&world->cut_off, memory_order_relaxed)) st = exec(world, wait, x, n);
    if (st == MST_ERR_UNREACHABLE)
        return msi_world_fail_store(world); /* a request needed one more connection */
    if (st == MST_ERR_TIMEOUT && !msi_ops[x[n - 1].req.op].waits) return say_silent(world);
    if (st != MST_ERR_STORE_LOST && st != MST_ERR_STORE_ENDED) return st;
    atomic_store_explicit(&world->cut_off, true, memory_order_relaxed);
    return msi_world_fail_store(world);
}

static void set_leave_by(struct msi_world *world, int64_t ms) {
    atomic_store_explicit(&world->leave_by, msi_deadline(ms), memory_order_relaxed);
}

/* ends: the store may end with this world. */
static void close_world(struct msi_world *world, msi_printer print, bool ends) {
    int64_t timeout_ms = msi_group_timeout(world->all);
    if (timeout_ms < world->linger_ms) world->linger_ms = timeout_ms;
    set_leave_by(world, world->linger_ms > REPORT_MS ? world->linger_ms : REPORT_MS);
    while (!msi_list_empty(&world->groups)) {
        mst_group *group = msi_container(world->groups.next, mst_group, node);
        msi_group_leave(group);
        msi_group_free(group);
    }
    msi_world_print_profile(world, print);
    /* The report that this rank leaves is sent in any case: it counts as soon as the store runs again. */
    if (atomic_load_explicit(&world->leave_by, memory_order_relaxed) < msi_deadline(REPORT_MS))
        set_leave_by(world, REPORT_MS);
    msi_world_leave(world, ends);
    release(world);
}

/* Callbacks may make groups meanwhile; nothing destroys one. */
static const struct msi_list *next_group(struct msi_world *world, const struct msi_list *at) {
    pthread_mutex_lock(&world->lock);
    const struct msi_list *next = at->next;
    pthread_mutex_unlock(&world->lock);
    return next == &world->groups ? NULL : next;
}

void msi_world_drain_callbacks(struct msi_world *world) {
    bool any = true; /* a callback may have set others in a group that was looked at before it */
    while (any) {
        any = false;
        for (const struct msi_list *at = &world->groups; (at = next_group(world, at));)
            any |= msi_group_drain_callbacks(msi_container(at, mst_group, node));
    }
}

void msi_world_close(struct msi_world *world, msi_printer print) {
    while (world) {
        struct msi_world *previous = world->previous;
        close_world(world, print, true);
        world = previous;
    }
    msi_rank_phase(MSI_RANK_STATE_LEFT);
}

/* Does nobody need the world any more, although a later one continues it? Its store may have a server. */
static bool is_spent(struct msi_world *world) {
    bool hosts = world->owns_store && msi_store_hosts(world->store);
    return !hosts && msi_world_count_groups(world) == 1;
}

/* Closes the worlds before the last one that have no groups left but that of all their ranks. */
static void close_spent(struct msi_world **previous) {
    while (*previous) {
        struct msi_world *world = *previous;
        if (!is_spent(world)) {
            previous = &world->previous;
            continue;
        }
        *previous = world->previous;
        close_world(world, NULL, false); /* a later world uses the store */
    }
}

mst_status msi_world_continue(struct msi_world *previous, const struct msi_place *place,
                              const struct msi_wait *wait, mst_group **group) {
    mst_init_options options = {.size = sizeof options,
                                .backend = previous->all->backends.text,
                                .tls = previous->endpoint.auth.tls != NULL,
                                .timeout_ms = (int)msi_ms_until(wait->deadline),
                                .cancel = wait->cancel};
    mst_status st = open_world(&(struct opening){&options, previous, place, wait}, group);
    if (st != MST_OK) return st;
    previous->prints_profile = false;
    previous->continued = true;
    (*group)->world->previous = previous;
    /* Not the previous one: calls of other threads on it may be about to return. */
    close_spent(&previous->previous);
    return MST_OK;
}
