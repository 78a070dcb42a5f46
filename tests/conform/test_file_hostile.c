/*
 * test_file_hostile.c - what a file store refuses to open: links, other types of files and files that are too
 * large. Files of other users: tests/multi/test_other_user.py.
 */
#include "harness.h"

#include "wire/store_file.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char dir[64], path[96], other[96], url[128];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/muster-hostile-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/store", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(url, sizeof url, "file://%s", path);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    if (unlink(path)) rmdir(path);
    unlink(other);
    unsetenv("MUSTER_STORE_MAX_TOTAL");
    return rmdir(dir);
}

static void expect(mst_status wanted, const char *why) {
    mst_store *store;
    int64_t begin = msi_now();
    assert_status(mst_store_open(url, &store, .timeout_ms = 20000), wanted);
    assert_contains(mst_error(), why);
    assert_true(ms_since(begin) < 10000);
}

static void make_file(const char *name, int mode) {
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, (mode_t)mode), 0);
    close(fd);
}

static void links(void **state) {
    struct stat info;
    (void)state;
    make_file(other, 0644);
    assert_int_equal(symlink(other, path), 0);
    expect(MST_ERR_SYSTEM, "is a symbolic link");
    unlink(path);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    expect(MST_ERR_SYSTEM, "is a symbolic link");
    unlink(path);
    assert_int_equal(link(other, path), 0);
    expect(MST_ERR_SYSTEM, "several names");
    assert_int_equal(stat(other, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(info.st_mode & 0777, 0644);
}

static void other_types(void **state) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    expect(MST_ERR_SYSTEM, "not a regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(MST_ERR_SYSTEM, "Is a directory");
    rmdir(path);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&name, sizeof name), 0);
    expect(MST_ERR_SYSTEM, "cannot open");
    close(s);
}

static void the_file_is_private(void **state) {
    mst_store *store;
    struct stat info;
    (void)state;
    make_file(path, 0666);
    for (int i = 0; i < 2; i++) { /* a file that exists, and one that does not */
        assert_ok(mst_store_open(url, &store, .timeout_ms = 20000));
        assert_ok(mst_store_set(store, "k", "v", 1));
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        mst_store_free(store);
        unlink(path);
    }
}

static void too_large(void **state) {
    (void)state;
    make_file(path, 0600);
    setenv("MUSTER_STORE_MAX_TOTAL", "64K", 1);
    assert_int_equal(truncate(path, 16 * 65536 + 1), 0);
    expect(MST_ERR_LIMIT, "the maximum is 1048576");
    unsetenv("MUSTER_STORE_MAX_TOTAL");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    expect(MST_ERR_LIMIT, "MUSTER_STORE_MAX_TOTAL");
}

/* A sparse file below the limit: it is not read into memory, and not record by record. */
static void holes(void **state) {
    struct rusage before, after;
    (void)state;
    make_file(path, 0600);
    assert_int_equal(truncate(path, (off_t)8 << 30), 0);
    getrusage(RUSAGE_SELF, &before);
    expect(MST_ERR_STALE, "is not a store's file");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10); /* KiB */
}

/* Records across the parts in which the file is read, and a value larger than a part. */
static void a_long_log(void **state) {
    enum { N = 3000, BIG = 3 << 20 };
    static char big[BIG];
    mst_store *store;
    struct msi_buf log = {0};
    char key[16], value[600];
    mst_bytes got;
    (void)state;
    memset(big, 'b', sizeof big);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "k%d", i);
        snprintf(value, sizeof value, "%*d", i % 599, i);
        msi_file_record_write(&log, MSI_FILE_SET, msi_cstr(key), msi_cstr(value));
        if (i == N / 2) msi_file_record_write(&log, MSI_FILE_SET, msi_cstr("big"), msi_str(big, BIG));
    }
    msi_file_record_write(&log, MSI_FILE_SET, msi_cstr("torn"), msi_cstr("half"));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, log.data, log.len - 2), log.len - 2);
    close(fd);
    msi_buf_free(&log);
    assert_ok(mst_store_open(url, &store, .timeout_ms = 20000));
    for (int i = 0; i < N; i += 7) {
        snprintf(key, sizeof key, "k%d", i);
        int n = snprintf(value, sizeof value, "%*d", i % 599, i);
        assert_ok(mst_store_get(store, key, &got));
        assert_int_equal(got.len, n);
        assert_memory_equal(got.data, value, got.len);
        mst_bytes_free(&got);
    }
    assert_ok(mst_store_get(store, "big", &got));
    assert_int_equal(got.len, BIG);
    assert_memory_equal(got.data, big, BIG);
    mst_bytes_free(&got);
    assert_status(mst_store_get(store, "torn", &got, .timeout_ms = 1), MST_ERR_TIMEOUT);
    assert_ok(mst_store_set(store, "after", "1", 1));
    mst_store_free(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(links, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(other_types, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_file_is_private, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(too_large, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(holes, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_long_log, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
