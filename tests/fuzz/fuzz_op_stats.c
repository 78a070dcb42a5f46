/* fuzz_op_stats.c - the profile of a rank: accepted bytes survive a round trip, and can be summarized. */
#include "base/json.h"
#include "prof/summary/summary.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_summary(struct msi_op_stats *stats, struct msi_op_stats *again) {
    struct msi_op_stats *all_stats[] = {stats, NULL, again};
    struct msi_summary *summary;
    struct msi_buf text = {0}, json = {0};
    assert(msi_summary_make(all_stats, 3, true, &summary) == MST_OK);
    msi_summary_text(summary, &text);
    msi_summary_json(summary, &json);
    struct msi_json in = msi_json_of((const char *)json.data, json.len);
    assert(msi_json_skip(&in) && msi_json_end(&in));
    msi_buf_free(&text);
    msi_buf_free(&json);
    msi_summary_free(summary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct msi_op_stats *stats, *again;
    struct msi_buf first = {0}, second = {0};
    mst_status st = msi_op_stats_read(data, size, &stats);
    assert(st == MST_OK || st == MST_ERR_PROTOCOL);
    if (st != MST_OK) return 0;
    msi_op_stats_write(stats, &first);
    assert(msi_op_stats_read(first.data, first.len, &again) == MST_OK);
    msi_op_stats_write(again, &second);
    assert(first.len == second.len && !memcmp(first.data, second.data, first.len));
    check_summary(stats, again);
    msi_op_stats_free(stats);
    msi_op_stats_free(again);
    msi_buf_free(&first);
    msi_buf_free(&second);
    return 0;
}
