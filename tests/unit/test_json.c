/* test_json.c - JSON as it is read: what is right, what is wrong and where. */
#include "harness.h"

#include "base/json.h"

#include <locale.h>

static struct msi_json of(const char *text) {
    return msi_json_of(text, strlen(text));
}

/* A text in memory of its own size, so that a step beyond it is seen. */
static bool valid(const char *text, size_t n) {
    char *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, text, n);
    struct msi_json in = msi_json_of(exact, n);
    msi_json_skip(&in);
    bool right = msi_json_end(&in);
    assert_true(right || (in.at >= exact && in.at <= exact + n && in.expected));
    free(exact);
    return right;
}

static void assert_wrong(const char *text, size_t offset, const char *why) {
    char found[160];
    struct msi_json in = of(text);
    msi_json_skip(&in);
    if (msi_json_end(&in)) fail_msg("'%s' was taken", text);
    msi_json_explain(&in, found, sizeof found);
    if (strcmp(found, why)) fail_msg("%s: '%s', not '%s'", text, found, why);
    if (msi_json_place(&in, in.at).offset != offset) fail_msg("%s: at %td", text, in.at - in.begin);
    valid(text, strlen(text));
}

static void what_is_right_is_taken(void **state) {
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1.5e+3",
                                        "[ ]",
                                        "{\t}",
                                        "\"\"",
                                        " [1,\n2\r\n] ",
                                        "{\"\":{\"\":[[]]}}",
                                        "true",
                                        "false",
                                        "null",
                                        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                        "\"\\u00e9\"",
                                        "\"\xc3\xa9\"",
                                        "\"\\ud83D\\uDE00\"",
                                        "[1E-9,1e999999999999999999999]",
                                        "\"\x7f\""};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (!valid(texts[i], strlen(texts[i]))) fail_msg("'%s' was refused", texts[i]);
}

static void what_is_wrong_is_named_with_its_place(void **state) {
    (void)state;
    assert_wrong("", 0, "expected a value, not the end");
    assert_wrong("nul", 3, "expected null, not the end");
    assert_wrong("[nil]", 1, "expected null, not 'nil'");
    assert_wrong("[1,]", 3, "expected a value, not ']'");
    assert_wrong("[1 2]", 3, "expected ',' or ']', not '2'");
    assert_wrong("{a:1}", 1, "expected a key or '}', not 'a'");
    assert_wrong("{\"a\":1,}", 7, "expected a key, not '}'");
    assert_wrong("{\"a\" 1}", 5, "expected ':', not '1'");
    assert_wrong("{\"a\":1]", 6, "expected ',' or '}', not ']'");
    assert_wrong("{\"a\":}", 5, "expected a value, not '}'");
    assert_wrong("[1] x", 4, "expected the end, not 'x'");
    assert_wrong("'a'", 0, "expected a value, not ''a''");
    assert_wrong("\xef\xbb\xbf{}", 0, "expected a value, not byte 0xef");
    assert_wrong("NaN", 0, "expected a value, not 'NaN'");
    assert_wrong("/* */ 1", 0, "expected a value, not '/*'");
}

static void wrong_numbers_are_refused(void **state) {
    (void)state;
    assert_wrong("-", 1, "expected a digit, not the end");
    assert_wrong("+1", 0, "expected a value, not '+1'");
    assert_wrong(".5", 0, "expected a value, not '.5'");
    assert_wrong("01", 1, "expected the end, not '1'");
    assert_wrong("[1.]", 3, "expected a digit, not ']'");
    assert_wrong("[1e]", 3, "expected a digit, not ']'");
    assert_wrong("[1e-]", 4, "expected a digit, not ']'");
    assert_wrong("0x10", 1, "expected the end, not 'x10'");
    assert_wrong("-Infinity", 1, "expected a digit, not 'Infinity'");
}

static void wrong_strings_are_refused(void **state) {
    (void)state;
    assert_wrong("\"abc", 4, "expected the '\"' that ends the string, not the end");
    assert_wrong("\"abcdefgh\n\"", 9, "expected an escape instead of a control character, not byte 0x0a");
    assert_wrong("\"\\x41\"", 2, "expected one of \"\\/bfnrtu after the backslash, not 'x41\"'");
    assert_wrong("\"\\", 2, "expected one of \"\\/bfnrtu after the backslash, not the end");
    assert_wrong("\"\\u12g4\"", 5, "expected a hexadecimal digit, not 'g4\"'");
    assert_wrong("\"\\u12", 5, "expected a hexadecimal digit, not the end");
    assert_wrong("\"\\ude00\"", 1, "expected the first half of a surrogate pair, not '\\ude00\"'");
    assert_wrong("\"\\ud83d\"", 7, "expected the second half of a surrogate pair, not '\"'");
    assert_wrong("\"\\ud83d\\u0041\"", 7, "expected the second half of a surrogate pair, not '\\u0041\"'");
    assert_wrong("\"\\ud83d\\n\"", 8, "expected the second half of a surrogate pair, not 'n\"'");
    static const char nul[] = "\"\\\0\"";
    assert_false(valid(nul, sizeof nul - 1));
    static const char bare_nul[] = "\"\0\"";
    assert_false(valid(bare_nul, sizeof bare_nul - 1));
}

static void only_utf8_is_taken(void **state) {
    (void)state;
    static const char *const right[] = {"\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",    "\xed\x9f\xbf",
                                        "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const wrong[] = {"\x80",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff",
                                        "\xe2\x82",
                                        "\xc3("};
    char text[32];
    for (size_t pad = 0; pad < 10; pad++) {
        for (size_t i = 0; i < COUNT_OF(right); i++) {
            int n = snprintf(text, sizeof text, "\"%.*s%s\"", (int)pad, "aaaaaaaaaa", right[i]);
            assert_true(valid(text, (size_t)n));
            assert_false(valid(text, (size_t)n - 2)); /* within the character */
        }
        for (size_t i = 0; i < COUNT_OF(wrong); i++) {
            int n = snprintf(text, sizeof text, "\"%.*s%s\"", (int)pad, "aaaaaaaaaa", wrong[i]);
            assert_false(valid(text, (size_t)n));
        }
    }
}

/* Whatever a right text is cut to is told from a wrong one, numbers aside, which may end anywhere. */
static void a_cut_text_is_known_as_such(void **state) {
    (void)state;
    static const char text[] = "[{\"a\\n\\ud83d\\ude00\xe2\x82\xac\":[true,false,null,\"x\"]},-1.5e+7]";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct msi_json in = msi_json_of(text, n);
        msi_json_skip(&in);
        if (msi_json_end(&in) || in.at != in.end) fail_msg("cut at %zu: '%.*s'", n, (int)n, text);
    }
    struct msi_json in = of("[}");
    msi_json_skip(&in);
    assert_true(in.at != in.end);
}

static void depth_is_limited(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    static char text[DEEP];
    for (int i = 0; i < MSI_JSON_DEPTH_MOST; i++) {
        text[i] = '[';
        text[2 * MSI_JSON_DEPTH_MOST - 1 - i] = ']';
    }
    assert_true(valid(text, 2 * MSI_JSON_DEPTH_MOST));
    memset(text, '[', DEEP);
    struct msi_json in = msi_json_of(text, DEEP);
    assert_false(msi_json_skip(&in));
    assert_int_equal(in.at - text, MSI_JSON_DEPTH_MOST);
    assert_string_equal(in.expected, "less nesting");
    for (int i = 0; i < DEEP; i += 2) memcpy(text + i, "[]", 2); /* beside each other they do not count */
    in = msi_json_of(text, DEEP);
    for (int i = 0; i < DEEP; i += 2) assert_true(msi_json_skip(&in));
    assert_true(msi_json_end(&in));
}

static void lines_and_columns_are_counted(void **state) {
    (void)state;
    struct msi_json in = of("{\n \"\xc3\xa9\": [1,\r\n  x]}");
    msi_json_skip(&in);
    struct msi_json_place place = msi_json_place(&in, in.at);
    assert_int_equal(place.line, 3);
    assert_int_equal(place.column, 3);
    assert_int_equal(place.offset, 16);
    place = msi_json_place(&in, in.begin + 8); /* behind two bytes that are one character */
    assert_int_equal(place.line, 2);
    assert_int_equal(place.column, 6);
}

static void integers_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } right[] = {{"0", 0},
                 {"-0", 0},
                 {"-17", -17},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN},
                 {"4096.000", 4096},
                 {"1.5e3", 1500},
                 {"12000E-3", 12},
                 {"0.0e99999999999999999999", 0},
                 {"1e18", INT64_C(1000000000000000000)}};
    static const char *const wrong[] = {
        "0.5",  "9223372036854775808", "-9223372036854775809", "1e19", "1e-1", "18446744073709551617",
        "true", "1e99999999999999999", "100000000000000000000"};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        struct msi_json in = of(right[i].text);
        int64_t value = 77;
        assert_true(msi_json_int(&in, &value) && msi_json_end(&in));
        assert_true(value == right[i].value);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct msi_json in = of(wrong[i]);
        int64_t value = 77;
        assert_false(msi_json_int(&in, &value));
        assert_int_equal(value, 77);
        assert_ptr_equal(in.at, in.begin);
    }
}

static void assert_double(const char *text) {
    struct msi_json in = of(text);
    double value = 77, wanted = strtod(text, NULL);
    assert_true(msi_json_double(&in, &value) && msi_json_end(&in));
    if (memcmp(&value, &wanted, sizeof value)) fail_msg("%s became %.17g", text, value);
}

static void doubles_are_rounded_rightly(void **state) {
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0.0",
                                        "1.000",
                                        "123456789.123",
                                        "9007199254740993",
                                        "0.1",
                                        "1e22",
                                        "1e23",
                                        "8.5e-23",
                                        "1e-400",
                                        "4.9e-324",
                                        "2.4703282292062327e-324",
                                        "1.7976931348623157e308",
                                        "123456789012345678901234567890",
                                        "0.30000000000000004",
                                        "0.000000000000000000000000000001234",
                                        "1e-99999999999999999999999"};
    char text[64], most[2000];
    for (size_t i = 0; i < COUNT_OF(texts); i++) assert_double(texts[i]);
    uint64_t x = 1;
    for (int i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        snprintf(text, sizeof text, "%lld.%llue%d", (long long)(int64_t)x >> (i % 60),
                 (unsigned long long)(x >> 20) % 1000000, (int)(x >> 40) % 290);
        assert_double(text);
    }
    /* one digit far behind decides between two doubles */
    snprintf(most, sizeof most, "9007199254740993.%01500d1", 0);
    assert_double(most);
    double value = 77;
    struct msi_json in = of("1e309");
    assert_false(msi_json_double(&in, &value));
    assert_true(value == 77);
}

static void the_locale_does_not_matter(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) skip();
    struct msi_json in = of("1234567890123456789012.5");
    double value = 0;
    bool right = msi_json_double(&in, &value) && msi_json_end(&in);
    setlocale(LC_ALL, "C");
    assert_true(right && value == 1234567890123456789012.5);
}

static void the_rest_of_the_kinds(void **state) {
    (void)state;
    struct msi_json in = of(" [{}, [], \"a\", -1, true, false, null]");
    static const enum msi_json_kind kinds[] = {MSI_JSON_OBJECT, MSI_JSON_ARRAY, MSI_JSON_STRING,
                                               MSI_JSON_NUMBER, MSI_JSON_BOOL,  MSI_JSON_BOOL,
                                               MSI_JSON_NULL};
    static const char *const raws[] = {"{}", "[]", "\"a\"", "-1", "true", "false", "null"};
    size_t n = 0;
    assert_true(msi_json_array(&in));
    for (; msi_json_item(&in); n++) {
        struct msi_str raw;
        assert_true(n < COUNT_OF(kinds));
        assert_int_equal(msi_json_peek(&in), kinds[n]);
        assert_true(msi_json_raw(&in, &raw));
        assert_true(msi_str_equal(raw, msi_cstr(raws[n])));
    }
    assert_int_equal(n, COUNT_OF(kinds));
    assert_int_equal(msi_json_peek(&in), MSI_JSON_NONE);
    assert_true(msi_json_end(&in));
}

static void the_wrong_kind_is_a_fault_that_stays(void **state) {
    (void)state;
    struct msi_json in = of(" {\"a\": \"x\", \"b\": true}");
    struct msi_json_text key = {0}, text = {0};
    bool value = false;
    int64_t number = 5;
    char why[80];
    assert_true(msi_json_object(&in) && msi_json_key(&in, &key));
    assert_true(msi_json_is(key, "a"));
    assert_false(msi_json_bool(&in, &value));
    const char *at = in.at;
    assert_false(msi_json_string(&in, &text) || msi_json_key(&in, &key) || msi_json_item(&in) ||
                 msi_json_int(&in, &number) || msi_json_skip(&in) || msi_json_null(&in) ||
                 msi_json_object(&in) || msi_json_end(&in));
    assert_int_equal(msi_json_peek(&in), MSI_JSON_NONE);
    assert_ptr_equal(in.at, at);
    msi_json_explain(&in, why, sizeof why);
    assert_string_equal(why, "expected true or false, not '\"x\"'");
    msi_json_explain(&in, why, 8); /* a small buffer is filled, no more */
    assert_string_equal(why, "expecte");
}

static void strings_are_decoded(void **state) {
    (void)state;
    static const char whole[] = "q\" b\\ s/ \b\f\n\r\t \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xc3\xa9";
    struct msi_json in = of("\"q\\\" b\\\\ s\\/ \\b\\f\\n\\r\\t \\u00E9 \\u20ac \\ud83d\\ude00 \xc3\xa9\"");
    struct msi_json_text text;
    char small[64];
    struct msi_buf buf = {0};
    assert_true(msi_json_string(&in, &text) && msi_json_end(&in));
    assert_true(text.escaped);
    assert_true(msi_json_is(text, whole));
    assert_false(msi_json_is(text, "q\""));
    assert_int_equal(msi_json_copy(text, small, sizeof small), sizeof whole - 1);
    assert_string_equal(small, whole);
    msi_json_add(text, &buf);
    assert_int_equal(buf.len, sizeof whole - 1);
    assert_memory_equal(buf.data, whole, buf.len);
    msi_buf_free(&buf);
    for (size_t size = 1; size < sizeof whole; size++) {
        memset(small, 'z', sizeof small);
        assert_int_equal(msi_json_copy(text, small, size), sizeof whole - 1);
        size_t n = strlen(small);
        assert_true(n < size && size - n <= 4 && !memcmp(small, whole, n) && small[size] == 'z');
        assert_true((whole[n] & 0xc0) != 0x80); /* between characters */
    }
    assert_int_equal(msi_json_copy(text, NULL, 0), sizeof whole - 1);
}

static void a_zero_in_a_string_counts(void **state) {
    (void)state;
    struct msi_json in = of("\"a\\u0000b\"");
    struct msi_json_text text;
    char small[8];
    assert_true(msi_json_string(&in, &text));
    assert_int_equal(msi_json_copy(text, small, sizeof small), 3);
    assert_memory_equal(small, "a\0b", 4);
    assert_false(msi_json_is(text, "a"));
}

/* What a reader of traces does, the key written in another way for once. */
static void a_line_of_a_trace_is_read(void **state) {
    (void)state;
    struct msi_json in =
        of("{\"ph\":\"X\",\"pid\":3,\"\\u0074s\":1.000,\"dur\":2.500,\"args\":{\"seq\":17,\"more\":[{}]}}");
    struct msi_json_text key, ph = {0};
    int64_t pid = 0, seq = 0;
    double ts = 0, dur = 0;
    assert_true(msi_json_object(&in));
    while (msi_json_key(&in, &key)) {
        if (msi_json_is(key, "ph"))
            msi_json_string(&in, &ph);
        else if (msi_json_is(key, "pid"))
            msi_json_int(&in, &pid);
        else if (msi_json_is(key, "ts"))
            msi_json_double(&in, &ts);
        else if (msi_json_is(key, "dur"))
            msi_json_double(&in, &dur);
        else if (msi_json_object(&in))
            while (msi_json_key(&in, &key))
                msi_json_is(key, "seq") ? msi_json_int(&in, &seq) : msi_json_skip(&in);
    }
    assert_true(msi_json_end(&in));
    assert_true(msi_json_is(ph, "X") && pid == 3 && ts == 1 && dur == 2.5 && seq == 17);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_taken),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(wrong_numbers_are_refused),
        cmocka_unit_test(wrong_strings_are_refused),
        cmocka_unit_test(only_utf8_is_taken),
        cmocka_unit_test(a_cut_text_is_known_as_such),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(lines_and_columns_are_counted),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(doubles_are_rounded_rightly),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(the_rest_of_the_kinds),
        cmocka_unit_test(the_wrong_kind_is_a_fault_that_stays),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(a_zero_in_a_string_counts),
        cmocka_unit_test(a_line_of_a_trace_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
