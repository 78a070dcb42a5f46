/* settings.c - reads MUSTER_* variables by the table in settings.h. */
#include "base/settings.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/rank_state.h"
#include "base/units.h"

#include <string.h>
#include <unistd.h>

#define ROW(field, name, kind, preset, least, most, help)                                                    \
    {name, MSI_SETTING_##kind, preset, least, most, help, offsetof(struct msi_settings, field)},
const struct msi_setting_row msi_setting_rows[] = {MSI_SETTINGS(ROW)};
const size_t msi_setting_count = sizeof msi_setting_rows / sizeof *msi_setting_rows;

static mst_status set(struct msi_settings *settings, const struct msi_setting_row *row, const char *text) {
    char *field = (char *)settings + row->offset;
    if (row->kind == MSI_SETTING_TEXT) {
        if (strlen(text) >= MSI_SETTING_TEXT_MAX)
            return msi_fail(MST_ERR_CONFIG, NULL, "%s is longer than %d characters", row->name,
                            MSI_SETTING_TEXT_MAX - 1);
        strcpy(field, text);
        return MST_OK;
    }
    int64_t value = 0;
    bool automatic = row->kind == MSI_SETTING_AUTO && !strcmp(text, "auto");
    if (!automatic && (!msi_parse_number(text, row->kind == MSI_SETTING_SIZE, &value) || value < row->least ||
                       value > row->most))
        return msi_fail(MST_ERR_CONFIG, "correct or unset it; `muster info --env` lists all settings",
                        "%s='%s' is not %sa whole number%s from %lld to %lld", row->name, text,
                        row->kind == MSI_SETTING_AUTO ? "auto or " : "",
                        row->kind == MSI_SETTING_SIZE ? " (K, M or G may follow)" : "", (long long)row->least,
                        (long long)row->most);
    memcpy(field, &value, sizeof value);
    return MST_OK;
}

static void warn_unknown(const char *name, size_t len) {
    const char *nearest = NULL;
    int best = 6;
    for (size_t i = 0; i < msi_setting_count; i++) {
        int d = msi_edits(msi_str(name, len), msi_setting_rows[i].name);
        if (d < best) {
            best = d;
            nearest = msi_setting_rows[i].name;
        }
    }
    if (nearest)
        msi_log(base, WARN, "%.*s is not a setting of muster; did you mean %s?", (int)len, name, nearest);
    else
        msi_log(base, WARN, "%.*s is not a setting of muster; `muster info --env` lists them", (int)len,
                name);
}

static const struct msi_setting_row *find(const char *name, size_t len) {
    for (size_t i = 0; i < msi_setting_count; i++)
        if (strlen(msi_setting_rows[i].name) == len && !memcmp(msi_setting_rows[i].name, name, len))
            return &msi_setting_rows[i];
    return NULL;
}

static void warn_all_unknown(char *const *environment) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&warned)) return;
    for (char *const *entry = environment; *entry; entry++) {
        size_t len = strcspn(*entry, "=");
        bool ours = !strncmp(*entry, "MUSTER_", 7);
        bool internal = !strncmp(*entry, MSI_RANK_STATE_VARIABLE "=", sizeof MSI_RANK_STATE_VARIABLE) ||
                        !strncmp(*entry, MSI_SECRET_VARIABLE "=", sizeof MSI_SECRET_VARIABLE);
        if (ours && !internal && !find(*entry, len)) warn_unknown(*entry, len);
    }
}

mst_status msi_settings_load(struct msi_settings *settings, char *const *environment) {
    if (!environment) environment = environ;
    for (size_t i = 0; i < msi_setting_count; i++) {
        mst_status st = set(settings, &msi_setting_rows[i], msi_setting_rows[i].preset);
        if (st != MST_OK) return st;
    }
    for (char *const *entry = environment; *entry; entry++) {
        size_t len = strcspn(*entry, "=");
        const struct msi_setting_row *row = (*entry)[len] ? find(*entry, len) : NULL;
        if (!row || !(*entry)[len + 1]) continue; /* an empty value means the default */
        mst_status st = set(settings, row, *entry + len + 1);
        if (st != MST_OK) return st;
    }
    char why[160];
    if (!msi_log_configure(settings->log, why, sizeof why))
        return msi_fail(MST_ERR_CONFIG, "correct or unset it", "MUSTER_LOG='%s': %s", settings->log, why);
    warn_all_unknown(environment);
    return MST_OK;
}
