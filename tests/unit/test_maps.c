/* test_maps.c - ranges of another rank's memory that lie in it, and ranges that do not. */
#include "harness.h"

#include "base/error.h"
#include "transport/arena.h"
#include "transport/maps.h"

#include <muster/muster.h>

enum { BYTES = 1 << 20 };

static void ranges_stay_in_their_block(void **state) {
    (void)state;
    unsigned char *memory;
    assert_ok(msi_arena_alloc(BYTES, (void **)&memory));
    struct msi_maps *maps = msi_maps_new(1);
    struct msi_arena_ref where = msi_arena_find(memory, BYTES);
    size_t rest = where.size - where.offset;
    memory[5] = 77;
    const unsigned char *found = msi_maps_find(maps, 0, &where, 5, rest - 5);
    assert_non_null(found);
    assert_int_equal(*found, 77);
    assert_non_null(msi_maps_find(maps, 0, &where, rest, 0));
    assert_null(msi_maps_find(maps, 0, &where, rest + 1, 0));
    assert_null(msi_maps_find(maps, 0, &where, 0, rest + 1));
    assert_null(msi_maps_find(maps, 0, &where, 5, rest - 4));
    assert_null(msi_maps_find(maps, 0, &where, SIZE_MAX, 2));
    assert_null(msi_maps_find(maps, 0, &where, 5, SIZE_MAX));
    where.offset = where.size + 1;
    assert_null(msi_maps_find(maps, 0, &where, 0, 0));
    msi_maps_free(maps);
    msi_arena_free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_stay_in_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
