/* test_file.c - reading whole files and pipes. */
#include "harness.h"
#include "os/clock.h"
#include "os/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 100000 };

static int read_path(const char *path, size_t expected) {
    struct msi_buf text = {0};
    int error = msi_file_read(path, MOST, &text);
    if (error == 0) assert_int_equal(text.len, expected);
    msi_buf_free(&text);
    return error;
}

static void a_regular_file_up_to_its_limit(void **state) {
    (void)state;
    char path[] = "/tmp/muster-test-file-XXXXXX", line[8];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(read_path(path, 0), 0);
    assert_int_equal(write(fd, "abc\ndef\n", 8), 8);
    assert_int_equal(read_path(path, 8), 0);
    assert_string_equal(msi_file_line(path, line, sizeof line), "abc");
    assert_string_equal(msi_file_line(path, line, 3), "ab");
    assert_int_equal(ftruncate(fd, MOST), 0);
    assert_int_equal(read_path(path, MOST), 0);
    assert_int_equal(ftruncate(fd, MOST + 1), 0);
    assert_int_equal(read_path(path, 0), EFBIG);
    close(fd);
    unlink(path);
    assert_int_equal(read_path(path, 0), ENOENT);
    assert_string_equal(msi_file_line(path, line, sizeof line), "");
}

static void other_files_are_refused_at_once(void **state) {
    (void)state;
    char path[] = "/tmp/muster-test-file-XXXXXX";
    assert_int_equal(read_path("/tmp", 0), EISDIR);
    assert_int_equal(read_path("/dev/zero", 0), EINVAL);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_path(path, 0), EINVAL);
    unlink(path);
}

static void a_pipe_until_its_end_or_the_deadline(void **state) {
    (void)state;
    struct msi_buf text = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(msi_read_all(ends[0], MOST, msi_deadline(20), &text), ETIMEDOUT);
    assert_int_equal(write(ends[1], "a:2\n", 4), 4);
    assert_int_equal(msi_read_all(ends[0], MOST, msi_deadline(20), &text), ETIMEDOUT);
    assert_int_equal(write(ends[1], "b:2\n", 4), 4);
    close(ends[1]);
    assert_int_equal(msi_read_all(ends[0], MOST, msi_deadline(20), &text), 0);
    assert_string_equal(msi_buf_text(&text), "a:2\nb:2\n");
    close(ends[0]);
    msi_buf_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regular_file_up_to_its_limit),
        cmocka_unit_test(other_files_are_refused_at_once),
        cmocka_unit_test(a_pipe_until_its_end_or_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
