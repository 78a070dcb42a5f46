/* test_proc_fd.c - descriptors of other processes: the right ones open, and no file of another user does. */
#include "harness.h"

#include "base/proc_fd.h"
#include "os/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 8192, OTHER_USER = 65533 };
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* A process that has one descriptor to offer. */
struct holder {
    pid_t pid;
    int fd;
};

static pid_t running; /* the process that release ends */

/* In the other process, which must not go on as a second test. */
static void must(bool succeeded) {
    if (!succeeded) _exit(1);
}

static int make_memfd(int seals) {
    int fd = memfd_create("muster-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, SIZE) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0));
    return fd;
}

/* Starts a process that calls make and keeps what it returns. */
static struct holder hold(int (*make)(void)) {
    int ends[2], fd = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fd = make();
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* setresuid would clear it */
        if (write(ends[1], &fd, sizeof fd) != sizeof fd) _exit(1);
        for (;;) pause();
    }
    close(ends[1]); /* the read ends if the process fails */
    assert_int_equal(read(ends[0], &fd, sizeof fd), sizeof fd);
    close(ends[0]);
    return (struct holder){running = pid, fd};
}

static void release(void) {
    if (running <= 0) return;
    kill(running, SIGKILL);
    waitpid(running, NULL, 0);
    running = 0;
}

/* Also after a failed test. */
static int tear_down(void **state) {
    (void)state;
    release();
    return 0;
}

static int opened_or_errno(int fd) {
    if (fd < 0) return errno;
    close(fd);
    return 0;
}

/* The errno of opening what make returns, as a memfd and as a pipe. */
static void expect(int (*make)(void), int memfd, int pipe_error) {
    struct holder holder = hold(make);
    struct stat info;
    assert_int_equal(opened_or_errno(msi_proc_open_memfd(holder.pid, holder.fd, &info)), memfd);
    assert_int_equal(opened_or_errno(msi_proc_open_pipe(holder.pid, holder.fd)), pipe_error);
    release();
}

static int sealed(void) {
    return make_memfd(SEALS);
}
static int unsealed(void) {
    return make_memfd(0);
}
static int half_sealed(void) {
    return make_memfd(F_SEAL_SHRINK | F_SEAL_GROW);
}
static int read_only(void) {
    return make_memfd(SEALS | F_SEAL_WRITE);
}
static int directory(void) {
    char path[] = "/tmp/muster-test-XXXXXX";
    must(mkdtemp(path) != NULL);
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    rmdir(path);
    return fd;
}
static int device(void) {
    return open("/dev/null", O_RDWR);
}
static int socket_end(void) {
    return socket(AF_UNIX, SOCK_STREAM, 0);
}
static int closed(void) {
    return 1000;
}
static int both_ends(void) {
    int ends[2];
    return pipe(ends) ? -1 : ends[1];
}
static int file_without_name(const char *directory_name) {
    char path[64];
    snprintf(path, sizeof path, "%s/muster-test-XXXXXX", directory_name);
    int fd = mkstemp(path);
    unlink(path);
    return ftruncate(fd, SIZE) ? -1 : fd;
}
static int file_of_tmp(void) {
    return file_without_name("/tmp");
}
static int file_of_shm(void) {
    return file_without_name("/dev/shm");
}
static int fifo_with_name(void) {
    char path[] = "/tmp/muster-test-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    unlink(path);
    if (mkfifo(path, 0600)) return -1;
    fd = open(path, O_RDONLY | O_NONBLOCK);
    unlink(path);
    return fd;
}

static void files_of_the_right_type_open(void **state) {
    (void)state;
    expect(sealed, 0, EINVAL);
    expect(both_ends, EINVAL, 0);
}

static void files_of_other_types_do_not(void **state) {
    (void)state;
    expect(unsealed, EINVAL, EINVAL);
    expect(half_sealed, EINVAL, EINVAL);
    expect(read_only, 0, EINVAL); /* the mapping fails */
    expect(directory, EINVAL, EINVAL);
    expect(file_of_tmp, EINVAL, EINVAL);
    expect(file_of_shm, EINVAL, EINVAL);
    expect(fifo_with_name, EINVAL, EINVAL);
    expect(socket_end, EINVAL, EINVAL);
    expect(closed, ENOENT, ENOENT);
    expect(device, getuid() == 0 ? EINVAL : EPERM, getuid() == 0 ? EINVAL : EPERM);
}

static void the_memfd_is_shared(void **state) {
    (void)state;
    struct holder holder = hold(sealed);
    struct msi_segment segment, again;
    assert_int_equal(msi_segment_attach(holder.pid, holder.fd, 0, SIZE, &segment), MST_OK);
    strcpy(segment.base, "here");
    assert_int_equal(msi_segment_attach(holder.pid, holder.fd, 0, SIZE, &again), MST_OK);
    assert_string_equal(again.base, "here");
    msi_segment_close(&segment);
    msi_segment_close(&again);
    assert_int_equal(msi_segment_adopt(holder.pid, holder.fd, 0, SIZE, &segment), MST_OK);
    assert_int_equal(msi_segment_find(holder.pid, msi_segment_inode(&segment), SIZE, &again), MST_OK);
    assert_string_equal(again.base, "here");
    msi_segment_close(&segment);
    msi_segment_close(&again);
    assert_int_equal(msi_segment_attach(holder.pid, holder.fd, 0, SIZE + 1, &segment), MST_ERR_SYSTEM);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(msi_segment_adopt(holder.pid, holder.fd, 1, SIZE, &segment), MST_ERR_SYSTEM);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(msi_segment_attach(holder.pid, holder.fd, 1, SIZE, &segment), MST_ERR_SYSTEM);
    assert_int_equal(errno, ENOENT);
    release();
}

static void processes_that_have_ended(void **state) {
    (void)state;
    struct holder holder = hold(sealed);
    struct stat info;
    release();
    assert_int_equal(opened_or_errno(msi_proc_open_memfd(holder.pid, holder.fd, &info)), ENOENT);
    assert_int_equal(opened_or_errno(msi_proc_open_memfd(0, holder.fd, &info)), ENOENT);
    assert_int_equal(opened_or_errno(msi_proc_open_memfd(-1, holder.fd, &info)), ENOENT);
    assert_int_equal(opened_or_errno(msi_proc_open_memfd(getpid(), -1, &info)), ENOENT);
}

static void a_segment_is_private(void **state) {
    (void)state;
    struct msi_segment segment;
    struct stat info;
    assert_int_equal(msi_segment_make("muster-test", SIZE, &segment), MST_OK);
    assert_int_equal(fstat(segment.fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(fcntl(segment.fd, F_GET_SEALS) & SEALS, SEALS);
    msi_segment_close(&segment);
}

/* A process that is not dumpable belongs to root in /proc. */
static void become_other(bool dumpable) {
    must(setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0);
    must(prctl(PR_SET_DUMPABLE, dumpable) == 0);
}
static int of_other(void) {
    become_other(true);
    return sealed();
}
static int of_hidden_other(void) {
    become_other(false);
    return sealed();
}
static int pipe_of_other(void) {
    become_other(true);
    return both_ends();
}
static int pipe_of_hidden_other(void) {
    become_other(false);
    return both_ends();
}
static int from_root(void) {
    int fd = sealed();
    become_other(true);
    return fd;
}
static int from_hidden_root(void) {
    int fd = sealed();
    become_other(false);
    return fd;
}
/* As after the start of a set-user-id program: the process is root's, its descriptors are the starter's. */
static int left_in_root(void) {
    must(seteuid(OTHER_USER) == 0);
    int fd = sealed();
    must(seteuid(0) == 0);
    return fd;
}
static int pipe_left_in_root(void) {
    must(seteuid(OTHER_USER) == 0);
    int fd = both_ends();
    must(seteuid(0) == 0);
    return fd;
}
/* The starter is another user; the program runs as root. */
static int in_set_user_id_program(void) {
    int fd = sealed();
    must(setresuid(OTHER_USER, 0, 0) == 0);
    return fd;
}
static int root_file(void) {
    int fd = open("/etc/passwd", O_RDONLY);
    become_other(false);
    return fd;
}

static void files_of_other_users(void **state) {
    (void)state;
    if (getuid() != 0) {
        print_message("needs root: it starts processes of another user\n");
        skip();
    }
    expect(of_other, EPERM, EPERM);
    expect(of_hidden_other, EPERM, EPERM);
    expect(pipe_of_other, EPERM, EPERM);
    expect(pipe_of_hidden_other, EPERM, EPERM);
    expect(from_root, EPERM, EPERM);
    expect(from_hidden_root, EPERM, EPERM);
    expect(left_in_root, EPERM, EPERM);
    expect(pipe_left_in_root, EPERM, EPERM);
    expect(in_set_user_id_program, EPERM, EPERM);
    expect(root_file, EPERM, EPERM);
    struct holder holder = hold(of_hidden_other);
    struct msi_segment segment;
    struct stat info;
    char path[64];
    assert_int_equal(msi_segment_attach(holder.pid, holder.fd, 0, SIZE, &segment), MST_ERR_SYSTEM);
    assert_int_equal(errno, EPERM);
    assert_non_null(strstr(mst_last_error()->message, "belongs to another user"));
    release();
    holder = hold(from_root);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)holder.pid, holder.fd);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(msi_segment_find(holder.pid, info.st_ino, SIZE, &segment), MST_ERR_SYSTEM);
    assert_int_equal(errno, ENOENT);
    release();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(files_of_the_right_type_open, tear_down),
        cmocka_unit_test_teardown(files_of_other_types_do_not, tear_down),
        cmocka_unit_test_teardown(the_memfd_is_shared, tear_down),
        cmocka_unit_test_teardown(processes_that_have_ended, tear_down),
        cmocka_unit_test_teardown(a_segment_is_private, tear_down),
        cmocka_unit_test_teardown(files_of_other_users, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
