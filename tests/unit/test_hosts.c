/* test_hosts.c - lists of hosts and tasks as launchers write them. */
#include "harness.h"
#include "wire/hosts.h"
#include "wire/pmi.h"

#include <string.h>

static void check_at(msi_hosts_parser *parse, const char *text, uint64_t n, const char *host,
                     uint64_t count) {
    char found[MSI_HOST_MAX] = "";
    uint64_t found_count = 0;
    assert_int_equal(parse("LIST", text, n, found, &found_count), MST_OK);
    assert_string_equal(found, host);
    assert_int_equal(found_count, count);
}

/* Every host of a list, in order. */
static void check_all(msi_hosts_parser *parse, const char *text, const char *const *hosts) {
    uint64_t count = 0;
    while (hosts[count]) count++;
    for (uint64_t i = 0; i < count; i++) check_at(parse, text, i, hosts[i], count);
    char found[MSI_HOST_MAX] = "untouched";
    assert_int_equal(parse("LIST", text, count, found, NULL), MST_ERR_CONFIG);
    assert_string_equal(found, "untouched");
}

#define ALL(...) ((const char *const[]){__VA_ARGS__, NULL})

static void refused(msi_hosts_parser *parse, const char *text) {
    char found[MSI_HOST_MAX] = "untouched";
    uint64_t count = 77;
    assert_int_equal(parse("LIST", text, 0, found, &count), MST_ERR_CONFIG);
    assert_string_equal(found, "untouched");
    assert_int_equal(count, 77);
    assert_non_null(strstr(mst_last_error()->message, "LIST"));
}

static void slurm_lists(void **state) {
    (void)state;
    check_all(msi_hosts_slurm, "gpu5", ALL("gpu5"));
    check_all(msi_hosts_slurm, "a,b.example.org,c-1_x", ALL("a", "b.example.org", "c-1_x"));
    check_all(msi_hosts_slurm, "n[01-03,7],gpu5", ALL("n01", "n02", "n03", "n7", "gpu5"));
    check_all(msi_hosts_slurm, "n[9-11]", ALL("n9", "n10", "n11"));
    check_all(msi_hosts_slurm, "n[098-101]", ALL("n098", "n099", "n100", "n101"));
    check_all(msi_hosts_slurm, "[1-2]", ALL("1", "2"));
    check_all(msi_hosts_slurm, "r[0-1]n[1,3]-ib", ALL("r0n1-ib", "r0n3-ib", "r1n1-ib", "r1n3-ib"));
    check_all(msi_hosts_slurm, "a[1][2][3-4],z", ALL("a123", "a124", "z"));
    check_at(msi_hosts_slurm, "n[0-9999999]", 9999999, "n9999999", 10000000);
    check_at(msi_hosts_slurm, "r[0-999]n[0-999]", 123456, "r123n456", 1000000);
}

static void slurm_lists_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      ",",
                                      "a,",
                                      ",a",
                                      "a,,b",
                                      "n[",
                                      "n[]",
                                      "n[1",
                                      "n[1-",
                                      "n[1-]",
                                      "n[-1]",
                                      "n[3-1]",
                                      "n[1,]",
                                      "n[,1]",
                                      "n]",
                                      "n[1]]",
                                      "n[[1]]",
                                      "n[a]",
                                      "n[1-2-3]",
                                      "a b",
                                      "a\nb",
                                      "a;b",
                                      "n[1 -2]",
                                      "n[1234567890123456]",
                                      "n[0-99999999999999]",
                                      "r[0-9999]n[0-9999]",
                                      "n[0-16777215],x",
                                      "[1][1][1][1][1][1][1][1][1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(msi_hosts_slurm, bad[i]);
    char longer[MSI_HOST_MAX + 8];
    memset(longer, 'a', MSI_HOST_MAX);
    longer[MSI_HOST_MAX] = 0;
    refused(msi_hosts_slurm, longer);
    strcpy(longer + MSI_HOST_MAX - 2, "[9-10]"); /* the first fits, the second does not */
    char found[MSI_HOST_MAX];
    assert_int_equal(msi_hosts_slurm("LIST", longer, 0, found, NULL), MST_OK);
    assert_int_equal(strlen(found), MSI_HOST_MAX - 1);
    assert_int_equal(msi_hosts_slurm("LIST", longer, 1, found, NULL), MST_ERR_CONFIG);
    strcpy(longer + MSI_HOST_MAX - 1, "[1]");
    refused(msi_hosts_slurm, longer);
}

static void tasks(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int nodes, tasks[6];
    } good[] = {
        {"4", 1, {4}}, {"2(x3),1", 4, {2, 2, 2, 1}}, {"1,2,3", 3, {1, 2, 3}}, {"0(x2),7(x1)", 3, {0, 0, 7}}};
    uint64_t found = 99;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        for (int node = 0; node < good[i].nodes; node++) {
            assert_int_equal(msi_tasks_at("TASKS", good[i].text, (uint64_t)node, &found), MST_OK);
            assert_int_equal(found, good[i].tasks[node]);
        }
        found = 99;
        assert_int_equal(msi_tasks_at("TASKS", good[i].text, (uint64_t)good[i].nodes, &found),
                         MST_ERR_CONFIG);
        assert_int_equal(found, 99);
    }
    static const char *const bad[] = {"",
                                      ",",
                                      "2,",
                                      ",2",
                                      "2(",
                                      "2(x",
                                      "2(x)",
                                      "2(x3",
                                      "(x3)",
                                      "2(x0)",
                                      "2(x0),1",
                                      "2(y3)",
                                      "2x3",
                                      "-1",
                                      "2 ",
                                      "2(x3)1",
                                      "a",
                                      "99999999999999999999",
                                      "1(x99999999)",
                                      "1(x16777216),1",
                                      "16777217"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(msi_tasks_at("TASKS", bad[i], 0, &found), MST_ERR_CONFIG);
        assert_non_null(strstr(mst_last_error()->message, "TASKS"));
        assert_int_equal(found, 99);
    }
}

static void json_lists(void **state) {
    (void)state;
    check_all(msi_hosts_json, "[\"algo-1\"]", ALL("algo-1"));
    check_all(msi_hosts_json, " [ \"a\" ,\n\"b\",\t\"c\" ] ", ALL("a", "b", "c"));
    static const char *const bad[] = {"",           "[]",       "a",         "[\"a\"",        "[\"a\",]",
                                      "[,\"a\"]",   "[a]",      "\"a\"",     "[\"a\" \"b\"]", "[\"\"]",
                                      "[\"a\\n\"]", "[\"a\"]]", "[\"a\"] x", "[\"a b\"]",     "{\"a\":1}",
                                      "[1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(msi_hosts_json, bad[i]);
    uint64_t at = 9;
    assert_int_equal(msi_hosts_json_find("LIST", "[\"a\",\"b\"]", "b", &at), MST_OK);
    assert_int_equal(at, 1);
    assert_int_equal(msi_hosts_json_find("LIST", "[\"a\",\"b\"]", "c", &at), MST_ERR_CONFIG);
    assert_int_equal(msi_hosts_json_find("LIST", "[\"a\",\"b\"]", "", &at), MST_ERR_CONFIG);
}

static void other_lists(void **state) {
    (void)state;
    check_all(msi_hosts_lsf, "batch1 1 a01n02 42 a01n03 42", ALL("batch1", "a01n02", "a01n03"));
    refused(msi_hosts_lsf, "");
    refused(msi_hosts_lsf, "a");
    refused(msi_hosts_lsf, "a 1 b");
    refused(msi_hosts_lsf, "a b 1 2");
    refused(msi_hosts_lsf, "a 1x");
    check_all(msi_hosts_plain, "10.0.0.4", ALL("10.0.0.4"));
    check_all(msi_hosts_plain, "fd00::2", ALL("fd00::2"));
    refused(msi_hosts_plain, "");
    refused(msi_hosts_plain, "a b");
    check_all(msi_hosts_port, "10.0.0.4:6000", ALL("10.0.0.4"));
    check_all(msi_hosts_port, "node", ALL("node"));
    check_all(msi_hosts_port, "[::1]:6000", ALL("::1"));
    check_all(msi_hosts_port, "fd00::2", ALL("fd00::2"));
    refused(msi_hosts_port, ":6000");
    refused(msi_hosts_port, "[::1");
    refused(msi_hosts_port, "[::1]x");
}

static void orte_uris(void **state) {
    (void)state;
    check_all(msi_hosts_orte, "198574080.0;tcp://192.0.2.2:38121;tcp6://[fd00::2]:43733", ALL("192.0.2.2"));
    check_all(msi_hosts_orte, "1.0;tcp://10.0.0.4,192.168.1.4:38121", ALL("10.0.0.4"));
    check_all(msi_hosts_orte, "1.0;tcp6://[fd00::2,fd01::2]:4", ALL("fd00::2"));
    refused(msi_hosts_orte, "");
    refused(msi_hosts_orte, "1.0;usock");
    refused(msi_hosts_orte, "1.0;tcp://");
    refused(msi_hosts_orte, "1.0;tcp://:5");
}

static void pmi_lines(void **state) {
    (void)state;
    struct msi_str line = msi_cstr("cmd=get_result rc=0 msg=success value=[::1]:5 xvalue=6");
    assert_true(msi_pmi_is(line, "get_result"));
    assert_false(msi_pmi_is(line, "get"));
    assert_true(msi_pmi_succeeded(line));
    assert_true(msi_str_equal(msi_pmi_field(line, "value"), msi_cstr("[::1]:5")));
    assert_null(msi_pmi_field(line, "lue").p);
    assert_null(msi_pmi_field(line, "success").p);
    assert_null(msi_pmi_field(msi_cstr(""), "cmd").p);
    assert_int_equal(msi_pmi_field(msi_cstr("cmd="), "cmd").n, 0);
    assert_false(msi_pmi_succeeded(msi_cstr("cmd=get_result rc=-1 msg=key_not_found")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurm_lists), cmocka_unit_test(slurm_lists_refused), cmocka_unit_test(tasks),
        cmocka_unit_test(json_lists),  cmocka_unit_test(other_lists),         cmocka_unit_test(orte_uris),
        cmocka_unit_test(pmi_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
