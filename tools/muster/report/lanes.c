/*
 * lanes.c - packs the events of each rank for the timeline; report/web/data.js unpacks them.
 *
 * A rank is a lane of two rows: blocking operations, and works. The events of a row are sorted by begin and
 * stored in blocks of REPORT_BLOCK. Each block can be unpacked alone, so that the page unpacks only visible
 * ones. An event is a sequence of variable-length numbers:
 *
 *     begin - begin of the previous event (0 for the first of a block)
 *     duration
 *     kind << 5 | slot << 3 | has_device << 2 | has_waited << 1 | has_queued
 *     shape
 *     zigzag(seq - seq of the previous event - 1) (zigzag(seq) for the first of a block)
 *     zigzag(arrived - begin) + 1, or 0 if arrived is unknown
 *     queued + 1, or 0 if unknown; only with has_queued, else queued is 0
 *     waited + 1, or 0 if unknown; only with has_waited, else waited is the duration
 *     time on the device + 1; only with has_device
 */
#include "report/report.h"

#include "base/json.h"

#include <stdlib.h>

enum { ROWS = 2, SLOTS = 4 };

struct lanes {
    const struct report_job *job;
    FILE *to;
    struct msi_buf packed;
    int64_t *index; /* of each block: begin, offset, and the latest end of this block and those before */
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

static void pack(struct msi_buf *to, const struct report_event *e, const struct report_event *previous,
                 int slot) {
    enum { MOST = 9 * 10 };
    bool has_device = e->device != REPORT_UNKNOWN, has_waited = e->waited != e->took,
         has_queued = e->queued != 0;
    if (!msi_buf_reserve(to, MOST)) return;
    uint8_t *at = to->data + to->len;
    at = put_number(at, previous ? (uint64_t)(e->begin - previous->begin) : 0);
    at = put_number(at, (uint64_t)e->took);
    at = put_number(at, (uint64_t)e->kind << 5 | (uint64_t)slot << 3 | (uint64_t)has_device << 2 |
                            (uint64_t)has_waited << 1 | (uint64_t)has_queued);
    at = put_number(at, e->shape);
    at = put_number(at, previous ? zigzag(e->seq - previous->seq - 1) : zigzag(e->seq));
    at = put_number(at, e->arrived == REPORT_UNKNOWN ? 0 : zigzag(e->arrived - e->begin) + 1);
    if (has_queued) at = put_number(at, or_unknown(e->queued));
    if (has_waited) at = put_number(at, or_unknown(e->waited));
    if (has_device) at = put_number(at, or_unknown(e->device));
    to->len = (size_t)(at - to->data);
}

/*
 * Overlapping events are drawn below each other. If all slots are in use, takes the one that becomes free
 * first.
 */
static int choose_slot(int64_t ends[SLOTS], const struct report_event *e) {
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
    report_reserve(&l->index, l->n_index, &l->index_capacity, sizeof *l->index);
    l->index[l->n_index++] = value;
}

/* Packs a row and writes its description: the numbers of events and slots, and its blocks. */
static void pack_row(struct lanes *l, const struct report_rank *r, int row, struct msi_json_out *out) {
    int64_t ends[SLOTS] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}, latest_end = INT64_MIN;
    const struct report_event *previous = NULL;
    size_t n = 0;
    int slots = 1;
    l->n_index = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct report_event *e = &r->events[i];
        if ((int)report_kind_of(l->job, e)->work != row) continue;
        if (n++ % REPORT_BLOCK == 0) {
            previous = NULL;
            if (n > 1) add_index(l, latest_end);
            add_index(l, e->begin);
            add_index(l, (int64_t)l->packed.len);
        }
        int slot = choose_slot(ends, e);
        if (slot + 1 > slots) slots = slot + 1;
        if (e->begin + e->took > latest_end) latest_end = e->begin + e->took;
        pack(&l->packed, e, previous, slot);
        previous = e;
    }
    if (n > 0) add_index(l, latest_end);
    msi_json_put_object(out);
    msi_json_member_int(out, "n", (int64_t)n);
    msi_json_member_int(out, "slots", slots);
    msi_json_member_array(out, "blocks");
    for (size_t i = 0; i < l->n_index; i++) msi_json_put_int(out, l->index[i]);
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

/* Writes a line of JSON that describes the rows and a line with their packed events. */
static void put_lane(struct lanes *l, const struct report_rank *r) {
    struct msi_buf description = {0};
    struct msi_json_out out = msi_json_to(&description);
    l->packed.len = 0;
    msi_json_put_array(&out);
    for (int row = 0; row < ROWS; row++) pack_row(l, r, row, &out);
    msi_json_put_array_end(&out);
    if (l->packed.failed) report_no_memory();
    fprintf(l->to, "<script type=\"text/plain\" id=\"lane-%d\">", r->rank);
    report_write_json(&description, l->to);
    msi_buf_free(&description);
    fputc('\n', l->to);
    report_write_base64(l->packed.data, l->packed.len, l->to);
    fputs("</script>\n", l->to);
}

void report_write_lanes(const struct report_job *job, FILE *to) {
    struct lanes l = {.job = job, .to = to};
    for (int i = 0; i < job->n_ranks; i++) put_lane(&l, job->ranks[i]);
    msi_buf_free(&l.packed);
    free(l.index);
}
