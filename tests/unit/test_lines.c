/* test_lines.c - copies by cache lines: every length and alignment, and not one byte more. */
#include "base/lines.h"
#include "harness.h"

enum { MOST = 300, ROOM = MOST + 2 * MSI_CACHE_LINE };

/* Copies n bytes and compares all of the destination with what memcpy does. */
static void check(size_t to_at, size_t from_at, size_t n, bool writes) {
    _Alignas(MSI_CACHE_LINE) unsigned char from[ROOM], to[ROOM], want[ROOM];
    for (size_t i = 0; i < ROOM; i++) from[i] = (unsigned char)(i * 7 + 1);
    memset(to, 0xee, ROOM);
    memset(want, 0xee, ROOM);
    memcpy(want + to_at, from + from_at, n);
    if (writes)
        msi_write_lines(to + to_at, from + from_at, n);
    else
        msi_read_lines(to + to_at, from + from_at, n);
    assert_memory_equal(to, want, ROOM);
}

static void every_length_and_alignment(void **state) {
    (void)state;
    for (size_t n = 0; n <= MOST; n++)
        for (size_t at = 0; at < MSI_CACHE_LINE; at += 5) {
            check(at, 8, n, true);
            check(at, 8, n, false);
            check(24, at, n, true);
            check(24, at, n, false);
        }
}

static void up_to_the_limit_and_longer(void **state) {
    static unsigned char from[3 * MSI_LINES_MOST], to[3 * MSI_LINES_MOST];
    (void)state;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 31 + i / 256);
    for (size_t n = MOST; n <= MSI_LINES_MOST + 1; n++) {
        for (int writes = 0; writes < 2; writes++) {
            memset(to, 0, n + 4);
            if (writes)
                msi_write_lines(to + 3, from + 1, n);
            else
                msi_read_lines(to + 3, from + 1, n);
            assert_memory_equal(to + 3, from + 1, n);
            assert_int_equal(to[2], 0);
            assert_int_equal(to[3 + n], 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_and_alignment),
        cmocka_unit_test(up_to_the_limit_and_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
