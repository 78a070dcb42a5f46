/* test_hello.c - the first words on a connection between two ranks. */
#include "harness.h"

#include "wire/hello.h"

static const struct msi_hello sample = {.world = 0x0102030405060708,
                                        .group = 0xfffefdfcfbfaf9f8,
                                        .from = 3,
                                        .to = 258,
                                        .channel = 513,
                                        .stream = 2,
                                        .streams = 3};

/* The layout is a promise to other versions. */
static const uint8_t bytes[MSI_HELLO_BYTES] = {
    'M',  'S',  'T',  'L',  2,    0,    0,    0,    8, 7, 6, 5, 4, 3, 2, 1, /* magic, version, world */
    0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 3, 0, 0, 0, 2, 1, 0, 0, 1, 2, 2, 3};

static void a_hello_has_one_layout(void **state) {
    (void)state;
    uint8_t out[MSI_HELLO_BYTES];
    struct msi_hello back;
    msi_hello_write(&sample, out);
    assert_memory_equal(out, bytes, sizeof out);
    assert_int_equal(msi_hello_read(bytes, sizeof bytes, &back), MSI_HELLO_WELCOME);
    assert_true(back.world == sample.world && back.group == sample.group);
    assert_true(back.from == 3 && back.to == 258 && back.channel == 513 && back.stream == 2 &&
                back.streams == 3);
}

static void other_bytes_are_no_hello(void **state) {
    (void)state;
    uint8_t changed[MSI_HELLO_BYTES + 1] = {0};
    struct msi_hello back = {.world = 42};
    for (size_t n = 0; n < MSI_HELLO_BYTES; n++)
        assert_int_equal(msi_hello_read(bytes, n, &back), MSI_HELLO_MALFORMED);
    memcpy(changed, bytes, sizeof bytes);
    assert_int_equal(msi_hello_read(changed, sizeof changed, &back), MSI_HELLO_MALFORMED);
    static const uint8_t wrong[][2] = {{0, 0}, {3, 3}, {0, MSI_HELLO_STREAMS_MOST + 1}, {255, 255}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        memcpy(changed + MSI_HELLO_BYTES - 2, wrong[i], 2);
        assert_int_equal(msi_hello_read(changed, MSI_HELLO_BYTES, &back), MSI_HELLO_MALFORMED);
    }
    changed[4] = 1;
    assert_int_equal(msi_hello_read(changed, MSI_HELLO_BYTES, &back), MSI_HELLO_VERSION);
    changed[0] = 'm';
    assert_int_equal(msi_hello_read(changed, MSI_HELLO_BYTES, &back), MSI_HELLO_MALFORMED);
    assert_true(back.world == 42);
}

static void only_the_right_world_and_ranks_are_welcome(void **state) {
    (void)state;
    assert_int_equal(msi_hello_judge(&sample, sample.world, 258, 300), MSI_HELLO_WELCOME);
    assert_int_equal(msi_hello_judge(&sample, sample.world + 1, 258, 300), MSI_HELLO_WORLD);
    assert_int_equal(msi_hello_judge(&sample, sample.world, 257, 300), MSI_HELLO_RANK);
    assert_int_equal(msi_hello_judge(&sample, sample.world, 258, 3), MSI_HELLO_RANK);
}

static void every_answer_has_words(void **state) {
    (void)state;
    for (unsigned i = 0; i < 256; i++) assert_true(strlen(msi_hello_answer_text(i)) > 3);
    assert_string_equal(msi_hello_answer_text(MSI_HELLO_WORLD), "it belongs to another world");
    assert_true(bytes[0] >
                MSI_HELLO_BUSY); /* a socket connected to itself hears no answer in its own hello */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_has_one_layout),
        cmocka_unit_test(other_bytes_are_no_hello),
        cmocka_unit_test(only_the_right_world_and_ranks_are_welcome),
        cmocka_unit_test(every_answer_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
