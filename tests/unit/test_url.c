/* test_url.c - the urls of stores and init methods. */
#include "harness.h"

#include "wire/url.h"

#include <muster/muster.h>

static struct msi_url parse(const char *text) {
    struct msi_url url;
    if (msi_url_parse(text, &url) != MST_OK) fail_msg("%s: %s", text, mst_error());
    return url;
}

static void tcp_has_host_and_port(void **state) {
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
    } cases[] = {{"tcp://127.0.0.1:29500", "127.0.0.1", 29500},
                 {"tcp://node-1.cluster:0", "node-1.cluster", 0},
                 {"tcp://[::1]:65535", "::1", 65535},
                 {"tcp://[fe80::1%eth0]:1", "fe80::1%eth0", 1},
                 {"tcp://h:1?rank=0", "h", 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct msi_url url = parse(cases[i].text);
        assert_int_equal(url.scheme, MSI_SCHEME_TCP);
        assert_string_equal(url.address.host, cases[i].host);
        assert_int_equal(url.address.port, cases[i].port);
    }
}

static void the_query_has_rank_and_world_size(void **state) {
    (void)state;
    struct msi_url url = parse("tcp://h:1?rank=3&world_size=16");
    assert_int_equal(url.rank, 3);
    assert_int_equal(url.world_size, 16);
    url = parse("file:///a/b?world_size=2147483647");
    assert_int_equal(url.rank, -1);
    assert_int_equal(url.world_size, 2147483647);
    url = parse("env://");
    assert_int_equal(url.rank, -1);
    assert_int_equal(url.world_size, -1);
    url = parse("tcp://h:1?");
    assert_int_equal(url.rank, -1);
}

static void file_has_an_absolute_path(void **state) {
    (void)state;
    assert_string_equal(parse("file:///tmp/meet").path, "/tmp/meet");
    assert_string_equal(parse("file:///tmp/a b&c=d?rank=1").path, "/tmp/a b&c=d");
    assert_int_equal(parse("file:///x").scheme, MSI_SCHEME_FILE);
    char text[MSI_PATH_MAX + 16] = "file:///";
    memset(text + 8, 'p', MSI_PATH_MAX - 2);
    assert_int_equal(strlen(parse(text).path), MSI_PATH_MAX - 1);
    text[8 + MSI_PATH_MAX - 2] = 'p';
    struct msi_url url;
    assert_status(msi_url_parse(text, &url), MST_ERR_ADDRESS);
}

static void env_and_hash_stand_alone(void **state) {
    (void)state;
    assert_int_equal(parse("env://").scheme, MSI_SCHEME_ENV);
    assert_int_equal(parse("hash://").scheme, MSI_SCHEME_HASH);
}

static void host_names_have_a_longest_length(void **state) {
    (void)state;
    char text[MSI_HOST_MAX + 32] = "tcp://";
    memset(text + 6, 'h', MSI_HOST_MAX - 1);
    strcpy(text + 6 + MSI_HOST_MAX - 1, ":1");
    assert_int_equal(strlen(parse(text).address.host), MSI_HOST_MAX - 1);
    memset(text + 6, 'h', MSI_HOST_MAX);
    strcpy(text + 6 + MSI_HOST_MAX, ":1");
    struct msi_url url;
    assert_status(msi_url_parse(text, &url), MST_ERR_ADDRESS);
}

static void what_is_malformed_is_refused_and_leaves_the_output_alone(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "tcp",
        "tcp:",
        "tcp://",
        "tcp://host",
        "tcp://host:",
        "tcp://:1",
        "tcp://host:x",
        "tcp://host:1x",
        "tcp://host:-1",
        "tcp://host:+1",
        "tcp://host: 1",
        "tcp://host:65536",
        "tcp://host:99999999999999999999",
        "tcp://::1:29500",
        "tcp://[::1]",
        "tcp://[::1:29500",
        "tcp://[::1]29500",
        "tcp://[]:1",
        "tcp://[::1]x:1",
        "TCP://host:1",
        "file://",
        "file:///",
        "file://relative",
        "env://x",
        "hash://x",
        "http://host:80",
        "tcp://host:1?rank",
        "tcp://host:1?rank=",
        "tcp://host:1?rank=x",
        "tcp://host:1?rank=-1",
        "tcp://host:1?rank=2147483648",
        "tcp://host:1?size=4",
        "tcp://host:1?rank=1&&world_size=2",
        "tcp://host:1?ran=1",
        "tcp://host:1?=1",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct msi_url url, before;
        memset(&url, 0x5a, sizeof url);
        before = url;
        if (msi_url_parse(texts[i], &url) != MST_ERR_ADDRESS) fail_msg("'%s' was taken", texts[i]);
        assert_memory_equal(&url, &before, sizeof url);
        assert_true(mst_last_error()->message[0]);
    }
}

static void an_error_says_how_to_write_it(void **state) {
    (void)state;
    struct msi_url url;
    msi_url_parse("tcp://::1:29500", &url);
    assert_contains(mst_error(), "[::1]:29500");
    msi_url_parse("carrier-pigeon://x", &url);
    assert_contains(mst_error(), "tcp://host:port");
    msi_url_parse("file://relative", &url);
    assert_contains(mst_error(), "file:///");
}

static void addresses_are_written_as_they_are_read(void **state) {
    (void)state;
    char out[MSI_ADDRESS_TEXT_MAX];
    assert_string_equal(msi_address_format(&(struct msi_address){"::1", 5}, out), "[::1]:5");
    assert_string_equal(msi_address_format(&(struct msi_address){"host", 65535}, out), "host:65535");
    struct msi_address longest = {"", 65535};
    memset(longest.host, ':', MSI_HOST_MAX - 1);
    assert_int_equal(strlen(msi_address_format(&longest, out)), MSI_HOST_MAX - 1 + strlen("[]:65535"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_has_host_and_port),
        cmocka_unit_test(the_query_has_rank_and_world_size),
        cmocka_unit_test(file_has_an_absolute_path),
        cmocka_unit_test(env_and_hash_stand_alone),
        cmocka_unit_test(host_names_have_a_longest_length),
        cmocka_unit_test(what_is_malformed_is_refused_and_leaves_the_output_alone),
        cmocka_unit_test(an_error_says_how_to_write_it),
        cmocka_unit_test(addresses_are_written_as_they_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
