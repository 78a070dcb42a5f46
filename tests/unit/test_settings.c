/* test_settings.c - the table of MUSTER_* variables: defaults, limits, complaints, log levels. */
#include "harness.h"

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

#include <muster/muster.h>

/* Loads from an environment of one entry, or none. */
static mst_status load(struct msi_settings *settings, const char *entry) {
    char copy[600] = "";
    if (entry) snprintf(copy, sizeof copy, "%s", entry);
    char *environment[] = {entry ? copy : NULL, NULL};
    return msi_settings_load(settings, environment);
}

static void an_empty_environment_gives_the_defaults(void **state) {
    (void)state;
    struct msi_settings s;
    assert_ok(load(&s, NULL));
    assert_string_equal(s.log, "warn");
    assert_int_equal(s.init_timeout_ms, 300000);
    assert_int_equal(s.timeout_ms, 1800000);
    assert_string_equal(s.socket_ifname, "");
    assert_int_equal(s.store_max_key, 8 << 10);
    assert_int_equal(s.store_max_value, 64 << 20);
    assert_int_equal(s.store_max_total, 1 << 30);
    assert_int_equal(s.store_stall_ms, 30000);
    assert_int_equal(s.prof, 0);
    assert_string_equal(s.config, "");
    assert_string_equal(s.trace, "");
    assert_int_equal(s.flight, 1);
}

static void every_row_is_fit_to_be_shown(void **state) {
    (void)state;
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        assert_memory_equal(row->name, "MUSTER_", 7);
        assert_true(strlen(row->help) > 10);
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
        assert_true(row->kind == MSI_SETTING_TEXT || row->least <= row->most);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(row->name, msi_setting_rows[j].name);
    }
}

static void an_empty_value_stands_for_the_default(void **state) {
    (void)state;
    struct msi_settings s;
    assert_ok(load(&s, "MUSTER_STORE_MAX_KEY="));
    assert_int_equal(s.store_max_key, 8 << 10);
}

static void sizes_take_suffixes(void **state) {
    (void)state;
    static const struct {
        const char *entry;
        int64_t value;
    } cases[] = {{"MUSTER_STORE_MAX_VALUE=64", 64},
                 {"MUSTER_STORE_MAX_VALUE=3K", 3 << 10},
                 {"MUSTER_STORE_MAX_VALUE=3k", 3 << 10},
                 {"MUSTER_STORE_MAX_VALUE=5M", 5 << 20},
                 {"MUSTER_STORE_MAX_VALUE=5m", 5 << 20},
                 {"MUSTER_STORE_MAX_VALUE=2G", INT64_C(2) << 30},
                 {"MUSTER_STORE_MAX_VALUE=4294967296", INT64_C(1) << 32}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct msi_settings s;
        assert_ok(load(&s, cases[i].entry));
        assert_int_equal(s.store_max_value, cases[i].value);
    }
}

/* Every malformed value is refused with the variable, the value and what is allowed. */
static void malformed_values_name_the_variable(void **state) {
    (void)state;
    static const char *const entries[] = {
        "MUSTER_STORE_MAX_VALUE=x",
        "MUSTER_STORE_MAX_VALUE=12x",
        "MUSTER_STORE_MAX_VALUE=12KB",
        "MUSTER_STORE_MAX_VALUE=12 K",
        "MUSTER_STORE_MAX_VALUE=K",
        "MUSTER_STORE_MAX_VALUE=-64",
        "MUSTER_STORE_MAX_VALUE=63",
        "MUSTER_STORE_MAX_VALUE=4294967297",
        "MUSTER_STORE_MAX_VALUE=5G",
        "MUSTER_STORE_MAX_VALUE=99999999999999999999",
        "MUSTER_STORE_MAX_VALUE=0x40",
        "MUSTER_STORE_MAX_VALUE=9223372036854775807G",
        "MUSTER_STORE_MAX_VALUE=17179869185G",
        "MUSTER_STORE_STALL_MS=5s",
        "MUSTER_STORE_STALL_MS=1K",
        "MUSTER_STORE_STALL_MS=9",
        "MUSTER_TIMEOUT_MS=86400001",
        "MUSTER_TIMEOUT_MS=1.5",
        "MUSTER_TIMEOUT_MS=0",
        "MUSTER_STORE_MAX_VALUE=64 ",
        "MUSTER_STORE_LINGER_MS=-1",
    };
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        struct msi_settings s;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(entries[i], "="), entries[i]);
        if (load(&s, entries[i]) != MST_ERR_CONFIG) fail_msg("%s was taken", entries[i]);
        assert_contains(mst_error(), name);
        assert_contains(mst_error(), strchr(entries[i], '=') + 1);
        assert_contains(mst_error(), " to ");
        assert_true(mst_last_error()->remedy[0]);
    }
}

static void signs_and_blanks_are_no_part_of_a_number(void **state) {
    (void)state;
    static const char *const entries[] = {"MUSTER_STORE_MAX_VALUE= 64", "MUSTER_STORE_MAX_VALUE=+64",
                                          "MUSTER_STORE_LINGER_MS=-0", "MUSTER_STORE_LINGER_MS=\t5"};
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        struct msi_settings s;
        if (load(&s, entries[i]) != MST_ERR_CONFIG) fail_msg("'%s' was taken", entries[i]);
    }
}

static void auto_is_a_number_too(void **state) {
    (void)state;
    struct msi_settings s;
    assert_ok(load(&s, "MUSTER_TCP_STREAMS=3"));
    assert_int_equal(s.tcp_streams, 3);
    assert_ok(load(&s, "MUSTER_TCP_STREAMS=auto"));
    assert_int_equal(s.tcp_streams, 0);
    assert_status(load(&s, "MUSTER_TCP_STREAMS=automatic"), MST_ERR_CONFIG);
    assert_contains(mst_last_error()->message, "'automatic' is not auto or a whole number from 1 to 16");
    assert_status(load(&s, "MUSTER_TIMEOUT_MS=auto"), MST_ERR_CONFIG);
}

static void limits_are_inclusive(void **state) {
    (void)state;
    struct msi_settings s;
    for (size_t i = 0; i < msi_setting_count; i++) {
        const struct msi_setting_row *row = &msi_setting_rows[i];
        if (row->kind == MSI_SETTING_TEXT) continue;
        const int64_t inside[] = {row->least, row->most}, outside[] = {row->least - 1, row->most + 1};
        for (int k = 0; k < 2; k++) {
            char entry[128];
            int64_t value;
            snprintf(entry, sizeof entry, "%s=%lld", row->name, (long long)inside[k]);
            assert_ok(load(&s, entry));
            memcpy(&value, (char *)&s + row->offset, sizeof value);
            assert_int_equal(value, inside[k]);
            snprintf(entry, sizeof entry, "%s=%lld", row->name, (long long)outside[k]);
            assert_status(load(&s, entry), MST_ERR_CONFIG);
        }
    }
}

static void texts_have_a_longest_length(void **state) {
    (void)state;
    struct msi_settings s;
    char entry[400] = "MUSTER_FORCE_HOST=";
    size_t name = strlen(entry);
    memset(entry + name, 'h', MSI_SETTING_TEXT_MAX - 1);
    assert_ok(load(&s, entry));
    assert_int_equal(strlen(s.force_host), MSI_SETTING_TEXT_MAX - 1);
    entry[name + MSI_SETTING_TEXT_MAX - 1] = 'h';
    assert_status(load(&s, entry), MST_ERR_CONFIG);
    assert_contains(mst_error(), "MUSTER_FORCE_HOST");
}

static void load_two_strangers(void *context) {
    (void)context;
    struct msi_settings s;
    char a[] = "MUSTER_STORE_MAX_KEYS=5", b[] = "MUSTER_QUITE_SOMETHING_ELSE_ALTOGETHER=1", c[] = "PATH=/bin";
    char *environment[] = {a, b, c, NULL};
    for (int i = 0; i < 3; i++)
        if (msi_settings_load(&s, environment) != MST_OK) _exit(1);
}

static void unknown_variables_are_warned_of_once_with_the_nearest_name(void **state) {
    (void)state;
    char *text = in_child(load_two_strangers, NULL);
    assert_int_equal(count_of(text, "\n"), 2);
    assert_int_equal(count_of(text, "MUSTER_STORE_MAX_KEYS is not a setting of muster; did you mean "
                                    "MUSTER_STORE_MAX_KEY?"),
                     1);
    assert_int_equal(count_of(text, "MUSTER_QUITE_SOMETHING_ELSE_ALTOGETHER is not a setting"), 1);
    assert_contains(text, "muster info --env");
    assert_null(strstr(text, "PATH"));
    free(text);
}

static void load_stranger_silently(void *context) {
    (void)context;
    struct msi_settings s;
    char a[] = "MUSTER_STORE_MAX_KEYS=5", b[] = "MUSTER_LOG=error";
    char *environment[] = {a, b, NULL};
    if (msi_settings_load(&s, environment) != MST_OK) _exit(1);
}

static void the_log_level_holds_for_warnings_about_settings_too(void **state) {
    (void)state;
    char *text = in_child(load_stranger_silently, NULL);
    assert_string_equal(text, "");
    free(text);
}

static void log_levels_are_set_per_room(void **state) {
    (void)state;
    struct msi_settings s;
    static const char *const same[] = {"MUSTER_LOG=store=debug,error", "MUSTER_LOG=error,store=debug"};
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        assert_ok(load(&s, same[i]));
        assert_true(msi_log_on(MSI_MODULE_store, MSI_LOG_DEBUG));
        assert_true(msi_log_on(MSI_MODULE_group, MSI_LOG_ERROR));
        assert_false(msi_log_on(MSI_MODULE_group, MSI_LOG_WARN));
    }
    assert_ok(load(&s, "MUSTER_LOG=off"));
    assert_false(msi_log_on(MSI_MODULE_store, MSI_LOG_ERROR));
    assert_ok(load(&s, NULL));
    assert_true(msi_log_on(MSI_MODULE_store, MSI_LOG_WARN));
    assert_false(msi_log_on(MSI_MODULE_store, MSI_LOG_INFO));
}

static void malformed_log_levels_change_nothing(void **state) {
    (void)state;
    struct msi_settings s;
    static const char *const entries[] = {"MUSTER_LOG=loud", "MUSTER_LOG=store=loud", "MUSTER_LOG=attic=warn",
                                          "MUSTER_LOG=,",    "MUSTER_LOG==debug",     "MUSTER_LOG=WARN"};
    assert_ok(load(&s, "MUSTER_LOG=info"));
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        if (load(&s, entries[i]) != MST_ERR_CONFIG) fail_msg("%s was taken", entries[i]);
        assert_contains(mst_error(), "MUSTER_LOG");
        assert_true(msi_log_on(MSI_MODULE_store, MSI_LOG_INFO));
        assert_false(msi_log_on(MSI_MODULE_store, MSI_LOG_DEBUG));
    }
    assert_ok(load(&s, NULL));
}

static void a_log_line_is_whole_and_clean(void **state) {
    (void)state;
    struct caught_stderr caught = begin_stderr();
    msi_call_begin("mst_x", NULL, 4);
    msi_log(store, WARN, "two\nlines\x1b[31m and %d", 5);
    msi_log(store, DEBUG, "not shown");
    char long_text[3000];
    memset(long_text, 'y', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    msi_log(store, WARN, "%s", long_text);
    for (int i = 0; i < 3; i++) msi_warn_once(store, "said once");
    msi_call_rank(-1);
    char *text = end_stderr(caught);
    assert_contains(text, "[muster] rank 4 store warn: two lines [31m and 5\n");
    assert_int_equal(count_of(text, "\n"), 3);
    assert_int_equal(count_of(text, "said once"), 1);
    assert_null(strstr(text, "not shown"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: what is said once per process must not have been said yet when they fork. */
        cmocka_unit_test(unknown_variables_are_warned_of_once_with_the_nearest_name),
        cmocka_unit_test(the_log_level_holds_for_warnings_about_settings_too),
        cmocka_unit_test(an_empty_environment_gives_the_defaults),
        cmocka_unit_test(every_row_is_fit_to_be_shown),
        cmocka_unit_test(an_empty_value_stands_for_the_default),
        cmocka_unit_test(sizes_take_suffixes),
        cmocka_unit_test(malformed_values_name_the_variable),
        cmocka_unit_test(signs_and_blanks_are_no_part_of_a_number),
        cmocka_unit_test(auto_is_a_number_too),
        cmocka_unit_test(limits_are_inclusive),
        cmocka_unit_test(texts_have_a_longest_length),
        cmocka_unit_test(log_levels_are_set_per_room),
        cmocka_unit_test(malformed_log_levels_change_nothing),
        cmocka_unit_test(a_log_line_is_whole_and_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
