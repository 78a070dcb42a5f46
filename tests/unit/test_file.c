/* test_file.c - reading whole files and pipes; directories of other users. */
#include "harness.h"
#include "os/clock.h"
#include "os/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 100000, OTHER_USER = 65533 };

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

/* The name of a file below the directory. */
static const char *below(const char *directory, const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void paths_through_directories_of_others(void **state) {
    (void)state;
    char shared[] = "/tmp/muster-test-shared-XXXXXX", command[64];
    if (geteuid() != 0) {
        print_message("needs root: it gives a directory to another user\n");
        skip();
    }
    assert_non_null(mkdtemp(shared));
    assert_int_equal(chmod(shared, 01777), 0);
    assert_int_equal(mkdir(below(shared, "theirs"), 0777), 0);
    assert_int_equal(mkdir(below(shared, "theirs/own"), 0700), 0);
    assert_int_equal(mkdir(below(shared, "theirs/deep"), 0755), 0);
    assert_int_equal(chown(below(shared, "theirs"), OTHER_USER, OTHER_USER), 0);
    assert_int_equal(chown(below(shared, "theirs/deep"), OTHER_USER, OTHER_USER), 0);
    assert_int_equal(symlink("theirs", below(shared, "link")), 0);
    assert_int_equal(lchown(below(shared, "link"), OTHER_USER, OTHER_USER), 0);
    static const char *const refused[] = {"theirs",           "theirs/",      "theirs/new",    "theirs//new",
                                          "theirs/new/new",   "theirs/deep/", "theirs/deep/x", "link",
                                          "theirs/deep/x/x/", "link/own",     "link/new"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(msi_make_directory(below(shared, refused[i])), EPERM);
        assert_true(msi_directory_is_foreign(below(shared, refused[i])) || !strchr(refused[i], '/'));
    }
    /* What is below a directory of this user, nobody else can replace. */
    static const char *const right[] = {"own", "own/x", "theirs/own/x", "theirs/own/x/"};
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_int_equal(msi_make_directory(below(shared, right[i])), 0);
        assert_false(msi_directory_is_foreign(below(shared, right[i])));
    }
    snprintf(command, sizeof command, "rm -r %s", shared);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regular_file_up_to_its_limit),
        cmocka_unit_test(other_files_are_refused_at_once),
        cmocka_unit_test(a_pipe_until_its_end_or_the_deadline),
        cmocka_unit_test(paths_through_directories_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
