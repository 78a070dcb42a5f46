/* test_run_text.c - control characters are removed from text that other programs wrote. */
#include "../tools/muster/cli/text.c"

#include "harness.h"

static void check_clean(const char *text, bool keep_newlines, const char *want) {
    char got[64];

    snprintf(got, sizeof got, "%s", text);
    text_clean(got, keep_newlines);
    assert_string_equal(got, want);
}

static void cleaned(void **state) {
    (void)state;
    check_clean("", false, "");
    check_clean("plain ~ text", false, "plain ~ text");
    check_clean("\033[2J\a\b\r\x7f\x01", false, "?[2J?????");
    check_clean("a\tb\nc\n", false, "a?b?c?");
    check_clean("a\tb\nc\r\n", true, "a\tb\nc?\n");
    check_clean("\033\n\x7f", true, "?\n?");
    check_clean("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xc2\xa0", false,
                "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xc2\xa0");
    check_clean("\xc2\x9b"
                "2J \xc2\x80\xc2\x9f",
                true, "??2J ????");
    check_clean("\xc2", false, "\xc2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleaned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
