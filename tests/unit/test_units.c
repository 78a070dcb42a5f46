/* test_units.c - sizes and durations as text, medians, and the most similar name. */
#include "harness.h"

#include "base/median.h"
#include "base/nearest.h"
#include "base/units.h"

static void sizes_have_binary_units(void **state) {
    (void)state;
    static const struct {
        double bytes;
        const char *text;
    } known[] = {{0, "0 B"},         {512, "512 B"},           {1000, "1000 B"},    {1023, "1023 B"},
                 {1024, "1 KiB"},    {1536, "1.5 KiB"},        {102400, "100 KiB"}, {1048575, "1 MiB"},
                 {1 << 20, "1 MiB"}, {103022592, "98.25 MiB"}, {0x1p60, "1 EiB"},   {0x1p63, "8 EiB"}};
    char text[MSI_UNITS_TEXT];
    for (size_t i = 0; i < COUNT_OF(known); i++)
        assert_string_equal(msi_bytes_text(known[i].bytes, text), known[i].text);
}

static void durations_have_three_digits(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } known[] = {{0, "0 us"},        {1.234e-6, "1.23 us"}, {999.4e-6, "999 us"},
                 {999.6e-6, "1 ms"}, {1.25e-3, "1.25 ms"},  {0.9999, "1 s"},
                 {1.5, "1.5 s"},     {820, "820 s"},        {12345, "12345 s"}};
    char text[MSI_UNITS_TEXT];
    for (size_t i = 0; i < COUNT_OF(known); i++)
        assert_string_equal(msi_seconds_text(known[i].seconds, text), known[i].text);
}

static void numbers_are_read(void **state) {
    (void)state;
    static const char *const wrong[] = {"",        "K", "-1", " 1", "1.5", "1Q", "1KB", "9223372036854775808",
                                        "8388608T"};
    int64_t value;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) assert_false(msi_parse_number(wrong[i], true, &value));
    assert_false(msi_parse_number("1K", false, &value));
    assert_true(msi_parse_number("12", false, &value) && value == 12);
    assert_true(msi_parse_number("64k", true, &value) && value == 64 << 10);
    assert_true(msi_parse_number("2T", true, &value) && value == (int64_t)2 << 40);
}

static void the_median_is_in_the_middle(void **state) {
    (void)state;
    double one[] = {7}, odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    assert_true(msi_median(one, 1) == 7);
    assert_true(msi_median(odd, 3) == 2);
    assert_true(msi_median(even, 4) == 2.5);
}

static void edits_are_counted(void **state) {
    (void)state;
    assert_int_equal(msi_edits(msi_cstr("ring"), "ring"), 0);
    assert_int_equal(msi_edits(msi_cstr(""), "ring"), 4);
    assert_int_equal(msi_edits(msi_cstr("rign"), "ring"), 1);
    assert_int_equal(msi_edits(msi_cstr("king"), "rings"), 2);
    char longest[200] = {0};
    memset(longest, 'a', sizeof longest - 1);
    assert_true(msi_edits(msi_cstr(longest), longest) > 1000);
}

static void the_nearest_name_is_found(void **state) {
    (void)state;
    static const char *const names[] = {"all_reduce", "all_gather", "broadcast", "barrier"};
    static const struct {
        const char *typed, *nearest;
    } known[] = {{"all_redcue", "all_reduce"}, {"bcast", "broadcast"}, {"all_g", "all_gather"},
                 {"broda", "broadcast"},       {"xyz", NULL},          {"b", NULL}};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        const char *got = msi_nearest(known[i].typed, names, COUNT_OF(names), sizeof names[0]);
        assert_string_equal(got ? got : "none", known[i].nearest ? known[i].nearest : "none");
    }
    char longest[200] = {0};
    memset(longest, 'a', sizeof longest - 1);
    assert_null(msi_nearest(longest, names, COUNT_OF(names), sizeof names[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_binary_units), cmocka_unit_test(durations_have_three_digits),
        cmocka_unit_test(numbers_are_read),        cmocka_unit_test(the_median_is_in_the_middle),
        cmocka_unit_test(edits_are_counted),       cmocka_unit_test(the_nearest_name_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
