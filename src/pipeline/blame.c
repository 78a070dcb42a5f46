/* blame.c - see blame.h. */
#include "pipeline/blame.h"
#include "base/error.h"
#include "base/handles.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

/* How long msi_blame_late looks for reports of waiting ranks, which may come a little later. */
enum { LATE_MS = 500, POLL_MS = 20 };

static mst_group *whole_of(const mst_pipeline *p) {
    return p->whole && msi_handle_alive(p->whole) ? msi_handle_memory(p->whole) : NULL;
}

static bool has_event(const mst_group *whole, int rank, char event) {
    return rank >= 0 && msi_world_rank_event(whole->world, rank) == event;
}

/* Asks the store which rank was lost first. A rank that left is not the cause of a death. */
static mst_status find_lost(mst_pipeline *p, mst_status status) {
    mst_group *whole = whole_of(p);
    struct msi_saved_error own;
    int blamed = mst_last_error()->culprit;
    if (!whole || status != MST_ERR_PEER_LOST) return status;
    msi_error_save(&own, status);
    mst_status st = msi_group_check(whole, true);
    bool left = has_event(whole, mst_last_error()->culprit, 'L') && has_event(whole, blamed, 'D');
    return st == MST_ERR_PEER_LOST && !left ? st : msi_error_restore(&own);
}

/* Fails like the first rank, which wrote first; note and own are this stage's failure. */
static mst_status fail_as_first(const mst_group *whole, struct msi_str first, const char *note,
                                const struct msi_saved_error *own) {
    mst_status st = MST_OK;
    if (msi_str_equal(first, msi_cstr("ok"))) return MST_OK;
    if (!msi_str_equal(first, msi_cstr(note))) st = msi_failure_read(whole, first, "gave up the pipeline");
    return st == MST_OK && own->status != MST_OK ? msi_error_restore(own) : st;
}

bool msi_blame_settle(mst_pipeline *p, mst_status *status) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_saved_error own;
    struct msi_buf first = {0};
    char key[96], note[MSI_NOTE_MAX] = "ok";
    if (!whole || whole->size == 1) return true;
    *status = find_lost(p, *status);
    msi_error_save(&own, *status);
    if (*status != MST_OK) msi_failure_write(whole, *status, note);
    snprintf(key, sizeof key, "%s/gave_up.%d", whole->id, p->agreements);
    mst_status st = msi_world_put_once(whole->world, &wait, key, msi_cstr(note), &first);
    if (st == MST_OK)
        *status = fail_as_first(whole, msi_buf_str(&first), note, &own);
    else
        *status = own.status == MST_OK ? st : msi_error_restore(&own);
    msi_buf_free(&first);
    return st == MST_OK;
}

static void name_wait(const mst_group *whole, int rank, char key[96]) {
    snprintf(key, 96, "%s/waits/%d", whole->id, rank);
}

/* The rank that a rank waits for; -1: none is known. */
static int waits_for(const mst_group *whole, int rank) {
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_buf note = {0};
    char key[96], text[16];
    name_wait(whole, rank, key);
    bool there = msi_world_read(whole->world, &wait, key, &note) == MST_OK && note.len;
    int other = there ? atoi(msi_str_copy(msi_buf_str(&note), text, sizeof text)) : -1;
    msi_buf_free(&note);
    return msi_group_rank_of(whole, other) >= 0 ? other : -1;
}

void msi_blame_wait(mst_pipeline *p, int neighbour) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    char key[96], text[16];
    if (!whole || whole->size < 3) return;
    name_wait(whole, p->rank, key);
    snprintf(text, sizeof text, "%d", neighbour);
    if (neighbour >= 0)
        msi_world_put(whole->world, &wait, key, msi_cstr(text));
    else
        msi_world_delete(whole->world, &wait, key);
}

void msi_blame_forget(mst_pipeline *p) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    char key[96];
    if (!whole || whole->size == 1) return;
    name_wait(whole, p->rank, key);
    msi_world_delete(whole->world, &wait, key);
    msi_pipeline_withdraw(p, &wait);
}

int msi_blame_late(mst_pipeline *p, int neighbour) {
    mst_group *whole = whole_of(p);
    struct msi_wait wait = {msi_deadline(LATE_MS), NULL};
    int late = neighbour, next;
    if (!whole || whole->size < 3) return neighbour;
    do {
        for (int hops = 0; hops < whole->size && (next = waits_for(whole, late)) >= 0; hops++) late = next;
    } while (msi_wait_pause(&wait, POLL_MS, "") == MST_OK);
    return late == p->rank ? neighbour : late; /* all wait for each other */
}
