/*
 * fuzz_schedule.c - schedules that were tampered with. The first bytes choose a small spec, the others are
 * edits: which stage, which action, which byte of it, the new value. What the proof lets pass can be played
 * through; nothing else matters but that it never reads where nothing is.
 */
#include "pipeline/schedule/check.h"
#include "pipeline/schedule/text.h"
#include "pipeline/schedule/time.h"
#include "schedule_formula.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SPEC = 7, EDIT = 4 };

static void edit(struct msi_schedule *s, const uint8_t *e) {
    struct msi_stage_list *list = &s->stages[e[0] % s->spec.stages];
    size_t at = e[2] % (sizeof *list->actions + sizeof list->slots + sizeof list->keeps);
    char *to = (char *)&list->actions[e[1] % list->n] + at;
    if (at >= sizeof *list->actions) {
        at -= sizeof *list->actions;
        to = at < sizeof list->slots ? (char *)list->slots + at
                                     : (char *)&list->keeps + (at - sizeof list->slots);
    }
    memcpy(to, &e[3], 1);
}

/* Any numbers at all. */
static void settle(const uint8_t *data, size_t size) {
    struct msi_schedule_spec spec = {0};
    memcpy(&spec, data, size < sizeof spec ? size : sizeof spec);
    mst_status st = msi_schedule_settle(&spec);
    assert(st == MST_OK || st == MST_ERR_INVALID || st == MST_ERR_LIMIT);
    if (st == MST_OK) assert(schedule_formula(&spec, 1, 1) >= (double)msi_schedule_units(&spec));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_schedule s = {0};
    struct msi_timing timing = {0};
    settle(data, size);
    if (size < SPEC) return 0;
    int kind = data[0] % MSI_SCHEDULE_KINDS;
    bool stream = kind == MSI_STREAM;
    struct msi_schedule_spec spec = {kind,
                                     1 + data[1] % 5,
                                     1 + data[2] % 8,
                                     kind == MSI_INTERLEAVED ? 1 + data[3] % 3 : 1,
                                     stream ? 1 + data[4] % 4 : 1,
                                     stream ? 1 + data[5] % 4 : 1,
                                     stream ? 1 + data[6] % 4 : 1};
    assert(msi_schedule_make(&spec, &s) == MST_OK);
    assert(msi_schedule_check(&s) == MST_OK);
    for (size_t i = SPEC; i + EDIT <= size; i += EDIT) edit(&s, data + i);
    mst_status st = msi_schedule_check(&s);
    assert(st == MST_OK || st == MST_ERR_INVALID);
    for (int i = 0; i < MSI_SEND_MODES && st == MST_OK; i++)
        assert(msi_schedule_time(&s, (enum msi_send_mode)i, NULL, &timing) == MST_OK);
    msi_timing_free(&timing);
    msi_schedule_free(&s);
    return 0;
}
