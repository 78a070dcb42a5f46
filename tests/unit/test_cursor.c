/* test_cursor.c - little-endian fields in and out of bytes, never past their end. */
#include "harness.h"

#include "wire/cursor.h"

static void numbers_are_little_endian(void **state) {
    (void)state;
    struct msi_buf out = {0};
    msi_buf_add_u8(&out, 0xAB);
    msi_put_u32(&out, 0x01020304);
    msi_put_u64(&out, 0x1122334455667788u);
    static const uint8_t wanted[] = {0xAB, 4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    assert_int_equal(out.len, sizeof wanted);
    assert_memory_equal(out.data, wanted, sizeof wanted);
    struct msi_reader r = msi_reader(out.data, out.len);
    assert_int_equal(msi_read_u8(&r), 0xAB);
    assert_int_equal(msi_read_u32(&r), 0x01020304);
    assert_int_equal(msi_read_u64(&r), 0x1122334455667788u);
    assert_int_equal(r.left, 0);
    assert_false(r.bad);
    msi_buf_free(&out);
}

static void strings_carry_their_length_and_any_byte(void **state) {
    (void)state;
    struct msi_buf out = {0};
    msi_put_str(&out, msi_str("a\0b", 3));
    msi_put_str(&out, msi_str(NULL, 0));
    struct msi_reader r = msi_reader(out.data, out.len);
    assert_true(msi_str_equal(msi_read_str(&r), msi_str("a\0b", 3)));
    struct msi_str empty = msi_read_str(&r);
    assert_int_equal(empty.n, 0);
    assert_false(r.bad);
    assert_int_equal(r.left, 0);
    msi_buf_free(&out);
}

static void a_reader_is_bad_for_good_once_a_field_does_not_fit(void **state) {
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3};
    struct msi_reader r = msi_reader(bytes, sizeof bytes);
    assert_int_equal(msi_read_u32(&r), 0);
    assert_true(r.bad);
    assert_int_equal(msi_read_u8(&r), 0); /* would fit, but what came before did not */
    assert_null(msi_read_bytes(&r, 1));
    assert_int_equal(msi_read_str(&r).n, 0);
    assert_true(r.bad);
}

static void nothing_is_read_of_nothing(void **state) {
    (void)state;
    struct msi_reader r = msi_reader(NULL, 0);
    assert_int_equal(msi_read_u64(&r), 0);
    assert_true(r.bad);
    r = msi_reader("", 0);
    assert_non_null(msi_read_bytes(&r, 0));
    assert_false(r.bad);
}

static void lengths_beyond_the_end_are_refused_whatever_their_size(void **state) {
    (void)state;
    static const uint64_t lengths[] = {
        4, 5, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct msi_buf out = {0};
        msi_put_u64(&out, lengths[i]);
        msi_buf_add(&out, "abc", 3);
        struct msi_reader r = msi_reader(out.data, out.len);
        struct msi_str s = msi_read_str(&r);
        assert_true(r.bad);
        assert_int_equal(s.n, 0);
        assert_null(s.p);
        msi_buf_free(&out);
    }
}

static void every_cut_of_a_message_is_noticed(void **state) {
    (void)state;
    struct msi_buf out = {0};
    msi_put_str(&out, msi_cstr("key"));
    msi_put_u64(&out, 7);
    msi_put_u32(&out, 9);
    for (size_t n = 0; n <= out.len; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* its own block, so that a sanitizer sees a read past it */
        assert_non_null(copy);
        memcpy(copy, out.data, n);
        struct msi_reader r = msi_reader(copy, n);
        msi_read_str(&r);
        msi_read_u64(&r);
        msi_read_u32(&r);
        assert_int_equal(r.bad, n < out.len);
        free(copy);
    }
    msi_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(strings_carry_their_length_and_any_byte),
        cmocka_unit_test(a_reader_is_bad_for_good_once_a_field_does_not_fit),
        cmocka_unit_test(nothing_is_read_of_nothing),
        cmocka_unit_test(lengths_beyond_the_end_are_refused_whatever_their_size),
        cmocka_unit_test(every_cut_of_a_message_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
