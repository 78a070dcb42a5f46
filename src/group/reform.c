/*
 * reform.c - the next world: the survivors of a world, and new processes. See recover.h and
 * bootstrap/admission.h.
 *
 * The decision of the vote is "late", or the next world as wire/recovery.h writes it.
 * If a rank is lost before all ranks have joined the next world, that world never forms: its other ranks
 * vote again.
 */
#include "base/error.h"
#include "bootstrap/admission.h"
#include "group/choice.h"
#include "group/recover.h"

#include <stdio.h>
#include <stdlib.h>

struct reform {
    struct msi_world *world;
    int added; /* new processes that the ranks wait for; -1: none are admitted */
    const char *call;
    const struct msi_wait *wait;
    struct msi_buf decision;
    struct msi_admission own; /* this rank's place; rank -1: it has none */
    bool late;                /* too few new processes came in time */
};

/* Writes the places of survivors and new processes. */
static void write_places(const struct reform *f, const struct msi_ballot *ballots,
                         const struct msi_joiners *joiners, int64_t epoch, struct msi_buf *decision) {
    int old = f->world->size, stay = 0, first = -1, next = 0, joined = 0;
    for (int r = 0; r < old; r++) stay += ballots[r].text.p && !ballots[r].lost;
    bool keep = joiners->n >= old - stay; /* new processes take all free numbers */
    for (int r = 0; r < old && first < 0; r++)
        if (ballots[r].text.p && !ballots[r].lost) first = keep ? r : 0;
    msi_next_world_write(
        decision, &(struct msi_admission){.epoch = epoch, .size = stay + joiners->n, .first_old = first});
    for (int r = 0; r < old; r++) {
        bool stays = ballots[r].text.p && !ballots[r].lost;
        struct msi_next_rank place = {stays ? r : -1, stays || !keep ? 0 : joiners->nonces[joined++], next};
        if (!stays && !keep) continue;
        msi_next_rank_write(decision, &place);
        next++;
    }
    for (; joined < joiners->n; joined++)
        msi_next_rank_write(decision, &(struct msi_next_rank){-1, joiners->nonces[joined], next++});
}

static mst_status decide(void *context, const struct msi_ballot *ballots, struct msi_buf *decision) {
    const struct reform *f = context;
    struct msi_world *world = f->world;
    struct msi_joiners joiners = {0};
    int64_t epoch = 0;
    for (int r = 0; r < world->size; r++)
        if (msi_str_equal(ballots[r].text, msi_cstr("late"))) {
            msi_buf_add_format(decision, "late");
            return MST_OK;
        }
    mst_status st =
        f->added >= 0 ? msi_joiners_read(world->store, world->lineage, f->wait, &joiners) : MST_OK;
    if (st == MST_OK) st = msi_epoch_next(world->store, world->lineage, f->wait, &epoch);
    if (st == MST_OK) write_places(f, ballots, &joiners, epoch, decision);
    free(joiners.nonces);
    return st;
}

/* Finds this rank's place, the first survivor, and the places of the ranks that have the store. */
static mst_status find_place(struct reform *f, int *first, int store_ranks[2]) {
    struct msi_str lines = msi_buf_str(&f->decision);
    struct msi_next_rank place;
    int old[2];
    msi_world_store_ranks(f->world, old);
    store_ranks[0] = store_ranks[1] = *first = -1;
    if (!msi_next_world_read(&lines, &f->own))
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where the next world should be",
                        MSI_SHOW(msi_buf_str(&f->decision)));
    while (msi_next_rank_read(&lines, f->own.size, &place)) {
        if (place.old == f->world->rank) f->own.rank = place.rank;
        if (place.old < 0) continue;
        if (*first < 0) *first = place.old;
        for (int i = 0; i < 2; i++)
            if (place.old == old[i]) store_ranks[i] = place.rank;
    }
    return f->own.rank < 0 ? msi_group_fail_excluded(f->world->all) : MST_OK;
}

/* The first survivor tells new processes their places. */
static mst_status admit(struct reform *f) {
    struct msi_str lines = msi_buf_str(&f->decision);
    struct msi_admission given;
    struct msi_next_rank place;
    mst_status st = MST_OK;
    msi_next_world_read(&lines, &given);
    while (st == MST_OK && msi_next_rank_read(&lines, given.size, &place)) {
        given.rank = place.rank;
        if (place.old < 0)
            st = msi_joiner_admit(f->world->store, f->world->lineage, f->wait, place.nonce, &given);
    }
    return st;
}

static struct msi_vote vote_of(struct reform *f) {
    return (struct msi_vote){f->world->all, "reform", f->call, &f->world->reforms, decide, f, f->added < 0};
}

/*
 * While ranks join the next world: fails if one of them is lost before it has. Also if one of them could not
 * join, and may call the function again: then all vote again.
 */
static mst_status check_places(void *context) {
    struct reform *f = context;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_vote next = vote_of(f);
    enum msi_vote_began again = MSI_VOTE_NOT_BEGUN;
    struct msi_str lines = msi_buf_str(&f->decision);
    struct msi_admission head;
    struct msi_next_rank place;
    mst_status st = msi_world_read_events(f->world, &wait);
    msi_next_world_read(&lines, &head);
    while (st == MST_OK && msi_next_rank_read(&lines, head.size, &place)) {
        char event =
            place.old >= 0 && place.old < f->world->size ? msi_world_rank_event(f->world, place.old) : 0;
        if (event) st = msi_group_fail_lost(f->world->all, place.old, event);
        if (place.old >= 0) continue;
        bool gone = false;
        st = msi_joiner_is_gone(f->world->store, f->world->lineage, &wait, place.nonce, &gone);
        if (gone)
            st = msi_fail(MST_ERR_PEER_LOST, "look at that process's own output",
                          "the new process that was to become rank %d has ended", place.rank);
    }
    if (st == MST_OK) st = msi_group_vote_began(&next, &wait, &again);
    return again ? msi_fail(MST_ERR_PEER_LOST, NULL, "a rank calls %s again", f->call) : st;
}

/*
 * Waits until enough new processes wait. At the deadline this rank is late, and tells the others so. Does not
 * wait if others have voted: they saw enough processes, which may have a place by now.
 */
static mst_status await_joiners(struct reform *f, int *came) {
    struct msi_world *world = f->world;
    struct msi_vote vote = vote_of(f);
    enum msi_vote_began began;
    mst_status st = msi_group_vote_began(&vote, f->wait, &began);
    if (st != MST_OK || began == MSI_VOTE_BEGAN) return st;
    do {
        struct msi_joiners joiners;
        st = msi_joiners_read(world->store, world->lineage, f->wait, &joiners);
        *came = joiners.n;
        if (st == MST_OK && *came < f->added)
            st = msi_joiners_wait(world->store, world->lineage, f->wait, &joiners);
        free(joiners.nonces);
    } while (st == MST_OK && *came < f->added);
    f->late = st == MST_ERR_TIMEOUT;
    return f->late ? MST_OK : st;
}

static mst_status vote(struct reform *f, int came) {
    enum { LATE_MS = 2000 };
    struct msi_vote vote = vote_of(f);
    /* The others reach their deadlines at about the same time, and must learn the decision. */
    struct msi_wait late = {msi_deadline(LATE_MS), f->wait->cancel};
    msi_buf_free(&f->decision);
    mst_status st =
        msi_group_vote(&vote, msi_cstr(f->late ? "late" : "-"), f->late ? &late : f->wait, &f->decision);
    if (st != MST_OK || !msi_str_equal(msi_buf_str(&f->decision), msi_cstr("late"))) return st;
    return msi_fail(MST_ERR_STALLED, "start more processes with MUSTER_JOIN=1, or raise .timeout_ms",
                    "%d of %d new processes came in time", came, f->added);
}

/* Carries out the decision. */
static mst_status join_next(struct reform *f, mst_group **reformed) {
    int first, store_ranks[2];
    mst_status st = find_place(f, &first, store_ranks);
    if (st == MST_OK && first == f->world->rank) st = admit(f);
    if (st != MST_OK) return st;
    struct msi_place place = {.rank = f->own.rank,
                              .size = f->own.size,
                              .first_old = f->own.first_old,
                              .store_ranks = {store_ranks[0], store_ranks[1]},
                              .check = check_places,
                              .context = f};
    msi_continued_run(place.run, f->world->lineage, f->own.epoch);
    st = msi_world_continue(f->world, &place, f->wait, reformed);
    bool store_lost = st == MST_ERR_STORE_LOST || st == MST_ERR_STORE_ENDED;
    return store_lost ? msi_world_fail_store(f->world) : st; /* which names its host */
}

/* Tries once to form the next world. */
static mst_status try_reform(struct reform *f, mst_group **reformed) {
    int came = 0;
    f->own.rank = -1;
    mst_status st = f->added > 0 ? await_joiners(f, &came) : MST_OK;
    if (st == MST_OK) st = vote(f, came);
    if (st != MST_OK) return st;
    st = join_next(f, reformed);
    struct msi_vote next = vote_of(f);
    if (st != MST_OK && st != MST_ERR_PEER_LOST) msi_group_vote_announce(&next);
    return st;
}

mst_status msi_world_reform(struct msi_world *world, int added, const mst_site *site,
                            const struct msi_wait *wait, mst_group **reformed) {
    struct reform f = {.world = world,
                       .added = added,
                       .call = added < 0 ? "mst_shrink_world" : "mst_grow_world",
                       .wait = wait};
    mst_status st = MST_OK;
    /* Calls of other ranks on the old world end, so that these ranks can take part. */
    if (added < 0 || msi_group_check(world->all, true) != MST_OK)
        st = msi_group_leave_calls(world->all, site, f.call);
    if (st == MST_OK) do
            st = try_reform(&f, reformed);
        while (st == MST_ERR_PEER_LOST && f.own.rank >= 0 && msi_now() < wait->deadline);
    msi_buf_free(&f.decision);
    return st;
}
