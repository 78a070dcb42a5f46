/*
 * lanes.c - the events of each rank, packed for the timeline; report/web/data.js unpacks them.
 *
 * A rank is a lane of two rows: blocking operations, and works. A row's events are in the order of their beginning, in blocks of PAGE_BLOCK
 * that can be unpacked alone, so that the page unpacks what it shows and no more. Each event is a few variable-length numbers:
 *
 *     begin, less that of the event before (of the block's first: 0) · time · kind << 5 | slot << 3 | device << 2 | own waited << 1 | own queued ·
 *     shape · number, less that of the event before, less 1, as zigzag (of the first: its own) · 0 or arrived, less begin, as zigzag, plus 1 ·
 *     queued plus 1 or 0 for unknown, if it is not 0 · waited likewise, if it is not the whole time · time on the
 *     device likewise, if there is one
 */
#include "report/report.h"

#include "base/json.h"

#include <stdlib.h>

enum { ROWS = 2, SLOTS = 4 };

struct lanes {
    struct page_job *job;
    FILE *to;
    struct msi_buf packed;
    int64_t *index; /* begin, offset and latest end so far of each block */
    size_t n_index, index_capacity;
};

static uint8_t *put_number(uint8_t *to, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

static uint64_t zigzag(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value < 0 ? -1 : 0);
}

static uint64_t or_unknown(int64_t value) {
    return value < 0 ? 0 : (uint64_t)value + 1;
}

static void pack(struct msi_buf *to, const struct page_event *e, const struct page_event *before, int slot) {
    enum { MOST = 9 * 10 };
    bool device = e->device != PAGE_UNKNOWN, own_waited = e->waited != e->took, own_queued = e->queued != 0;

    if (!msi_buf_reserve(to, MOST)) return;
    uint8_t *at = to->data + to->len;
    at = put_number(at, before != NULL ? (uint64_t)(e->begin - before->begin) : 0);
    at = put_number(at, (uint64_t)e->took);
    at = put_number(at, (uint64_t)e->kind << 5 | (uint64_t)slot << 3 | (uint64_t)device << 2 |
                            (uint64_t)own_waited << 1 | (uint64_t)own_queued);
    at = put_number(at, e->shape);
    at = put_number(at, before != NULL ? zigzag(e->seq - before->seq - 1) : zigzag(e->seq));
    at = put_number(at, e->arrived == PAGE_UNKNOWN ? 0 : zigzag(e->arrived - e->begin) + 1);
    if (own_queued) at = put_number(at, or_unknown(e->queued));
    if (own_waited) at = put_number(at, or_unknown(e->waited));
    if (device) at = put_number(at, or_unknown(e->device));
    to->len = (size_t)(at - to->data);
}

/* Events that overlap are drawn below each other; where there are too many, the place that is free first. */
static int take_slot(int64_t ends[SLOTS], const struct page_event *e) {
    int best = 0;

    for (int i = 0; i < SLOTS; i++) {
        if (ends[i] <= e->begin) {
            best = i;
            break;
        }
        if (ends[i] < ends[best]) best = i;
    }
    ends[best] = e->begin + e->took;
    return best;
}

static void add_index(struct lanes *l, int64_t value) {
    if (page_room(l->job, &l->index, l->n_index, &l->index_capacity, sizeof *l->index))
        l->index[l->n_index++] = value;
}

/* Packs a row and describes it: how many events, how many slots, and its blocks. */
static void pack_row(struct lanes *l, const struct page_rank *r, int row, struct msi_json_out *out) {
    int64_t ends[SLOTS] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}, reach = INT64_MIN;
    const struct page_event *before = NULL;
    size_t n = 0;
    int slots = 1;

    l->n_index = 0;
    for (size_t i = 0; i < r->n && !l->job->failed; i++) {
        const struct page_event *e = &r->events[i];
        if ((int)page_kind_of(l->job, e)->work != row) continue;
        if (n++ % PAGE_BLOCK == 0) {
            before = NULL;
            if (n > 1) add_index(l, reach);
            add_index(l, e->begin);
            add_index(l, (int64_t)l->packed.len);
        }
        int slot = take_slot(ends, e);
        if (slot + 1 > slots) slots = slot + 1;
        if (e->begin + e->took > reach) reach = e->begin + e->took;
        pack(&l->packed, e, before, slot);
        before = e;
    }
    if (n > 0) add_index(l, reach);
    msi_json_put_object(out);
    msi_json_member_int(out, "n", (int64_t)n);
    msi_json_member_int(out, "slots", slots);
    msi_json_member_array(out, "blocks");
    for (size_t i = 0; i < l->n_index; i++) msi_json_put_int(out, l->index[i]);
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

/* A line of JSON that describes the rows, and one with their events. */
static void put_lane(struct lanes *l, const struct page_rank *r) {
    struct msi_buf about = {0};
    struct msi_json_out out = msi_json_to(&about);

    l->packed.len = 0;
    msi_json_put_array(&out);
    for (int row = 0; row < ROWS; row++) pack_row(l, r, row, &out);
    msi_json_put_array_end(&out);
    if (about.failed || l->packed.failed) l->job->failed = true;
    fprintf(l->to, "<script type=\"text/plain\" id=\"lane-%d\">", r->rank);
    page_put_json(&about, l->to);
    fputc('\n', l->to);
    page_put_base64(l->packed.data, l->packed.len, l->to);
    fputs("</script>\n", l->to);
    msi_buf_free(&about);
}

void page_lanes(struct page_job *job, FILE *to) {
    struct lanes l = {.job = job, .to = to};

    for (int i = 0; i < job->n_ranks && !job->failed; i++) put_lane(&l, job->ranks[i]);
    msi_buf_free(&l.packed);
    free(l.index);
}
