/* test_secret.c - which secret is used, how the user's is made, and which files are refused. */
#include "harness.h"

#include "auth/secret.h"
#include "auth/sha256.h"

#include <fcntl.h>
#include <muster/status.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char dir[64], file[96], own[128];

static int set_up(void **state) {
    (void)state;
    strcpy(dir, "/tmp/muster-secret-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(file, sizeof file, "%s/file", dir);
    snprintf(own, sizeof own, "%s/.config/muster/secret", dir);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv(MSI_SECRET_VARIABLE);
    setenv("HOME", dir, 1);
    return 0;
}

static int tear_down(void **state) {
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void write_file(const char *path, const char *text, int mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, (mode_t)mode), 0);
    close(fd);
}

static struct msi_secret load(const char *path) {
    struct msi_secret secret;
    assert_ok(msi_secret_load(path, true, &secret));
    assert_true(secret.exists);
    return secret;
}

static void refuse(const char *path, const char *why) {
    struct msi_secret secret;
    assert_status(msi_secret_load(path, true, &secret), MST_ERR_CONFIG);
    assert_contains(mst_last_error()->message, why);
    assert_null(strstr(mst_last_error()->message, "0123456789"));
}

static const char text[] = "0123456789abcdef";

static void a_file(void **state) {
    (void)state;
    write_file(file, text, 0600);
    struct msi_secret first = load(file);
    assert_int_equal(first.source, MSI_SECRET_FROM_FILE);
    assert_string_equal(first.where, file);
    write_file(file, "0123456789abcdef \r\n\n", 0400);
    struct msi_secret second = load(file);
    assert_memory_equal(first.key, second.key, sizeof first.key);
    chmod(file, 0600);
    write_file(file, "0123456789abcdeg", 0600);
    second = load(file);
    assert_memory_not_equal(first.key, second.key, sizeof first.key);
    /* A link that the user names, as in a mounted secret of Kubernetes. */
    char link_name[128];
    snprintf(link_name, sizeof link_name, "%s/link", dir);
    assert_int_equal(symlink(file, link_name), 0);
    first = load(link_name);
    assert_memory_equal(first.key, second.key, sizeof first.key);
    assert_int_not_equal(access(own, F_OK), 0);
}

static void files_that_are_refused(void **state) {
    static char many[MSI_SECRET_MOST + 2];
    (void)state;
    refuse(file, "No such file");
    const int modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0666};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        write_file(file, text, modes[i]);
        refuse(file, "other users can access it");
    }
    chmod(file, 0600);
    write_file(file, "0123456789abcde\n", 0600);
    refuse(file, "fewer than 16");
    write_file(file, "", 0600);
    refuse(file, "fewer than 16");
    memset(many, 'x', sizeof many - 1);
    write_file(file, many, 0600);
    refuse(file, "more than 4096");
    unlink(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    refuse(file, "not a regular file");
    unlink(file);
    refuse(dir, "not a regular file");
    refuse("/dev/zero", "not a regular file");
}

static void the_users_own_is_made_once(void **state) {
    struct msi_secret look, made;
    struct stat info;
    char directory[160];
    (void)state;
    assert_ok(msi_secret_load("", false, &look));
    assert_false(look.exists);
    assert_string_equal(look.where, own);
    assert_int_equal(look.source, MSI_SECRET_FROM_USER);
    assert_int_not_equal(access(own, F_OK), 0);
    made = load("");
    assert_int_equal(lstat(own, &info), 0);
    assert_int_equal(info.st_mode, S_IFREG | 0600);
    assert_int_equal(info.st_size, 65);
    assert_int_equal(info.st_nlink, 1); /* no temporary name is left */
    snprintf(directory, sizeof directory, "%s/.config/muster", dir);
    assert_int_equal(stat(directory, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_ok(msi_secret_load("", false, &look));
    assert_true(look.exists);
    assert_memory_equal(look.key, made.key, sizeof made.key);
    unlink(own);
    look = load("");
    assert_memory_not_equal(look.key, made.key, sizeof made.key);
    snprintf(directory, sizeof directory, "%s/elsewhere", dir);
    setenv("XDG_CONFIG_HOME", directory, 1);
    made = load("");
    assert_contains(made.where, "/elsewhere/muster/secret");
    assert_memory_not_equal(look.key, made.key, sizeof made.key);
    setenv("XDG_CONFIG_HOME", "relative", 1);
    made = load("");
    assert_memory_equal(look.key, made.key, sizeof made.key);
}

static void all_processes_make_the_same(void **state) {
    enum { N = 16 };
    uint8_t keys[N][MSI_SECRET_BYTES];
    int ends[2], go[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(go), 0);
    pid_t pids[N];
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i]) continue;
        struct msi_secret secret;
        char byte;
        close(go[1]);
        if (read(go[0], &byte, 1) != 0 || msi_secret_load("", true, &secret) != MST_OK) _exit(1);
        _exit(write(ends[1], secret.key, sizeof secret.key) == sizeof secret.key ? 0 : 1);
    }
    close(go[1]); /* all at once */
    close(go[0]);
    close(ends[1]);
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(read(ends[0], keys[i], sizeof keys[i]), sizeof keys[i]);
        assert_memory_equal(keys[i], keys[0], sizeof keys[0]);
    }
    close(ends[0]);
}

static void places_that_are_refused(void **state) {
    char directory[160], config[96];
    (void)state;
    load("");
    assert_int_equal(chmod(own, 0644), 0);
    refuse("", "other users can access it");
    unlink(own);
    write_file(file, text, 0600);
    assert_int_equal(symlink(file, own), 0);
    refuse("", "symbolic link");
    unlink(own);
    snprintf(directory, sizeof directory, "%s/.config/muster", dir);
    assert_int_equal(chmod(directory, 0777), 0);
    refuse("", "other users can write to its directory");
    rmdir(directory);
    write_file(directory, text, 0600);
    refuse("", "Not a directory");
    unlink(directory);
    snprintf(config, sizeof config, "%s/.config", dir);
    assert_int_equal(chmod(config, 0500), 0);
    if (getuid() != 0) refuse("", "Permission denied");
    chmod(config, 0700);
    unsetenv("HOME");
    refuse("", "HOME is not set");
    setenv("HOME", "", 1);
    refuse("", "HOME is not set");
}

static void a_file_of_another_user(void **state) {
    (void)state;
    if (getuid() != 0) {
        print_message("needs root: it gives a file to another user\n");
        skip();
    }
    write_file(file, text, 0600);
    assert_int_equal(chown(file, 65533, 65533), 0);
    refuse(file, "belongs to another user");
    load("");
    assert_int_equal(chown(own, 65533, 65533), 0);
    refuse("", "belongs to another user");
    unlink(own);
    char directory[160];
    snprintf(directory, sizeof directory, "%s/.config/muster", dir);
    assert_int_equal(chown(directory, 65533, 65533), 0);
    refuse("", "its directory belongs to another user");
}

static void the_launchers(void **state) {
    uint8_t key[MSI_SECRET_BYTES], byte = 1;
    char variable[64];
    int fd;
    (void)state;
    assert_ok(msi_secret_random(key, sizeof key));
    assert_ok(msi_secret_share(key, &fd));
    assert_int_equal(pwrite(fd, &byte, 1, 0), -1);
    snprintf(variable, sizeof variable, "/proc/%d/fd/%d", (int)getpid(), fd);
    setenv(MSI_SECRET_VARIABLE, variable, 1);
    struct msi_secret secret = load("");
    assert_int_equal(secret.source, MSI_SECRET_FROM_LAUNCHER);
    assert_memory_equal(secret.key, key, sizeof key);
    write_file(file, text, 0600);
    assert_int_equal(load(file).source, MSI_SECRET_FROM_FILE);
    int other = memfd_create("muster-secret", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(other, 31), 0);
    assert_int_equal(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    const char *const bad[] = {"3", "/proc/self/fd/3", "/proc/1/fd/", "/etc/passwd", "/proc/99999999/fd/3"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        setenv(MSI_SECRET_VARIABLE, bad[i], 1);
        refuse("", "cannot use the secret");
    }
    snprintf(variable, sizeof variable, "/proc/%d/fd/%d", (int)getpid(), other);
    setenv(MSI_SECRET_VARIABLE, variable, 1);
    refuse("", "not the secret of a launcher");
    close(fd);
    close(other);
    assert_int_not_equal(access(own, F_OK), 0); /* a launcher's secret that fails is not replaced */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_users_own_is_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_processes_make_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_another_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_launchers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
