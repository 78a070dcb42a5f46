/* flight_words.c - see flight_words.h; the verdict is in flight_verdict.c. */
#include "prof/flight_words.h"

#include <muster/dtype.h>

void msi_flight_say_team(const struct msi_flight_team *team, struct msi_buf *to) {
    if (!strcmp(team->name, "world"))
        msi_buf_add_format(to, "world");
    else if (team->name[0])
        msi_buf_add_format(to, "group '%s'", team->name);
    else if (team->size)
        msi_buf_add_format(to, "a group of %d ranks", team->size);
    else
        msi_buf_add_format(to, "a group");
}

static const char *name_of(const struct msi_flight_op *op) {
    return op->site->operation[0] ? op->site->operation : "a call";
}

static void say_site(const struct msi_flight_site *site, struct msi_buf *to) {
    if (!site->file[0]) return;
    msi_buf_add_format(to, ", at %s", site->file);
    if (site->line) msi_buf_add_format(to, ":%d", site->line);
    if (site->function[0]) msi_buf_add_format(to, " (%s)", site->function);
}

void msi_flight_say_op(const struct msi_flight_op *op, struct msi_buf *to) {
    const struct msi_flight_team *team = op->team;
    msi_buf_add_format(to, "%s #%llu", name_of(op), (unsigned long long)op->seq);
    if (msi_flight_is_message(op)) {
        msi_buf_add_format(to, strstr(name_of(op), "send") ? " to" : " from");
        if (op->peer >= 0)
            msi_buf_add_format(to, " rank %d", op->peer);
        else
            msi_buf_add_format(to, " any rank");
    }
    msi_buf_add_format(to, " of ");
    msi_flight_say_team(team, to);
    if (team->name[0] && team->size)
        msi_buf_add_format(to, " (%d rank%s)", team->size, team->size == 1 ? "" : "s");
    if (op->dtype)
        msi_buf_add_format(to, ", %llu %s", (unsigned long long)op->count,
                           mst_dtype_name((mst_dtype)op->dtype));
    say_site(op->site, to);
}

bool msi_flight_say_span(int64_t from, int64_t until, struct msi_buf *to) {
    if (from == MSI_FLIGHT_UNKNOWN || until == MSI_FLIGHT_UNKNOWN) return false;
    double seconds = until > from ? (double)(until - from) * 1e-9 : 0;
    msi_buf_add_format(to, seconds < 0.1 ? "%.3f s" : "%.1f s", seconds);
    return true;
}

static void say_over(const struct msi_flight_op *op, int64_t now, struct msi_buf *to) {
    const char *how = op->state == MSI_FLIGHT_FAILED ? "failed" : "returned";
    struct msi_buf ago = {0};
    if (msi_flight_say_span(op->end, now, &ago))
        msi_buf_add_format(to, ", %s %.*s ago", how, (int)ago.len, (const char *)ago.data);
    else if (msi_flight_say_span(op->begin, now, &ago))
        msi_buf_add_format(to, ", begun %.*s ago, has %s", (int)ago.len, (const char *)ago.data, how);
    else
        msi_buf_add_format(to, ", has %s", how);
    msi_buf_free(&ago);
}

void msi_flight_say_rank(const struct msi_flight_view *view, struct msi_buf *to) {
    const struct msi_flight_op *op = view ? msi_flight_current(view) : NULL;
    if (!view) {
        msi_buf_add_format(to, "has recorded nothing");
        return;
    }
    if (!op && !(op = msi_flight_last(view))) {
        msi_buf_add_format(to, "has not communicated yet");
        return;
    }
    bool over = msi_flight_is_over(op);
    msi_buf_add_format(to, over ? "last was " : "in ");
    msi_flight_say_op(op, to);
    if (over) {
        say_over(op, view->now, to);
        return;
    }
    struct msi_buf since = {0};
    if (msi_flight_say_span(op->begin, view->now, &since))
        msi_buf_add_format(to, ", for %.*s", (int)since.len, (const char *)since.data);
    msi_buf_free(&since);
}
