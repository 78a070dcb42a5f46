/* test_json_write.c - JSON as it is written. */
#include "harness.h"

#include "base/json.h"

#include <locale.h>
#include <math.h>

static void assert_written(struct msi_buf *buf, const char *wanted) {
    assert_false(buf->failed);
    if (buf->len != strlen(wanted) || memcmp(buf->data, wanted, buf->len))
        fail_msg("'%.*s', not '%s'", (int)buf->len, (char *)buf->data, wanted);
    msi_buf_free(buf);
}

static void the_writer_sets_commas(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    struct msi_json_out out = msi_json_to(&buf);
    msi_json_put_object(&out);
    msi_json_put_key(&out, "a");
    msi_json_put_array(&out);
    msi_json_put_array(&out);
    msi_json_put_array_end(&out);
    msi_json_put_object(&out);
    msi_json_put_object_end(&out);
    msi_json_put_int(&out, INT64_MIN);
    msi_json_put_uint(&out, UINT64_MAX);
    msi_json_put_array_end(&out);
    msi_json_put_key(&out, "\"b\"");
    msi_json_put_bool(&out, true);
    msi_json_put_key(&out, "c");
    msi_json_put_null(&out);
    msi_json_put_key(&out, "d");
    msi_json_put_raw(&out, msi_cstr("[1]"));
    msi_json_put_key(&out, "e");
    msi_json_put_bool(&out, false);
    msi_json_put_object_end(&out);
    assert_written(&buf,
                   "{\"a\":[[],{},-9223372036854775808,18446744073709551615],\"\\\"b\\\"\":true,\"c\":null,"
                   "\"d\":[1],\"e\":false}");
}

static void strings_are_escaped(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    struct msi_json_out out = msi_json_to(&buf);
    msi_json_put_text(&out, msi_str("\"\\/\b\f\n\r\t\0\x1f\x7f long enough \xc3\xa9", 26));
    assert_written(&buf, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f long enough \xc3\xa9\"");
    out = msi_json_to(&buf);
    msi_json_put_string(&out, "a\xff\xe2\x82z\xed\xa0\x80\xc3");
    assert_written(
        &buf, "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    out = msi_json_to(&buf);
    msi_json_put_text(&out, msi_str(NULL, 0));
    assert_written(&buf, "\"\"");
}

static void decimals_are_as_asked(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    struct msi_json_out out = msi_json_to(&buf);
    static const double values[] = {0,       -0.0, 1.0005, -2.5, 0.9996,    999.9996,
                                    -0.0004, 1e15, 0x1p64, NAN,  -INFINITY, 0x1p62};
    for (size_t i = 0; i < COUNT_OF(values); i++) msi_json_put_double(&out, values[i], 3);
    msi_json_put_double(&out, 2.5, 0);
    msi_json_put_double(&out, 0.25, 15);
    msi_json_put_scaled(&out, 1000, 3);
    msi_json_put_scaled(&out, -7, 3);
    msi_json_put_scaled(&out, 0, 3);
    msi_json_put_scaled(&out, INT64_MIN, 18);
    assert_written(
        &buf,
        "0.000,0.000,1.000,-2.500,1.000,1000.000,0.000,1000000000000000.000,18446744073709551616.000,"
        "null,null,4611686018427387904.000,3,0.250000000000000,1.000,-0.007,0.000,-9.223372036854775808");
}

static void the_locale_does_not_matter(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) skip();
    struct msi_buf buf = {0};
    struct msi_json_out out = msi_json_to(&buf);
    msi_json_put_double(&out, 1e30, 2);
    msi_json_put_double(&out, 1234.5, 2);
    setlocale(LC_ALL, "C");
    assert_written(&buf, "1000000000000000019884624838656.00,1234.50");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_sets_commas),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(decimals_are_as_asked),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
