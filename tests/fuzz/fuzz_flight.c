/*
 * fuzz_flight.c - flight recorders that others wrote, as patches of two good ones: offset in two bytes,
 * length in one, bytes. Whatever they say, what is written of them is JSON, and the diagnosis is text without
 * control characters.
 */
#include "../unit/flight_kit.h"
#include "base/json.h"
#include "prof/flight/diagnose.h"
#include "prof/flight/write.h"

#include <assert.h>

enum { LAST = 40 }; /* entries; writing them as JSON takes most of the time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct msi_flight rings[2];
static struct msi_flight_snapshot snapshots[2];

static void make(struct msi_flight *f) {
    kit_begin(f);
    kit_site(f, 1, "mst_all_reduce", "train.c", "step", 33);
    kit_site(f, 2, "mst_recv", "train.c", "pull", 50);
    kit_group(f, 0, "world", 1, 2);
    for (uint64_t i = 1; i < LAST; i++)
        kit_add(f, MSI_FLIGHT_DONE, (struct kit_op){.site = 1, .seq = i, .begin = (double)i});
    kit_add(f, MSI_FLIGHT_STARTED, (struct kit_op){.site = 1, .seq = LAST, .begin = LAST, .dtype = MST_F32});
    kit_add(f, MSI_FLIGHT_STARTED,
            (struct kit_op){.site = 2, .seq = 1, .begin = LAST + 1, .type = MSI_FLIGHT_RECV, .peer = 1});
}

static void patch(const uint8_t *data, size_t size) {
    while (size > 3) {
        size_t at = (size_t)data[0] | (size_t)data[1] << 8, n = data[2];
        if (n > size - 3) n = size - 3;
        struct msi_flight *f = &rings[at >> 15];
        at = (at & 0x7fff) * 2 % sizeof *f;
        if (n > sizeof *f - at) n = sizeof *f - at;
        memcpy((unsigned char *)f + at, data + 3, n);
        data += 3 + n;
        size -= 3 + n;
    }
}

static void check_json(const struct msi_flight_view *view) {
    struct msi_rank_id id = {.rank = 1, .size = 2, .host = "a"};
    struct msi_buf text = {0};
    msi_flight_write(view, &id, &(struct msi_flight_failure){.culprit = -1}, &text);
    struct msi_json in = msi_json_of((const char *)text.data, text.len);
    assert(msi_json_skip(&in) && msi_json_end(&in));
    msi_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_flight_rank ranks[2];
    struct msi_diagnoses diagnoses;
    struct msi_buf text = {0};
    for (int i = 0; i < 2; i++) make(&rings[i]);
    patch(data, size);
    for (int i = 0; i < 2; i++) {
        bool any = msi_flight_read(&rings[i], kit_look(1000), &snapshots[i]);
        ranks[i] = (struct msi_flight_rank){.view = any ? &snapshots[i].view : NULL, .blames = 1 - i};
        if (any) check_json(&snapshots[i].view);
    }
    if (msi_flight_diagnose(ranks, 2, &diagnoses)) msi_flight_print_diagnoses(&diagnoses, &text);
    for (size_t i = 0; i < text.len; i++) assert(text.data[i] >= 0x20 || text.data[i] == '\n');
    assert(text.len > 0 && text.data[text.len - 1] == '\n');
    msi_buf_free(&text);
    msi_diagnoses_free(&diagnoses);
    return 0;
}
