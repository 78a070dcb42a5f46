/* test_run_hosts.c - what --hosts and --hostfile take, and what they say to everything else. */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/nodes/hosts.c"

#include "harness.h"

#include <muster/muster.h>

/* All that hosts.c needs of options.c, which would bring the whole tool along. */
bool opt_read_number(const char *text, long long min, long long max, long long *number) {
    char *end;
    long long value = strtoll(text, &end, 10);

    if (end == text || *end != '\0' || value < min || value > max) return false;
    *number = value;
    return true;
}

/* The list as "name=ranks" or "name=ranks+open", or the message. */
static const char *show(mst_status st, struct hosts *hosts) {
    static char text[1024];

    text[0] = '\0';
    if (st != MST_OK) return mst_last_error()->message;
    for (int i = 0; i < hosts->n; i++) {
        const struct host *h = &hosts->list[i];
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, h->open ? "%s%s=%d+%d" : "%s%s=%d", i ? " " : "", h->name,
                 h->ranks, h->open);
    }
    hosts_free(hosts);
    return text;
}

static const char *list(const char *text) {
    struct hosts hosts;
    return show(hosts_read_list(text, &hosts), &hosts);
}

static const char *lines_of_len(const char *text, size_t len) {
    struct hosts hosts;
    return show(hosts_read_lines("h", text, len, &hosts), &hosts);
}

static const char *lines(const char *text) {
    return lines_of_len(text, strlen(text));
}

static void the_command_line(void **state) {
    (void)state;
    assert_string_equal(list("a"), "a=0+1");
    assert_string_equal(list("a,b:2,[fe80::1]:3,user@c:4"), "a=0+1 b=2 fe80::1=3 user@c=4");
    assert_string_equal(list("b:1,a:2,b:3"), "b=4 a=2");
    assert_string_equal(list("a,A,a:2"), "a=2+2");
    assert_string_equal(list("fe80::1%eth0,u.x@[::1],10.0.0.1:16384"),
                        "fe80::1%eth0=0+1 u.x@::1=0+1 10.0.0.1=16384");
}

static void mistakes_on_the_command_line(void **state) {
    (void)state;
    assert_string_equal(list(""), "--hosts: it names no host");
    assert_string_equal(list("a,,b"), "--hosts: 'a,,b' has an empty entry between commas");
    assert_string_equal(list("a,"), "--hosts: 'a,' has an empty entry between commas");
    assert_string_equal(list("a:x"), "--hosts: 'a:x' has no number of ranks from 1 to 16384");
    assert_string_equal(list("a:0"), "--hosts: 'a:0' has no number of ranks from 1 to 16384");
    assert_string_equal(list(":3"), "--hosts: ':3' has no host name");
    assert_string_equal(list("@a"), "--hosts: '@a' does not begin with a user name");
    assert_string_equal(list("-oProxyCommand=id"),
                        "--hosts: '-oProxyCommand=id' is not a host name or address");
    assert_string_equal(list("-l@a"), "--hosts: '-l@a' does not begin with a user name");
    assert_string_equal(list("u@-x"), "--hosts: 'u@-x' is not a host name or address");
    assert_string_equal(list("a;id"), "--hosts: 'a;id' is not a host name or address");
    assert_string_equal(list("a\n\x1b"), "--hosts: 'a\?\?' is not a host name or address");
    assert_string_equal(list("a:2:3"),
                        "--hosts: 'a:2:3' is neither host:N nor an IPv6 address; a number of ranks needs "
                        "[address]:N");
    assert_string_equal(list("[::1"), "--hosts: '[::1' has no ']'");
    assert_string_equal(list("[a]:1"), "--hosts: '[a]:1' has no IPv6 address in its brackets");
    assert_string_equal(list("[::1]x"), "--hosts: '[::1]x' has something other than ':N' after ']'");
    assert_string_equal(list("a:16000,a:385"), "--hosts: host a has more than 16384 ranks");
}

static void a_file(void **state) {
    (void)state;
    assert_string_equal(
        lines("# ours\n\na slots=4\r\n  b:2 \n\tu@c # one\n::1 slots=3 max_slots=3\na slots=1"),
        "a=5 b=2 u@c=0+1 ::1=3");
}

static void mistakes_in_a_file(void **state) {
    char line[1200];
    (void)state;
    assert_string_equal(lines("\n# nothing\n"), "h: it names no host");
    assert_string_equal(lines(""), "h: it names no host");
    assert_string_equal(lines("a\nb\nc slots=x\n"), "h:3: 'slots=x' has no number of ranks from 1 to 16384");
    assert_string_equal(lines("a slots=4 max_slots=3"), "h:1: 4 ranks on a are more than max_slots=3");
    assert_string_equal(lines("a:2 slots=2"), "h:1: 'slots=2' is a second number of ranks on one line");
    assert_string_equal(lines("a 2"), "h:1: '2' is not valid; a line is host, host:N or host slots=N");
    assert_string_equal(lines("a,b"), "h:1: 'a,b' has a comma; a line names one host");
    assert_string_equal(lines_of_len("a\nb\0c", 5), "h:2: the line has a zero byte; this is not a text file");
    memset(line, 'a', sizeof line);
    assert_string_equal(lines_of_len(line, sizeof line), "h:1: the line is longer than 1023 bytes");
    assert_non_null(strstr(lines_of_len(line, 300), "aaa...' is too long for a host name"));
}

static void many_hosts(void **state) {
    struct hosts hosts;
    size_t len = 0;
    char *text = malloc((HOSTS_MAX + 1) * 8);
    (void)state;

    assert_non_null(text);
    for (int i = 0; i < HOSTS_MAX; i++) len += (size_t)sprintf(text + len, "h%d\n", i);
    assert_int_equal(hosts_read_lines("h", text, len, &hosts), MST_OK);
    assert_int_equal(hosts.n, HOSTS_MAX);
    assert_string_equal(hosts.list[HOSTS_MAX - 1].name, "h4095");
    hosts_free(&hosts);
    len += (size_t)sprintf(text + len, "more\n");
    assert_int_equal(hosts_read_lines("h", text, len, &hosts), MST_ERR_INVALID);
    assert_string_equal(mst_last_error()->message, "h:4097: there are more than 4096 hosts");
    free(text);
}

static void how_many_ranks(void **state) {
    struct host once = {.name = "a", .open = 1}, both = {.name = "a", .ranks = 3, .open = 2};
    struct host given = {.name = "a", .ranks = 3};
    char text[HOSTS_NPROC_MAX];
    (void)state;

    assert_int_equal(hosts_nproc(&once, "4", text), MST_OK);
    assert_string_equal(text, "4");
    assert_int_equal(hosts_nproc(&once, "cpu", text), MST_OK);
    assert_string_equal(text, "cpu");
    assert_int_equal(hosts_nproc(&given, "cpu", text), MST_OK);
    assert_string_equal(text, "3");
    assert_int_equal(hosts_nproc(&both, "4", text), MST_OK);
    assert_string_equal(text, "11");
    assert_int_equal(hosts_nproc(&both, "cpu", text), MST_ERR_INVALID);
    assert_string_equal(mst_last_error()->message,
                        "host a is named more than once, and '-n cpu' cannot be added up");
    assert_int_equal(hosts_nproc(&both, "16384", text), MST_ERR_INVALID);
}

static const char *file(const char *path) {
    struct hosts hosts;
    return show(hosts_read_file(path, &hosts), &hosts);
}

static void what_a_path_may_lead_to(void **state) {
    char path[] = "/tmp/muster-hosts-XXXXXX";
    int fd = mkstemp(path);
    (void)state;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a:2\nb\n", 6), 6);
    assert_string_equal(file(path), "a=2 b=0+1");
    assert_int_equal(ftruncate(fd, HOSTS_FILE_MAX + 1), 0);
    assert_non_null(strstr(file(path), "it is longer than 1048576 bytes"));
    close(fd);
    unlink(path);
    assert_non_null(strstr(file(path), ": cannot open it: No such file"));
    assert_string_equal(file("/tmp"), "/tmp: cannot read it: Is a directory");
    assert_string_equal(file("/dev/null"), "/dev/null: it names no host");
    assert_string_equal(file("/dev/zero"), "/dev/zero: it is longer than 1048576 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_line),
        cmocka_unit_test(mistakes_on_the_command_line),
        cmocka_unit_test(a_file),
        cmocka_unit_test(mistakes_in_a_file),
        cmocka_unit_test(many_hosts),
        cmocka_unit_test(how_many_ranks),
        cmocka_unit_test(what_a_path_may_lead_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
