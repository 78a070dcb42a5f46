/* test_run_remote.c - scripts for other hosts pass unchanged through shells; names of this machine. */
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/ssh/agent_script.c"
#include "../tools/muster/run/ssh/remote_local.c"

#include "harness.h"

#include <sys/wait.h>
#include <unistd.h>

enum { OUT_MAX = 65536 };

/* Runs shell -c command with input as its standard input and its output in out. Returns its exit status. */
static int run_shell(const char *shell, const char *command, const char *input, size_t input_len, char *out,
                     size_t *len) {
    char in_path[] = "/tmp/muster-in-XXXXXX", out_path[] = "/tmp/muster-out-XXXXXX";
    int in = mkstemp(in_path), to = mkstemp(out_path), status;

    assert_true(in >= 0 && to >= 0);
    unlink(in_path);
    unlink(out_path);
    assert_int_equal(write(in, input, input_len), input_len);
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in, 0);
        dup2(to, 1);
        dup2(to, 2);
        execlp(shell, shell, "-c", command, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ssize_t n = pread(to, out, OUT_MAX, 0);
    assert_true(n >= 0);
    *len = (size_t)n;
    close(in);
    close(to);
    return WEXITSTATUS(status);
}

static void all_bytes(char text[256]) {
    for (int i = 0; i < 255; i++) text[i] = (char)(i + 1);
    text[255] = '\0';
}

static void quoted_words_come_through_shells(void **state) {
    static const char *const shells[] = {"sh", "bash", "dash", "zsh"};
    static char out[OUT_MAX];
    char every[256];
    (void)state;

    all_bytes(every);
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        struct msi_buf text = {0};
        size_t len;

        msi_buf_add_text(&text, "printf %s ");
        text_quote(&text, every);
        msi_buf_add_text(&text, "; printf %s ");
        text_quote(&text, "");
        int rc = run_shell(shells[i], msi_buf_text(&text), "", 0, out, &len);
        msi_buf_free(&text);
        if (rc == 99) continue; /* no such shell here */
        assert_int_equal(rc, 0);
        assert_int_equal(len, 255);
        assert_memory_equal(out, every, 255);
    }
}

static void each_quoted_byte(void **state) {
    struct msi_buf text = {0};
    (void)state;
    text_quote(&text, "it's");
    assert_string_equal(msi_buf_text(&text), "'it'\\''s'");
    msi_buf_free(&text);
}

/* As ssh would run it: a command for the login shell, the script and more in its standard input. */
static int run_script(const struct agent_script *script, const char *shell, const char *rest, char *out,
                      size_t *len) {
    struct msi_buf input = {0}, command = {0};

    agent_script_write(script, &input);
    agent_script_command(input.len, &command);
    msi_buf_add_text(&input, rest);
    int rc = run_shell(shell, msi_buf_text(&command), msi_buf_text(&input), input.len, out, len);
    msi_buf_free(&input);
    msi_buf_free(&command);
    return rc;
}

static void a_script_and_what_follows_it(void **state) {
    static const char *const shells[] = {"sh", "bash", "csh", "tcsh", "fish", "zsh"};
    static char out[OUT_MAX], expected[OUT_MAX];
    char every[256], variable[300];
    (void)state;

    all_bytes(every);
    snprintf(variable, sizeof variable, "MUSTER_X=%s", every);
    const char *const words[] = {"-c", "printf '%s|%s|%s|%s|' \"$0\" \"$1\" \"$MUSTER_X\" \"$PWD\"; cat",
                                 every, "a b'c\n!"};
    struct msi_buf exports = {0}, arguments = {0};
    agent_script_add_export(&exports, variable, every);
    agent_script_add_export(&exports, "EMPTY", "");
    for (size_t i = 0; i < COUNT_OF(words); i++) agent_script_add_argument(&arguments, words[i]);
    struct agent_script script = {.directory = "/tmp",
                                  .muster = "sh",
                                  .exports = msi_buf_str(&exports),
                                  .arguments = msi_buf_str(&arguments)};
    int length =
        snprintf(expected, sizeof expected, "\n" AGENT_MARK "\n%s|a b'c\n!|%s|/tmp|the rest\n", every, every);
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        size_t len;
        int rc = run_script(&script, shells[i], "the rest\n", out, &len);
        if (rc == 99) continue; /* no such shell here */
        assert_int_equal(rc, 0);
        assert_int_equal(len, length);
        assert_memory_equal(out, expected, len);
    }
    msi_buf_free(&exports);
    msi_buf_free(&arguments);
}

/* On descriptor 3, so that standard input is left to the ranks. */
static void a_secret_comes_on_its_own_descriptor(void **state) {
    static const char *const shells[] = {"sh", "bash", "csh", "tcsh", "fish", "zsh"};
    static const char expected[] = "\n" AGENT_MARK "\n0123456789abcdef\nthe rest\n";
    static char out[OUT_MAX];
    struct msi_buf arguments = {0};
    (void)state;
    agent_script_add_argument(&arguments, "-c");
    agent_script_add_argument(&arguments, "cat <&3; cat");
    struct agent_script script = {
        .directory = "/", .muster = "sh", .secret = "0123456789abcdef", .arguments = msi_buf_str(&arguments)};
    for (size_t i = 0; i < COUNT_OF(shells); i++) {
        size_t len;
        int rc = run_script(&script, shells[i], "the rest\n", out, &len);
        if (rc == 99) continue; /* no such shell here */
        assert_int_equal(rc, 0);
        assert_int_equal(len, sizeof expected - 1);
        assert_memory_equal(out, expected, len);
    }
    msi_buf_free(&arguments);
}

static void what_is_missing_over_there(void **state) {
    static char out[OUT_MAX];
    struct agent_script script = {.directory = "/no/such 'place", .muster = "sh"};
    size_t len;
    (void)state;

    assert_int_equal(run_script(&script, "sh", "", out, &len), 2);
    out[len] = '\0';
    assert_string_equal(out, "cannot change to the directory /no/such 'place\n");
    script.directory = "/";
    script.muster = "/no/muster";
    assert_int_equal(run_script(&script, "sh", "", out, &len), 2);
    out[len] = '\0';
    assert_string_equal(out, "there is no program /no/muster; --remote-muster may name another\n");
}

static void names_of_variables(void **state) {
    (void)state;
    assert_true(agent_script_can_set("A"));
    assert_true(agent_script_can_set("_a9=x y"));
    assert_false(agent_script_can_set(""));
    assert_false(agent_script_can_set("=x"));
    assert_false(agent_script_can_set("9a"));
    assert_false(agent_script_can_set("a.b=1"));
    assert_false(agent_script_can_set("a;id=1"));
}

static void this_machine(void **state) {
    char own[MSI_HOST_MAX];
    (void)state;
    assert_true(remote_is_here("localhost"));
    assert_true(remote_is_here("127.0.0.1"));
    assert_true(remote_is_here("127.3.2.1"));
    assert_true(remote_is_here("::1"));
    assert_true(remote_is_here("0:0::1"));
    assert_true(remote_is_here(msi_host_name(own)));
    assert_false(remote_is_here("192.0.2.1"));
    assert_false(remote_is_here("2001:db8::1"));
    assert_false(remote_is_here("nobody@localhost"));
    assert_false(remote_is_here("surely-not-this-host"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quoted_words_come_through_shells),
        cmocka_unit_test(each_quoted_byte),
        cmocka_unit_test(a_script_and_what_follows_it),
        cmocka_unit_test(a_secret_comes_on_its_own_descriptor),
        cmocka_unit_test(what_is_missing_over_there),
        cmocka_unit_test(names_of_variables),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
