/*
 * test_safetensors.c - files of weights: good ones are read, and every kind of bad file gets its error
 * message; the same for JSON.
 */
#include "io/json.h"
#include "io/safetensors.h"
#include "kit.h"

/* A file in memory with this header and `data` bytes of data. */
static int parse(const char *header, size_t data, struct gpt_tensors *t, char file[2048]) {
    size_t n = strlen(header);
    assert_true(n + data + 8 <= 2048);
    for (int i = 0; i < 8; i++) file[i] = (char)((uint64_t)n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < data; i++) file[8 + n + i] = 0;
    return gpt_tensors_parse(file, 8 + n + data, t);
}

static void test_hostile_headers(void **state) {
    (void)state;
#define ENTRY(dtype, shape, offsets)                                                                         \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        {"", 0, "not valid JSON"},
        {"{", 0, "not valid JSON"},
        {"{}x", 0, "not valid JSON"},
        {"[]", 0, "not valid JSON"},
        {"{\"a\":7}", 0, "'a'"},
        {ENTRY("F32", "[2]", "[0,8]"), 7, "bytes 0 to 8 of 7"},
        {ENTRY("F32", "[2]", "[0,8]"), 9, "end at 8"},
        {ENTRY("F32", "[2]", "[8,0]"), 8, "does not match its shape"},
        {ENTRY("F32", "[2]", "[4,12]"), 12, "begins at 4"},
        {ENTRY("F32", "[3]", "[0,8]"), 8, "does not match its shape"},
        {ENTRY("F32", "[-2]", "[0,8]"), 8, "must be a valid dtype"},
        {ENTRY("F32", "[2.0]", "[0,8]"), 8, "must be a valid dtype"},
        {ENTRY("F32", "[2]", "[0,8,16]"), 8, "must be a valid dtype"},
        {ENTRY("F32", "[2]", "[0]"), 8, "must be a valid dtype"},
        {ENTRY("Q4", "[2]", "[0,8]"), 8, "must be a valid dtype"},
        {ENTRY("F32", "[4611686018427387905]", "[0,4]"), 4, "does not match its shape"},
        {ENTRY("F32", "[4294967296,4294967296,1]", "[0,0]"), 0, "does not match its shape"},
        {ENTRY("F32", "[99999999999999999999]", "[0,8]"), 8, "must be a valid dtype"},
        {ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "must be a valid dtype"},
        {ENTRY("F32", "[1]", "[0,4],\"dtype\":\"F32\""), 4, "must be a valid dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":"
         "[1],"
         "\"data_offsets\":[4,8]}}",
         8, "two tensors have the name 'a'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":"
         "[1],"
         "\"data_offsets\":[4,8]}}",
         8, "begins at 4"},
        {"{\"__metadata__\":{\"step\":\"x\"}}", 0, "not valid JSON"},
        {"{\"__metadata__\":{\"step\":\"-1\"}}", 0, "not valid JSON"},
        {"{\"__metadata__\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0, "not valid JSON"},
    };
    char file[2048];
    struct gpt_tensors t;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (parse(cases[i].header, cases[i].data, &t, file) == 0) fail_msg("accepted: %s", cases[i].header);
        assert_contains(gpt_error(), cases[i].message);
    }
    assert_int_not_equal(gpt_tensors_parse("1234567", 7, &t), 0);
    assert_int_not_equal(gpt_tensors_parse("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &t), 0);
    assert_contains(gpt_error(), "a header of 18446744073709551615 bytes");
}

static void test_16_bit_floats(void **state) {
    (void)state;
    static const unsigned char half[] = {0, 0x3c, 0, 0xc0, 1, 0, 0xff, 0x7b, 0, 0x80},
                               brain[] = {0x80, 0x3f, 0x20, 0xc0};
    char file[2048];
    float to[5];
    struct gpt_tensors t;
    const char *header = "{\"h\":{\"dtype\":\"F16\",\"shape\":[5],\"data_offsets\":[0,10]},"
                         "\"b\":{\"data_offsets\":[10,14],\"dtype\":\"BF16\",\"shape\":[2]} }  ";
    assert_well(parse(header, 14, &t, file));
    memcpy(file + 8 + strlen(header), half, sizeof half);
    memcpy(file + 8 + strlen(header) + 10, brain, sizeof brain);
    gpt_tensors_read(&t, gpt_tensors_find(&t, "h"), 0, 1, 5, to);
    assert_true(to[0] == 1 && to[1] == -2 && to[2] == 0x1p-24f && to[3] == 65504 && to[4] == 0 &&
                signbit(to[4]));
    gpt_tensors_read(&t, gpt_tensors_find(&t, "h"), 0, 3, 2, to);
    assert_true(to[0] == 1 && to[1] == 65504);
    gpt_tensors_read(&t, gpt_tensors_find(&t, "b"), 0, 1, 2, to);
    assert_true(to[0] == 1 && to[1] == -2.5f);
    assert_null(gpt_tensors_find(&t, "c"));
    gpt_tensors_free(&t);
}

static void test_write_then_read(void **state) {
    (void)state;
    struct gpt_tensor list[] = {{.name = "x", .dimensions = 2, .shape = {3, 4}},
                                {.name = "a", .dimensions = 1, .shape = {5}}};
    char path[] = "/tmp/gpt-tensors-XXXXXX";
    struct gpt_tensors t;
    size_t data_at;
    close(mkstemp(path));
    assert_well(gpt_tensors_create(path, list, 2, 77, &data_at));
    assert_int_equal(data_at % 8, 0);
    assert_well(gpt_tensors_open(path, &t));
    assert_int_equal(t.step, 77);
    assert_int_equal(gpt_tensors_find(&t, "x")->count, 12);
    assert_int_equal(gpt_tensors_find(&t, "a")->begin, 48);
    gpt_tensors_free(&t);
    unlink(path);
    assert_int_not_equal(gpt_tensors_open(path, &t), 0);
    assert_contains(gpt_error(), "No such file");
}

static bool skips(const char *text) {
    struct gpt_json in = gpt_json_of(text, strlen(text));
    return gpt_json_skip(&in) && gpt_json_end(&in);
}

static void test_json(void **state) {
    (void)state;
    static const char *const good[] = {"1",    "-2.5e+3",
                                       "\"\"", "[]",
                                       "{}",   " [ 1 , [ ] , { \"a\" : null } ] ",
                                       "true", "{\"a\":{\"b\":[{},{}]},\"c\":\"\\u00e4\\\\\"}"};
    static const char *const bad[] = {
        "",          "[",     "[1,]",  "[,1]",       "{\"a\"}",
        "{\"a\":}",  "{a:1}", "[1 2]", "\"\\x\"",    "\"\n\"",
        "\"abc",     "tru",   "1e",    "[}",         "{]",
        "\"\\u12\"", "--1",   "[1]]",  "{\"a\":1,}", "1234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (!skips(good[i])) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (skips(bad[i])) fail_msg("accepted: %s", bad[i]);
    char deep[200], text[8];
    memset(deep, '[', sizeof deep);
    struct gpt_json in = gpt_json_of(deep, sizeof deep);
    assert_false(gpt_json_skip(&in));
    in = gpt_json_of("\"\\u00e4\\u20ac\\n\"", 16);
    assert_true(gpt_json_string(&in, text, sizeof text));
    assert_string_equal(text, "ä€\n");
    in = gpt_json_of("\"12345678\"", 10); /* too long for its buffer */
    assert_false(gpt_json_string(&in, text, sizeof text));
    in = gpt_json_of("\"a\\u0000b\"", 10); /* a name must not contain a NUL */
    assert_false(gpt_json_string(&in, text, sizeof text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_headers),
        cmocka_unit_test(test_16_bit_floats),
        cmocka_unit_test(test_write_then_read),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
