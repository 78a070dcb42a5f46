/* test_store_file.c - the file store's records, and files that are torn, foreign or hostile. */
#include "harness.h"

#include "store/store.h"
#include "wire/cursor.h"
#include "wire/store_file.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { MAX_KEY = 64, MAX_VALUE = 1024 };

static void every_event_survives_a_round_trip(void **state) {
    (void)state;
    static const char marks[] = "/-&+~=!";
    for (const char *mark = marks; *mark; mark++) {
        struct msi_buf out = {0};
        struct msi_file_record got;
        size_t length = 0;
        struct msi_str key = msi_str("k/e\0y", 5), value = msi_str("v\0", 2);
        msi_file_record_write(&out, (enum msi_file_event) * mark, key, value);
        size_t own = out.len;
        msi_buf_add(&out, "behind", 6);
        assert_int_equal(msi_file_record_read(out.data, out.len, MAX_KEY, MAX_VALUE, &got, &length),
                         MSI_FILE_OK);
        assert_int_equal(length, own);
        assert_int_equal(got.event, *mark);
        assert_true(msi_str_equal(got.key, key));
        assert_true(msi_str_equal(got.value, value));
        msi_buf_free(&out);
    }
}

static void set_and_delete_are_pytorchs_bytes(void **state) {
    (void)state;
    struct msi_buf out = {0};
    msi_file_record_write(&out, MSI_FILE_SET, msi_cstr("k"), msi_cstr("v1"));
    msi_file_record_write(&out, MSI_FILE_DELETE, msi_cstr("k"), msi_str(NULL, 0));
    static const char wanted[] = "\2\0\0\0/k\2\0\0\0v1\3\0\0\0-/k\0\0\0\0";
    assert_int_equal(out.len, sizeof wanted - 1);
    assert_memory_equal(out.data, wanted, sizeof wanted - 1);
    msi_buf_free(&out);
}

static void foreign_names_are_passed_over(void **state) {
    (void)state;
    static const char *const names[] = {"refcount/", "cleanup/", "", "-", "-k", "&", "x/y", "init/"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct msi_buf out = {0};
        struct msi_file_record got;
        size_t length;
        msi_put_u32(&out, (uint32_t)strlen(names[i]));
        msi_buf_add(&out, names[i], strlen(names[i]));
        msi_put_u32(&out, 1);
        msi_buf_add_u8(&out, '1');
        assert_int_equal(msi_file_record_read(out.data, out.len, MAX_KEY, MAX_VALUE, &got, &length),
                         MSI_FILE_OK);
        assert_int_equal(got.event, MSI_FILE_OTHER);
        assert_int_equal(length, out.len);
        msi_buf_free(&out);
    }
}

static void every_cut_of_a_record_is_torn(void **state) {
    (void)state;
    struct msi_buf out = {0};
    msi_file_record_write(&out, MSI_FILE_APPEND, msi_cstr("key"), msi_cstr("value"));
    for (size_t n = 0; n < out.len; n++) {
        struct msi_file_record got;
        size_t length;
        uint8_t *part = malloc(n ? n : 1);
        assert_non_null(part);
        memcpy(part, out.data, n);
        assert_int_equal(msi_file_record_read(part, n, MAX_KEY, MAX_VALUE, &got, &length), MSI_FILE_TORN);
        free(part);
    }
    msi_buf_free(&out);
}

static void zeros_are_garbage(void **state) {
    (void)state;
    static const uint8_t zeros[64];
    struct msi_file_record got;
    size_t length;
    assert_int_equal(msi_file_record_read(zeros, sizeof zeros, MAX_KEY, MAX_VALUE, &got, &length),
                     MSI_FILE_GARBAGE);
    assert_int_equal(msi_file_record_read(zeros, 7, MAX_KEY, MAX_VALUE, &got, &length), MSI_FILE_TORN);
}

static enum msi_file_result read_lengths(uint32_t name, uint32_t value) {
    struct msi_buf out = {0};
    struct msi_file_record got;
    size_t length;
    static const char zeros[MAX_KEY + 2];
    msi_put_u32(&out, name);
    msi_buf_add(&out, zeros, name < sizeof zeros ? name : sizeof zeros);
    msi_put_u32(&out, value);
    enum msi_file_result result = msi_file_record_read(out.data, out.len, MAX_KEY, MAX_VALUE, &got, &length);
    msi_buf_free(&out);
    return result;
}

static void lengths_beyond_the_limits_are_garbage(void **state) {
    (void)state;
    assert_int_equal(read_lengths(MAX_KEY + 2, MAX_VALUE), MSI_FILE_TORN); /* marks are not the key's */
    assert_int_equal(read_lengths(MAX_KEY + 3, 0), MSI_FILE_GARBAGE);
    assert_int_equal(read_lengths(UINT32_MAX, 0), MSI_FILE_GARBAGE);
    assert_int_equal(read_lengths(3, MAX_VALUE + 1), MSI_FILE_GARBAGE);
    assert_int_equal(read_lengths(3, UINT32_MAX), MSI_FILE_GARBAGE);
}

static void write_file(const char *path, const void *bytes, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static off_t file_size(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

static int make_path(void **state) {
    char *dir = strdup("/tmp/muster-file-XXXXXX"), *path;
    if (!dir || !mkdtemp(dir) || asprintf(&path, "%s/store", dir) < 0) return -1;
    free(dir);
    *state = path;
    return 0;
}

static int remove_path(void **state) {
    char *path = *state, *slash;
    unlink(path);
    slash = strrchr(path, '/');
    *slash = 0;
    int failed = rmdir(path);
    free(path);
    return failed;
}

static mst_status open_path(const char *path, mst_store **store) {
    char url[256];
    snprintf(url, sizeof url, "file://%s", path);
    return mst_store_open(url, store, .timeout_ms = 10000);
}

static void half_a_record_at_the_end_is_cut_off(void **state) {
    mst_store *store;
    mst_bytes value;
    assert_ok(open_path(*state, &store));
    assert_ok(mst_store_set(store, "k", "v", 1));
    off_t whole = file_size(*state);
    struct caught_stderr caught = begin_stderr();
    write_file(*state, "\5\0\0\0/ha", 7);
    assert_ok(mst_store_get(store, "k", &value));
    char *text = end_stderr(caught);
    assert_contains(text, "half a record");
    free(text);
    assert_int_equal(file_size(*state), whole);
    assert_memory_equal(value.data, "v", 2);
    mst_bytes_free(&value);
    assert_ok(mst_store_set(store, "half", "w", 1));
    mst_store_free(store);
    assert_ok(open_path(*state, &store));
    assert_ok(mst_store_get(store, "half", &value, .timeout_ms = 1000));
    mst_bytes_free(&value);
    mst_store_free(store);
}

static void what_stands_before_half_a_record_is_kept(void **state) {
    static const char bytes[] = "\3\0\0\0/k1\2\0\0\0v1"
                                "\3\0\0\0/k2\2\0\0\0v2"
                                "\3\0\0\0/k3\2\0";
    mst_store *store;
    mst_bytes value;
    write_file(*state, bytes, sizeof bytes - 1);
    struct caught_stderr caught = begin_stderr();
    assert_ok(open_path(*state, &store));
    free(end_stderr(caught));
    assert_int_equal(file_size(*state), 26);
    assert_ok(mst_store_set(store, "k4", "v4", 2));
    mst_store_free(store);
    assert_ok(open_path(*state, &store));
    assert_ok(mst_store_get(store, "k2", &value, .timeout_ms = 1000));
    assert_string_equal(value.data, "v2");
    mst_bytes_free(&value);
    mst_store_free(store);
}

static void a_file_that_is_no_stores_is_refused_and_left_alone(void **state) {
    mst_store *store;
    static const char text[] = "#!/bin/sh\necho this is somebody's script, not a store\n";
    write_file(*state, text, sizeof text - 1);
    assert_status(open_path(*state, &store), MST_ERR_STALE);
    assert_contains(mst_error(), (const char *)*state);
    assert_int_equal(file_size(*state), sizeof text - 1);
}

static void garbage_in_the_middle_ends_the_call_not_the_process(void **state) {
    mst_store *store;
    assert_ok(open_path(*state, &store));
    assert_ok(mst_store_set(store, "k", "v", 1));
    write_file(*state, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    assert_status(mst_store_set(store, "k", "w", 1), MST_ERR_STALE);
    mst_store_free(store);
}

static void a_file_cut_short_by_somebody_else_is_noticed(void **state) {
    mst_store *store;
    assert_ok(open_path(*state, &store));
    assert_ok(mst_store_set(store, "k", "v", 1));
    assert_int_equal(truncate(*state, 3), 0);
    assert_status(mst_store_set(store, "k", "w", 1), MST_ERR_STALE);
    mst_store_free(store);
}

static void a_pytorch_file_is_understood(void **state) {
    mst_store *store;
    mst_bytes value;
    bool ready = true;
    static const char *const gone[] = {"gone"};
    static const char bytes[] = "\x09\0\0\0refcount/\1\0\0\0001"
                                "\3\0\0\0/k1\2\0\0\0v1"
                                "\5\0\0\0/gone\1\0\0\0x"
                                "\6\0\0\0-/gone\0\0\0\0";
    write_file(*state, bytes, sizeof bytes - 1);
    assert_ok(open_path(*state, &store));
    assert_ok(mst_store_get(store, "k1", &value));
    assert_string_equal(value.data, "v1");
    mst_bytes_free(&value);
    assert_ok(mst_store_check(store, gone, 1, &ready));
    assert_false(ready);
    mst_store_free(store);
}

static void its_file_is_private(void **state) {
    mst_store *store;
    struct stat info;
    assert_ok(open_path(*state, &store));
    assert_int_equal(stat(*state, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    mst_store_free(store);
    assert_status(mst_store_open("file:///no/such/directory/store", &store), MST_ERR_SYSTEM);
}

#define with_path(test) cmocka_unit_test_setup_teardown(test, make_path, remove_path)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_survives_a_round_trip),
        cmocka_unit_test(set_and_delete_are_pytorchs_bytes),
        cmocka_unit_test(foreign_names_are_passed_over),
        cmocka_unit_test(every_cut_of_a_record_is_torn),
        cmocka_unit_test(zeros_are_garbage),
        cmocka_unit_test(lengths_beyond_the_limits_are_garbage),
        with_path(half_a_record_at_the_end_is_cut_off),
        with_path(what_stands_before_half_a_record_is_kept),
        with_path(a_file_that_is_no_stores_is_refused_and_left_alone),
        with_path(garbage_in_the_middle_ends_the_call_not_the_process),
        with_path(a_file_cut_short_by_somebody_else_is_noticed),
        with_path(a_pytorch_file_is_understood),
        with_path(its_file_is_private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
