/* blame.c - see blame.h. */
#include "pipeline/blame.h"
#include "base/error.h"
#include "base/handles.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

/* Whoever waits says so in time; this is how long one looks for such words all the same, since ranks are not equally quick. */
enum { LATE_MS = 500, LOOK_MS = 20 };

static mst_group *whole_of(const mst_pipeline *p) {
    return p->whole && msi_handle_alive(p->whole) ? msi_handle_memory(p->whole) : NULL;
}

static void name_key(const mst_group *whole, const char *name, char key[96]) {
    snprintf(key, 96, "%s/%s", whole->id, name);
}

static void name_end(const mst_group *whole, const mst_pipeline *p, char key[96]) {
    char name[32];
    snprintf(name, sizeof name, "gave_up.%d", p->meetings);
    name_key(whole, name, key);
}

static bool is_gone(const mst_group *whole, int rank, char how) {
    return rank >= 0 && msi_world_how_gone(whole->world, rank) == how;
}

/*
 * A rank that has died is known to the store, as is whether another died before it. One that left before, its part being done, is not to
 * blame for a death.
 */
static mst_status who_died(mst_pipeline *p, mst_status status) {
    mst_group *whole = whole_of(p);
    struct msi_words own;
    int blamed = mst_last_error()->culprit;
    if (!whole || status != MST_ERR_PEER_LOST) return status;
    msi_words_keep(&own, status);
    mst_status st = msi_group_check(whole, true);
    bool left = is_gone(whole, mst_last_error()->culprit, 'L') && is_gone(whole, blamed, 'D');
    return st == MST_ERR_PEER_LOST && !left ? st : msi_words_say(&own);
}

/* As the first said, whose line that is; this stage would have said the note, and has the words. */
static mst_status end_as(const mst_group *whole, struct msi_str first, const char *note,
                         const struct msi_words *own) {
    mst_status st = MST_OK;
    if (msi_str_equal(first, msi_cstr("ok"))) return MST_OK;
    if (!msi_str_equal(first, msi_cstr(note))) st = msi_failure_read(whole, first, "gave up the pipeline");
    return st == MST_OK && own->status != MST_OK ? msi_words_say(own) : st;
}

bool msi_blame_settle(mst_pipeline *p, mst_status *status) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    struct msi_words own;
    struct msi_buf first = {0};
    char key[96], note[MSI_NOTE_MAX] = "ok";
    if (!whole || whole->size == 1) return true;
    *status = who_died(p, *status);
    msi_words_keep(&own, *status);
    if (*status != MST_OK) msi_failure_write(whole, *status, note);
    name_end(whole, p, key);
    mst_status st = msi_world_register(whole->world, &wait, key, msi_cstr(note), &first);
    if (st == MST_OK)
        *status = end_as(whole, msi_buf_str(&first), note, &own);
    else
        *status = own.status == MST_OK ? st : msi_words_say(&own);
    msi_buf_free(&first);
    return st == MST_OK;
}

static void name_wait(const mst_group *whole, int rank, char key[96]) {
    char name[32];
    snprintf(name, sizeof name, "waits/%d", rank);
    name_key(whole, name, key);
}

/* Whom a rank waits for; -1: it does not say. */
static int waits_for(const mst_group *whole, int rank) {
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    struct msi_buf note = {0};
    char key[96], text[16];
    name_wait(whole, rank, key);
    bool there = msi_world_look(whole->world, &wait, key, &note) == MST_OK && note.len;
    int other = there ? atoi(msi_str_copy(msi_buf_str(&note), text, sizeof text)) : -1;
    msi_buf_free(&note);
    return msi_group_rank_of(whole, other) >= 0 ? other : -1;
}

void msi_blame_wait(mst_pipeline *p, int neighbour) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    char key[96], text[16];
    if (!whole || whole->size < 3) return;
    name_wait(whole, p->rank, key);
    snprintf(text, sizeof text, "%d", neighbour);
    if (neighbour >= 0)
        msi_world_put(whole->world, &wait, key, msi_cstr(text));
    else
        msi_world_drop(whole->world, &wait, key);
}

void msi_blame_forget(mst_pipeline *p) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    char key[96];
    if (!whole || whole->size == 1) return;
    name_wait(whole, p->rank, key);
    msi_world_drop(whole->world, &wait, key);
    msi_pipeline_unsay(p, &wait);
}

int msi_blame_late(mst_pipeline *p, int neighbour) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(LATE_MS), NULL};
    int late = neighbour, next;
    if (!whole || whole->size < 3) return neighbour;
    do {
        for (int hops = 0; hops < whole->size && (next = waits_for(whole, late)) >= 0; hops++) late = next;
    } while (msi_wait_pause(&wait, LOOK_MS, "") == MST_OK);
    return late == p->rank ? neighbour : late; /* all wait for each other */
}
