/* test_run_nproc.c - which entries of /dev are devices, and how many CUDA_VISIBLE_DEVICES leaves. */
#include "../tools/muster/cli/options.c"
#include "../tools/muster/cli/text.c"
#include "../tools/muster/run/ranks/bind.c"
#include "../tools/muster/run/ranks/nproc.c"

#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const entries[] = {"nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia"};
enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

static void test_devices(void **state) {
    char dir[] = "/tmp/muster-dev-XXXXXX";
    (void)state;

    assert_non_null(mkdtemp(dir));
    int at = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(at >= 0);
    assert_int_equal(nproc_gpus(dir, NULL), 0);
    for (int i = 0; i < N_ENTRIES; i++) assert_int_equal(mkdirat(at, entries[i], 0700), 0);
    assert_int_equal(nproc_gpus(dir, NULL), 3);
    assert_int_equal(nproc_gpus(dir, ""), 0);
    assert_int_equal(nproc_gpus(dir, "-1"), 0);
    assert_int_equal(nproc_gpus(dir, "2,0"), 2);
    assert_int_equal(nproc_gpus(dir, "0,-1,1"), 1);
    assert_int_equal(nproc_gpus(dir, "0,3"), 1);
    assert_int_equal(nproc_gpus(dir, "GPU-12ab,GPU-34cd"), 2);
    for (int i = 0; i < N_ENTRIES; i++) assert_int_equal(unlinkat(at, entries[i], AT_REMOVEDIR), 0);
    close(at);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(nproc_gpus(dir, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
