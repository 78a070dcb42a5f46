/*
 * cause.c - why a rank ends, or does not come. A rank whose last call has failed because of another rank says
 * so: if it ends, the others blame that one. A rank that waits for long says for which rank: others that wait
 * for it in another group blame that one at their deadline. The next call that succeeds takes it back.
 *
 * Key of the world: cause/R, the rank because of which the last call of rank R has failed, or for which it
 * waits, followed by " waits" then. Ranks of its host also read it in the shared regions (struct msi_area),
 * which outlive the store.
 */
#include "base/error.h"
#include "bootstrap/report.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOPS_MOST = 8, STORE_MS = 200 };

/* Worlds of this process whose rank has told a cause: calls go through the slow path, which takes it back. */
static int telling;
static pthread_mutex_t telling_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_telling(int more) {
    pthread_mutex_lock(&telling_lock);
    telling += more;
    msi_sink_set(MSI_SINK_CAUSE, telling > 0);
    pthread_mutex_unlock(&telling_lock);
}

/* Under world->cause_lock. */
static void set_cause(struct msi_world *world, int cause, bool waits) {
    if ((world->cause < 0) != (cause < 0)) count_telling(cause < 0 ? -1 : 1);
    atomic_store_explicit(&world->cause, cause, memory_order_relaxed); /* orders nothing */
    world->cause_waits = waits;
    world->cause_stored = false;
    msi_endpoint_tell_cause(&world->endpoint, msi_cause_word(cause, waits));
}

static const char *key_of(int rank, char out[32]) {
    snprintf(out, 32, "cause/%d", rank);
    return out;
}

static void tell(struct msi_world *world, int cause, bool waits, const struct msi_wait *wait) {
    char name[32], text[24];
    if (cause < 0 || cause >= world->size || cause == world->rank) return;
    pthread_mutex_lock(&world->cause_lock);
    if (cause != world->cause || waits != world->cause_waits) set_cause(world, cause, waits);
    if (!world->cause_stored && wait) {
        snprintf(text, sizeof text, "%d%s", cause, waits ? " waits" : "");
        world->cause_stored = msi_world_put(world, wait, key_of(world->rank, name), msi_cstr(text)) == MST_OK;
    }
    pthread_mutex_unlock(&world->cause_lock);
}

/* A custom store does not report that a rank has died: this rank does not wait for that one at its end. */
static void note_failed(struct msi_world *world, int rank) {
    if (rank < 0 || rank >= world->size || !msi_store_is_custom(msi_store_base(world->store))) return;
    pthread_mutex_lock(&world->lock);
    world->lost_ranks[rank].failed = true;
    pthread_mutex_unlock(&world->lock);
}

void msi_world_tell_cause(struct msi_world *world, mst_status status, const struct msi_wait *wait) {
    struct msi_saved_error error;
    if (status != MST_ERR_PEER_LOST && status != MST_ERR_STALLED) return;
    msi_error_save(&error, status);
    if (status == MST_ERR_PEER_LOST) note_failed(world, error.culprit);
    tell(world, error.culprit, false, wait);
    msi_error_restore(&error);
}

void msi_world_tell_wait(struct msi_world *world, int rank, const struct msi_wait *wait) {
    tell(world, rank, true, wait);
}

void msi_world_take_cause_back(struct msi_world *world) {
    struct msi_wait wait = {msi_deadline(STORE_MS), NULL};
    char name[32];
    if (msi_world_cause(world) < 0) return;
    pthread_mutex_lock(&world->cause_lock);
    bool told = world->cause >= 0;
    if (told) set_cause(world, -1, false);
    if (told) msi_world_delete(world, &wait, key_of(world->rank, name));
    pthread_mutex_unlock(&world->cause_lock);
}

mst_status msi_group_told(mst_group *group, mst_status status) {
    struct msi_wait wait = {msi_deadline(STORE_MS), NULL};
    struct msi_comm *comm = atomic_load_explicit(&group->comm, memory_order_acquire); /* its maker's */
    if (status == MST_OK) msi_world_take_cause_back(group->world);
    msi_world_tell_cause(group->world, status, &wait);
    if (status != MST_ERR_STORE_LOST || !comm) return status;
    msi_comm_note_causes(comm);
    return msi_world_fail_store(group->world);
}

void msi_world_forget_cause(struct msi_world *world) {
    if (world->cause >= 0) count_telling(-1);
}

void msi_world_note_cause(struct msi_world *world, int rank, int cause) {
    if (rank < 0 || rank >= world->size || cause < 0 || cause >= world->size) return;
    pthread_mutex_lock(&world->lock);
    world->lost_ranks[rank].cause = cause + 1;
    pthread_mutex_unlock(&world->lock);
}

int msi_world_read_cause(struct msi_world *world, int rank, bool waits, const struct msi_wait *wait) {
    struct msi_buf value = {0};
    char name[32], text[24];
    int cause = -1;
    if (msi_world_read(world, wait, key_of(rank, name), &value) == MST_OK && value.len)
        cause = atoi(msi_str_copy(msi_buf_str(&value), text, sizeof text));
    if (cause >= 0 && !waits && strstr(text, "waits")) cause = -1;
    msi_buf_free(&value);
    return cause < world->size ? cause : -1;
}

/* The rank because of which a rank has ended, or has failed; -1: none is known. */
static int cause_of(struct msi_world *world, int rank, bool ask) {
    struct msi_wait wait = {msi_deadline(STORE_MS), NULL};
    pthread_mutex_lock(&world->lock);
    int cause = world->lost_ranks[rank].cause - 1;
    bool lost = world->lost_ranks[rank].order;
    pthread_mutex_unlock(&world->lock);
    if (cause >= 0 || !ask) return cause;
    cause = msi_world_read_cause(world, rank, false, &wait);
    if (lost) msi_world_note_cause(world, rank, cause);
    return cause;
}

/* A rank that left in order is not to blame for a death, only for the leaving of others. */
static int find_root(struct msi_world *world, int rank, bool ask) {
    int root = rank;
    for (int i = 0; i < HOPS_MOST; i++) {
        int cause = cause_of(world, root, ask);
        if (cause < 0 || cause == world->rank || cause == rank) break;
        if (msi_world_rank_event(world, cause) == 'L' && msi_world_rank_event(world, root) != 'L') break;
        root = cause;
    }
    return root;
}

int msi_world_root_cause(struct msi_world *world, int rank) {
    return find_root(world, rank, true);
}

int msi_world_noted_cause(struct msi_world *world, int rank) {
    return find_root(world, rank, false);
}

mst_status msi_group_fail_ended(const mst_group *group, int rank, char event) {
    struct msi_world *world = group->world;
    char show[96], who[MSI_RANK_SHOW_MAX], other[MSI_RANK_SHOW_MAX];
    int cause = msi_world_root_cause(world, rank);
    char how = cause == rank ? event : msi_world_rank_event(world, cause);
    if (cause == rank || (how && msi_group_rank_of(group, cause) >= 0))
        return msi_group_fail_lost(group, cause, how);
    mst_status st = msi_fail(MST_ERR_PEER_LOST, "look at that rank's own output; the group must be recreated",
                             "%s has ended because %s %s; %s cannot continue",
                             msi_rank_show(group, rank, who, sizeof who),
                             msi_rank_show(group, cause, other, sizeof other),
                             how == 'D' ? "died"
                             : how      ? "has left"
                                        : "did not take part in a call",
                             msi_group_show(group, show, sizeof show));
    return msi_blame(st, cause);
}
