/* test_prof_config.c - DeepSpeed's configuration of the comms logger: valid texts and every error message. */
#include "harness.h"

#include "prof/record/config.h"

#include <muster/muster.h>
#include <sys/stat.h>

static void assert_refused(const char *text_or_path, const char *part) {
    struct msi_prof_config config, untouched;
    memset(&config, 0x5a, sizeof config);
    untouched = config;
    assert_status(msi_prof_config_read(text_or_path, &config), MST_ERR_CONFIG);
    assert_contains(mst_last_error()->message, part);
    assert_true(mst_last_error()->remedy[0]);
    assert_memory_equal(&config, &untouched, sizeof config);
}

static void assert_is_default(const char *text) {
    struct msi_prof_config config;
    memset(&config, 0x5a, sizeof config);
    assert_ok(msi_prof_config_read(text, &config));
    assert_memory_equal(&config, &msi_prof_config_default, sizeof config);
}

static void the_defaults_are_deepspeeds(void **state) {
    (void)state;
    const struct msi_prof_config *d = &msi_prof_config_default;
    assert_true(!d->enabled && !d->verbose && d->prof_all && !d->debug && d->n_ops == 0);
    assert_is_default("{}");
    assert_is_default(" \r\n\t{\"comms_logger\": {}}\n");
    assert_is_default("{\"train_batch_size\": 8, \"zero\": {\"stage\": [3, null]}, \"Comms_logger\": 7}");
}

static void everything_can_be_set(void **state) {
    (void)state;
    struct msi_prof_config config;
    assert_ok(
        msi_prof_config_read("{\"steps\": 1e3, \"comms_logger\": {\"enabled\": true, \"verbose\": true, "
                             "\"prof_all\": false, \"debug\": true, "
                             "\"prof_ops\": [\"all_reduce\", \"gr\\u00fcn\"]}, \"x\": []}",
                             &config));
    assert_true(config.enabled && config.verbose && !config.prof_all && config.debug);
    assert_int_equal(config.n_ops, 2);
    assert_string_equal(config.ops[0], "all_reduce");
    assert_string_equal(config.ops[1], "gr\xc3\xbcn");
    assert_ok(msi_prof_config_read("{\"comms_logger\": {\"\\u0065nabled\": true}}", &config));
    assert_true(config.enabled && config.prof_all && config.n_ops == 0); /* nothing is left of before */
}

static void malformed_text_is_named_with_its_place(void **state) {
    (void)state;
    assert_refused("{\"comms_logger\": {\"enabled\": True}}",
                   "configuration:1:30: comms_logger.enabled: expected true or false, not 'True'");
    assert_refused("{\n  \"comms_logger\": {\n    \"enabled\": tru\n}}",
                   "configuration:3:16: comms_logger.enabled: expected true, not 'tru'");
    assert_refused("{\"comms_logger\": {\"enabled\": truex}}",
                   "configuration:1:30: comms_logger.enabled: expected true, not 'truex'");
    assert_refused("{\"comms_logger\": {\"enabled\": true,}}", "configuration:1:35: expected a key, not '}'");
    assert_refused("{\"comms_logger\": {\"enabled\": true}",
                   "configuration:1:35: expected ',' or '}', not the end");
    assert_refused("{\"comms_logger\": {\"prof_ops\": [\"a\"}}", "expected ',' or ']', not '}'");
    assert_refused("{\"comms_logger\": {\"prof_ops\": [\"a", "not the end");
    assert_refused("{\"comms_logger\": {\"prof_ops\": [\"a\\q\"]}}", "after the backslash");
    assert_refused("{\"other\": nil, \"comms_logger\": {}}", "configuration:1:11: expected null");
    assert_refused("{} {}", "configuration:1:4: expected the end, not '{'");
    assert_refused("{'comms_logger': {}}", "expected a key or '}'");
}

static void wrong_kinds_are_named_with_their_value(void **state) {
    (void)state;
    assert_refused("{\"comms_logger\": true}",
                   "configuration:1:18: comms_logger is true, but an object is expected");
    assert_refused("{\"comms_logger\": {\"enabled\": \"yes\"}}",
                   "configuration:1:30: comms_logger.enabled is \"yes\", but true or false is expected");
    assert_refused("{\"comms_logger\": {\"verbose\": 1}}",
                   "comms_logger.verbose is 1, but true or false is expected");
    assert_refused("{\"comms_logger\": {\"prof_all\": null}}", "comms_logger.prof_all is null, but");
    assert_refused("{\"comms_logger\": {\"debug\": {\"a\": 1}}}", "comms_logger.debug is an object, but");
    assert_refused("{\"comms_logger\": {\"debug\": [1]}}", "comms_logger.debug is an array, but");
    assert_refused("{\"comms_logger\": {\"prof_ops\": \"all_reduce\"}}",
                   "comms_logger.prof_ops is \"all_reduce\", but a list of names");
    assert_refused(
        "{\"comms_logger\": {\"prof_ops\":\n[\"all_reduce\",\n 7]}}",
        "configuration:3:2: an item of comms_logger.prof_ops is 7, but a name in quotes is expected");
    /* a long value is cut between characters: 59 bytes and the quote, not 60 and half an e */
    assert_refused(
        "{\"comms_logger\": {\"enabled\": \"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffff"
        "\xc3\xa9zzz\"}}",
        "effffffff..., but");
}

static void unknown_keys_get_a_hint(void **state) {
    (void)state;
    assert_refused("{\"comms_logger\": {\n\"enable\": true}}",
                   "configuration:2:2: comms_logger has no key 'enable'; its keys are enabled, verbose");
    assert_contains(mst_last_error()->remedy, "did you mean 'enabled'?");
    assert_refused("{\"comms_logger\": {\"prof_op\": []}}", "no key 'prof_op'");
    assert_contains(mst_last_error()->remedy, "did you mean 'prof_ops'?");
    assert_refused("{\"comms_logger\": {\"something_else\": []}}", "no key 'something_else'");
    assert_string_equal(mst_last_error()->remedy, "correct or remove it");
    assert_refused("{\"comms_logger\": {\"\\n\": []}}", "no key '\\n'");
}

static void keys_that_are_there_twice_are_refused(void **state) {
    (void)state;
    assert_refused("{\"comms_logger\": {\"debug\": true, \"debug\": false}}",
                   "1:35: the key 'debug' occurs twice");
    assert_refused("{\"comms_logger\": {}, \"comms_logger\": {}}", "the key 'comms_logger' occurs twice");
    assert_is_default("{\"other\": 1, \"other\": 2}");
}

static void names_have_limits(void **state) {
    (void)state;
    struct msi_prof_config config;
    char text[2000] = "{\"comms_logger\": {\"prof_ops\": [\"n\"", name[MSI_PROF_NAME_MAX + 1];
    for (int i = 1; i < MSI_PROF_OPS_MOST; i++) strcat(text, ",\"n\"");
    size_t end = strlen(text);
    strcat(text, "]}}");
    assert_ok(msi_prof_config_read(text, &config));
    assert_int_equal(config.n_ops, MSI_PROF_OPS_MOST);
    strcpy(text + end, ",\"n\"]}}");
    assert_refused(text, "prof_ops has more than 64 names");
    memset(name, 'n', sizeof name);
    snprintf(text, sizeof text, "{\"comms_logger\": {\"prof_ops\": [\"%.63s\"]}}", name);
    assert_ok(msi_prof_config_read(text, &config));
    assert_int_equal(strlen(config.ops[0]), 63);
    snprintf(text, sizeof text, "{\"comms_logger\": {\"prof_ops\": [\"%.64s\"]}}", name);
    assert_refused(text, "but a name of 1 to 63 bytes is expected");
    assert_refused("{\"comms_logger\": {\"prof_ops\": [\"\"]}}", "prof_ops is \"\", but a name of 1 to 63");
    assert_refused("{\"comms_logger\": {\"prof_ops\": [\"a\\u0000b\"]}}", "prof_ops is \"a\\u0000b\", but");
}

/* A file with the given bytes; its path is to be unlinked. */
static void write_file(char path[], const void *data, size_t n) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

static void files_are_read(void **state) {
    (void)state;
    static const char text[] = "\n{\"comms_logger\": {\"enabled\": true}}\n",
                      wrong[] = "{\n\"comms_logger\": 1}";
    char path[] = "/tmp/muster-test-config-XXXXXX", other[] = "/tmp/muster-test-config-XXXXXX", place[80];
    struct msi_prof_config config;
    write_file(path, text, sizeof text - 1);
    assert_ok(msi_prof_config_read(path, &config));
    assert_true(config.enabled);
    unlink(path);
    write_file(other, wrong, sizeof wrong - 1);
    snprintf(place, sizeof place, "%s:2:17: comms_logger is 1", other);
    assert_refused(other, place);
    unlink(other);
    assert_refused(path, "No such file");
    assert_contains(mst_last_error()->message, path);
}

static void files_that_are_none_are_refused(void **state) {
    (void)state;
    char path[] = "/tmp/muster-test-config-XXXXXX";
    assert_refused(NULL, "the configuration is empty");
    assert_refused("", "the configuration is empty");
    assert_refused("[1]", "cannot read the configuration '[1]'");
    assert_refused("/tmp", "it is a directory");
    assert_refused("/dev/zero", "it is not a regular file");
    write_file(path, "", 0);
    assert_refused(path, "is empty");
    if (geteuid() != 0) {
        chmod(path, 0);
        assert_refused(path, "Permission denied");
    }
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* without a writer */
    assert_refused(path, "it is not a regular file");
    unlink(path);
}

static void long_files_are_refused(void **state) {
    (void)state;
    char *text = malloc(MSI_PROF_CONFIG_MOST + 1), path[] = "/tmp/muster-test-config-XXXXXX";
    char other[] = "/tmp/muster-test-config-XXXXXX";
    assert_non_null(text);
    memset(text, ' ', MSI_PROF_CONFIG_MOST + 1);
    write_file(path, text, MSI_PROF_CONFIG_MOST);
    assert_refused(path, "is empty"); /* blanks are nothing */
    memcpy(text, "{}", 2);
    struct msi_prof_config config;
    write_file(other, text, MSI_PROF_CONFIG_MOST + 1);
    assert_refused(other, "longer than 1 MiB");
    assert_int_equal(truncate(other, MSI_PROF_CONFIG_MOST), 0);
    assert_ok(msi_prof_config_read(other, &config));
    unlink(path);
    unlink(other);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_deepspeeds),
        cmocka_unit_test(everything_can_be_set),
        cmocka_unit_test(malformed_text_is_named_with_its_place),
        cmocka_unit_test(wrong_kinds_are_named_with_their_value),
        cmocka_unit_test(unknown_keys_get_a_hint),
        cmocka_unit_test(keys_that_are_there_twice_are_refused),
        cmocka_unit_test(names_have_limits),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(files_that_are_none_are_refused),
        cmocka_unit_test(long_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
