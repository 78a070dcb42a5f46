/* spec.c - limits and bounds of a spec. See schedule.h. */
#include "base/error.h"
#include "pipeline/schedule/schedule.h"

#include <string.h>

/* 32 bits count the actions of a stage; these limits are above practical use. */
enum { STAGES_MOST = 4096, COUNT_MOST = 1 << 20, COMPUTES_MOST = 1 << 25, CHUNKS_MOST = 1024 };

static const char *const names[MSI_SCHEDULE_KINDS] = {"stream", "forward", "gpipe", "1f1b", "interleaved"};

const char *msi_schedule_name(int kind) {
    return kind >= 0 && kind < MSI_SCHEDULE_KINDS ? names[kind] : NULL;
}

int msi_schedule_kind(const char *name) {
    for (int kind = 0; kind < MSI_SCHEDULE_KINDS; kind++)
        if (!strcmp(name, names[kind])) return kind;
    return -1;
}

bool msi_schedule_trains(int kind) {
    return kind == MSI_GPIPE || kind == MSI_1F1B || kind == MSI_INTERLEAVED;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static void fill_in(struct msi_schedule_spec *s) {
    bool stream = s->kind == MSI_STREAM;
    if (!s->micros && stream) s->micros = 1;
    if (!s->chunks) s->chunks = s->kind == MSI_INTERLEAVED ? 2 : 1;
    if (!s->inner) s->inner = stream ? s->stages : 1;
    if (!s->batches) s->batches = stream ? s->inner : 1;
    if (!s->tokens) s->tokens = 1;
    if (s->inner > s->batches && s->batches > 0) s->inner = s->batches;
}

static mst_status check_range(const char *what, int value, int limit) {
    if (value < 1)
        return msi_fail(MST_ERR_INVALID, NULL, "a pipeline with %d %s; at least one is needed", value, what);
    if (value > limit)
        return msi_fail(MST_ERR_LIMIT, NULL, "a pipeline with %d %s; the limit is %d", value, what, limit);
    return MST_OK;
}

static mst_status check_counts(const struct msi_schedule_spec *s) {
    mst_status st = check_range("stages", s->stages, STAGES_MOST);
    if (st == MST_OK) st = check_range("micro-batches", s->micros, COUNT_MOST);
    if (st == MST_OK) st = check_range("chunks per stage", s->chunks, CHUNKS_MOST);
    if (st == MST_OK) st = check_range("batches", s->batches, COUNT_MOST);
    if (st == MST_OK) st = check_range("tokens", s->tokens, COUNT_MOST);
    return st == MST_OK ? check_range("inner iterations", s->inner, COUNT_MOST) : st;
}

mst_status msi_schedule_settle(struct msi_schedule_spec *spec) {
    struct msi_schedule_spec s = *spec;
    if (!msi_schedule_name(s.kind)) return msi_fail(MST_ERR_INVALID, NULL, "there is no schedule %d", s.kind);
    fill_in(&s);
    mst_status st = check_counts(&s);
    if (st != MST_OK) return st;
    if (s.chunks > 1 && s.kind != MSI_INTERLEAVED)
        return msi_fail(MST_ERR_INVALID, "use the schedule interleaved", "%d chunks per stage; %s has one",
                        s.chunks, names[s.kind]);
    if (s.kind != MSI_STREAM && (s.batches > 1 || s.tokens > 1))
        return msi_fail(MST_ERR_INVALID, "use the schedule stream",
                        "%d batches and %d tokens; %s has one of each", s.batches, s.tokens, names[s.kind]);
    double computes = (double)s.batches * s.tokens * s.micros * s.chunks;
    if (computes > COMPUTES_MOST)
        return msi_fail(MST_ERR_LIMIT, "make a schedule for fewer batches or tokens at a time",
                        "a schedule of %.0f computes per stage; the limit is %d", computes, COMPUTES_MOST);
    *spec = s;
    return MST_OK;
}

size_t msi_schedule_units(const struct msi_schedule_spec *spec) {
    return (size_t)spec->batches * (size_t)spec->tokens * (size_t)spec->micros;
}

int msi_interleaved_group_size(const struct msi_schedule_spec *spec, int group) {
    int groups = spec->micros > spec->stages ? spec->micros / spec->stages : 1;
    return spec->micros / groups + (group < spec->micros % groups);
}

int msi_schedule_keeps_bound(const struct msi_schedule_spec *spec, int stage) {
    int later = spec->stages - stage - 1, m = spec->micros;
    switch (spec->kind) {
    case MSI_STREAM:
        return spec->inner * m;
    case MSI_FORWARD_ALL:
        return 1;
    case MSI_GPIPE:
        return m;
    default:
        if (spec->chunks == 1) return least(later + 1, m); /* 1f1b */
        return least(spec->chunks * m,
                     2 * later + (spec->chunks - 1) * msi_interleaved_group_size(spec, 0) + 1);
    }
}
