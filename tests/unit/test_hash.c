/* test_hash.c - the keyed hash, random bytes, and the growing buffer. */
#include "harness.h"

#include "base/buf.h"
#include "base/hash.h"

static const uint64_t seed[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

/* SipHash-1-3 of the bytes 0, 1, 2, … under the key 00 01 … 0f, made with an independent implementation. */
static void it_is_siphash_1_3(void **state) {
    (void)state;
    static const struct {
        size_t len;
        uint64_t hash;
    } known[] = {{0, 0xabac0158050fc4dcu},  {1, 0xc9f49bf37d57ca93u}, {7, 0xd3927d989bb11140u},
                 {8, 0x369095118d299a8eu},  {9, 0x25a48eb36c063de4u}, {15, 0xd320d86d2a519956u},
                 {16, 0xcc4fdd1a7d908b66u}, {63, 0x9d199062b7bbb3a8u}};
    uint8_t data[64];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)i;
    for (size_t i = 0; i < COUNT_OF(known); i++)
        assert_int_equal(msi_hash(data, known[i].len, seed), known[i].hash);
}

static void the_seed_decides(void **state) {
    (void)state;
    const uint64_t other[2] = {seed[0] ^ 1, seed[1]}, another[2] = {seed[0], seed[1] ^ 1};
    assert_int_not_equal(msi_hash("key", 3, seed), msi_hash("key", 3, other));
    assert_int_not_equal(msi_hash("key", 3, seed), msi_hash("key", 3, another));
    assert_int_equal(msi_hash("key", 3, seed), msi_hash("key", 3, seed));
}

static void the_length_counts(void **state) {
    (void)state;
    static const char zeros[32];
    for (size_t a = 0; a < sizeof zeros; a++)
        for (size_t b = 0; b < a; b++)
            assert_int_not_equal(msi_hash(zeros, a, seed), msi_hash(zeros, b, seed));
}

/* Keys as a job makes them must spread over the low bits, which pick the bucket. */
static void similar_keys_spread_evenly(void **state) {
    (void)state;
    enum { BUCKETS = 256, KEYS = BUCKETS * 64 };
    int count[BUCKETS] = {0};
    for (int i = 0; i < KEYS; i++) {
        char key[64];
        int len = snprintf(key, sizeof key, "/muster/0/rank/%d/address", i);
        count[msi_hash(key, (size_t)len, seed) % BUCKETS]++;
    }
    double chi = 0;
    for (int i = 0; i < BUCKETS; i++) chi += (count[i] - 64.0) * (count[i] - 64.0) / 64.0;
    assert_true(chi > 150 && chi < 400); /* 255 degrees of freedom: this is beyond 4 deviations each way */
}

static void one_bit_changes_half_the_hash(void **state) {
    (void)state;
    uint8_t data[24] = {0};
    int changed = 0;
    for (int bit = 0; bit < 192; bit++) {
        uint64_t before = msi_hash(data, sizeof data, seed);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        changed += __builtin_popcountll(before ^ msi_hash(data, sizeof data, seed));
    }
    assert_in_range(changed, 192 * 30, 192 * 34);
}

static void random_bytes_differ(void **state) {
    (void)state;
    uint8_t a[300] = {0}, b[300] = {0};
    msi_random(a, sizeof a - 1);
    msi_random(b, sizeof b - 1);
    assert_memory_not_equal(a, b, sizeof a - 1);
    assert_int_equal(a[sizeof a - 1], 0); /* no further than asked */
    int zeros = 0;
    for (size_t i = 0; i < sizeof a; i++) zeros += a[i] == 0;
    assert_true(zeros < 30);
}

static void a_buffer_grows_and_keeps_what_it_has(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    for (int i = 0; i < 10000; i++) {
        uint8_t byte = (uint8_t)(i * 7);
        if (i % 2)
            msi_buf_add_u8(&buf, byte);
        else
            msi_buf_add(&buf, &byte, 1);
    }
    assert_int_equal(buf.len, 10000);
    for (int i = 0; i < 10000; i++) assert_int_equal(buf.data[i], (uint8_t)(i * 7));
    msi_buf_drop(&buf, 9990);
    assert_int_equal(buf.len, 10);
    assert_int_equal(buf.data[0], (uint8_t)(9990 * 7));
    msi_buf_drop(&buf, 10);
    assert_int_equal(buf.len, 0);
    msi_buf_free(&buf);
    assert_null(buf.data);
    msi_buf_free(&buf);
}

static void a_format_is_appended_without_its_end(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    msi_buf_add_format(&buf, "%s-%d", "rank", 3);
    msi_buf_add_format(&buf, "%s", "");
    msi_buf_add_format(&buf, "/%0100d", 1);
    assert_int_equal(buf.len, 6 + 101);
    assert_memory_equal(buf.data, "rank-3/000", 10);
    msi_buf_free(&buf);
}

static void a_buffer_is_read_as_a_string(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    assert_string_equal(msi_buf_text(&buf), "");
    for (int i = 0; i < 64; i++) msi_buf_add_text(&buf, "ab");
    assert_int_equal(buf.len, 128);
    assert_int_equal(strlen(msi_buf_text(&buf)), 128);
    msi_buf_free(&buf);
}

static void a_buffer_without_memory_stays_valid(void **state) {
    (void)state;
    struct msi_buf buf = {0};
    msi_buf_add(&buf, "abc", 3);
    assert_false(msi_buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    msi_buf_add(&buf, "def", 3);
    assert_int_equal(buf.len, 3);
    assert_memory_equal(buf.data, "abc", 3);
    assert_false(msi_buf_reserve(&buf, 1));
    msi_buf_free(&buf);
    assert_false(buf.failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_siphash_1_3),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(the_length_counts),
        cmocka_unit_test(similar_keys_spread_evenly),
        cmocka_unit_test(one_bit_changes_half_the_hash),
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(a_buffer_grows_and_keeps_what_it_has),
        cmocka_unit_test(a_format_is_appended_without_its_end),
        cmocka_unit_test(a_buffer_is_read_as_a_string),
        cmocka_unit_test(a_buffer_without_memory_stays_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
