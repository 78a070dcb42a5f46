/* fuzz_settings.c - an environment, one entry a line. What is taken is within the table's limits. */
#include "base/settings.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ENTRIES = 32 };

static void check(const struct msi_settings *settings) {
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        const char *field = (const char *)settings + row->offset;
        if (row->kind == MSI_SETTING_TEXT) {
            assert(memchr(field, 0, MSI_SETTING_TEXT_MAX));
        } else {
            int64_t value;
            memcpy(&value, field, sizeof value);
            bool automatic = row->kind == MSI_SETTING_AUTO && value == 0;
            assert(automatic || (value >= row->least && value <= row->most));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *entries[MAX_ENTRIES + 1] = {NULL}, *text = malloc(size + 1), *rest = NULL;
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    int n = 0;
    for (char *line = strtok_r(text, "\n", &rest); line && n < MAX_ENTRIES;
         line = strtok_r(NULL, "\n", &rest))
        entries[n++] = line;
    struct msi_settings settings;
    memset(&settings, 0x5a, sizeof settings);
    mst_status st = msi_settings_load(&settings, entries);
    assert(st == MST_OK || st == MST_ERR_CONFIG);
    if (st == MST_OK) check(&settings);
    free(text);
    return 0;
}
