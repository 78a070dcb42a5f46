/*
 * reform.c - the next world: the survivors of a world, and new processes. See recover.h and
 * bootstrap/admission.h.
 *
 * The decision of the vote is "late", or
 *   "EPOCH SIZE FIRST_OLD\n", and a line for each rank of the next world: "OLD NEW\n" for a survivor,
 *   "+NONCE NEW\n" for a new process.
 * If a rank is lost before all ranks have joined the next world, that world never forms: its other ranks
 * vote again.
 */
#include "base/error.h"
#include "bootstrap/admission.h"
#include "group/choice.h"
#include "group/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct reform {
    struct msi_world *world;
    int added; /* new processes that the ranks wait for; -1: none are admitted */
    const char *call;
    const struct msi_wait *wait;
    struct msi_buf decision;
    struct msi_admission own; /* this rank's place; rank -1: it has none */
    bool late;                /* new processes have not come */
};

/* Writes the places of survivors and new processes. */
static void write_places(const struct reform *f, const struct msi_ballot *ballots,
                         const struct msi_joiners *joiners, int64_t epoch, struct msi_buf *decision) {
    int old = f->world->size, stay = 0, first = -1, next = 0, joined = 0;
    for (int r = 0; r < old; r++) stay += ballots[r].text.p && !ballots[r].lost;
    bool keep = joiners->n >= old - stay; /* new processes take all free numbers */
    for (int r = 0; r < old && first < 0; r++)
        if (ballots[r].text.p && !ballots[r].lost) first = keep ? r : 0;
    msi_buf_add_format(decision, "%" PRId64 " %d %d\n", epoch, stay + joiners->n, first);
    for (int r = 0; r < old; r++) {
        if (ballots[r].text.p && !ballots[r].lost)
            msi_buf_add_format(decision, "%d %d\n", r, next++);
        else if (keep)
            msi_buf_add_format(decision, "+%016" PRIx64 " %d\n", joiners->nonces[joined++], next++);
    }
    while (joined < joiners->n)
        msi_buf_add_format(decision, "+%016" PRIx64 " %d\n", joiners->nonces[joined++], next++);
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

/* A line of the decision: a survivor, or a new process. */
struct place {
    int old; /* -1: it is a new process, … */
    uint64_t nonce;
    int rank;
};

/* Reads the head of the decision and moves *lines to the places. */
static bool read_head(const struct reform *f, struct msi_str *lines, struct msi_admission *head) {
    struct msi_str line;
    char text[96];
    *lines = msi_buf_str(&f->decision);
    return msi_str_line(lines, &line) && sscanf(msi_str_copy(line, text, sizeof text), "%" SCNd64 " %d %d",
                                                &head->epoch, &head->size, &head->first_old) == 3;
}

static bool next_place(struct msi_str *lines, struct place *place) {
    struct msi_str line;
    char text[64];
    while (msi_str_line(lines, &line)) {
        msi_str_copy(line, text, sizeof text);
        place->old = -1;
        if (text[0] == '+' ? sscanf(text, "+%" SCNx64 " %d", &place->nonce, &place->rank) == 2
                           : sscanf(text, "%d %d", &place->old, &place->rank) == 2)
            return true;
    }
    return false;
}

/* Finds this rank's place, and the first survivor. */
static mst_status find_place(struct reform *f, int *first) {
    struct msi_str lines;
    struct place place;
    *first = -1;
    f->own.rank = -1;
    if (!read_head(f, &lines, &f->own))
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where the next world should be",
                        MSI_SHOW(msi_buf_str(&f->decision)));
    while (next_place(&lines, &place)) {
        if (place.old == f->world->rank) f->own.rank = place.rank;
        if (place.old >= 0 && *first < 0) *first = place.old;
    }
    return f->own.rank < 0 ? msi_group_fail_excluded(f->world->all) : MST_OK;
}

/* The first survivor tells new processes their places. */
static mst_status admit(struct reform *f) {
    struct msi_str lines;
    struct msi_admission given;
    struct place place;
    mst_status st = MST_OK;
    read_head(f, &lines, &given);
    while (st == MST_OK && next_place(&lines, &place)) {
        given.rank = place.rank;
        if (place.old < 0)
            st = msi_joiner_admit(f->world->store, f->world->lineage, f->wait, place.nonce, &given);
    }
    return st;
}

/* While ranks join the next world: fails if one of them is lost before it has. */
static mst_status check_places(void *context) {
    struct reform *f = context;
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_str lines;
    struct msi_admission head;
    struct place place;
    mst_status st = msi_world_read_events(f->world, &wait);
    read_head(f, &lines, &head);
    while (st == MST_OK && next_place(&lines, &place)) {
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
    return st;
}

/* Waits until enough new processes wait. At the deadline this rank is late, and tells the others so. */
static mst_status await_joiners(struct reform *f, int *came) {
    struct msi_world *world = f->world;
    mst_status st;
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
    struct msi_vote vote = {f->world->all, "reform", f->call, &f->world->reforms, decide, f};
    /* The others reach their deadlines at about the same time, and must learn the decision. */
    struct msi_wait late = {msi_deadline(LATE_MS), f->wait->cancel};
    msi_buf_free(&f->decision);
    mst_status st =
        msi_group_vote(&vote, msi_cstr(f->late ? "late" : "-"), f->late ? &late : f->wait, &f->decision);
    if (st != MST_OK || !msi_str_equal(msi_buf_str(&f->decision), msi_cstr("late"))) return st;
    return msi_fail(MST_ERR_STALLED, "start more processes with MUSTER_JOIN=1, or raise .timeout_ms",
                    "%d of %d new processes came in time", came, f->added);
}

/* Tries once to form the next world. */
static mst_status try_reform(struct reform *f, mst_group **reformed) {
    int first, came = 0;
    f->own.rank = -1;
    mst_status st = f->added > 0 ? await_joiners(f, &came) : MST_OK;
    if (st == MST_OK) st = vote(f, came);
    if (st == MST_OK) st = find_place(f, &first);
    if (st == MST_OK && first == f->world->rank) st = admit(f);
    if (st != MST_OK) return st;
    struct msi_place place = {.rank = f->own.rank,
                              .size = f->own.size,
                              .first_old = f->own.first_old,
                              .check = check_places,
                              .context = f};
    msi_continued_run(place.run, f->world->lineage, f->own.epoch);
    return msi_world_continue(f->world, &place, f->wait, reformed);
}

mst_status msi_world_reform(struct msi_world *world, int added, const mst_site *site,
                            const struct msi_wait *wait, mst_group **reformed) {
    struct reform f = {.world = world,
                       .added = added,
                       .call = added < 0 ? "mst_shrink_world" : "mst_grow_world",
                       .wait = wait};
    mst_status st = MST_OK;
    /* Ranks that wait in the old world come, too. */
    if (added < 0 || msi_group_check(world->all, true) != MST_OK)
        st = msi_group_leave_calls(world->all, site, f.call);
    if (st == MST_OK) do
            st = try_reform(&f, reformed);
        while (st == MST_ERR_PEER_LOST && f.own.rank >= 0);
    msi_buf_free(&f.decision);
    return st;
}
