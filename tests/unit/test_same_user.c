/* test_same_user.c - whose is the other end of a connection: the kernel and its tables answer alike. */
#include "harness.h"

#include "os/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OTHER_USER = 65533, LOOKUPS = 1000 };

/* A connection over loopback; there -1: not accepted yet. */
struct pair {
    int listening, here, there;
};

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static union address make_address(const char *host, uint16_t port, socklen_t *len) {
    union address a = {.six = {0}};
    bool is_6 = strchr(host, ':') != NULL;
    a.any.sa_family = is_6 ? AF_INET6 : AF_INET;
    *(is_6 ? &a.six.sin6_port : &a.four.sin_port) = port;
    assert_int_equal(inet_pton(a.any.sa_family, host, is_6 ? (void *)&a.six.sin6_addr : &a.four.sin_addr), 1);
    *len = is_6 ? sizeof a.six : sizeof a.four;
    return a;
}

/* Connects from one address to another; false: this machine does not have it. */
static bool open_pair(const char *from, const char *to, const char *listen_at, struct pair *p) {
    socklen_t len;
    union address a = make_address(listen_at, 0, &len);
    *p = (struct pair){socket(a.any.sa_family, SOCK_STREAM, 0), -1, -1};
    if (p->listening < 0 || bind(p->listening, &a.any, len)) return false;
    assert_int_equal(listen(p->listening, 10), 0);
    assert_int_equal(getsockname(p->listening, &a.any, &len), 0);
    uint16_t port = a.any.sa_family == AF_INET ? a.four.sin_port : a.six.sin6_port;
    a = make_address(from, 0, &len);
    p->here = socket(a.any.sa_family, SOCK_STREAM, 0);
    assert_int_equal(bind(p->here, &a.any, len), 0);
    a = make_address(to, port, &len);
    assert_int_equal(connect(p->here, &a.any, len), 0);
    return true;
}

static void accept_pair(struct pair *p) {
    p->there = accept(p->listening, NULL, NULL);
    assert_true(p->there >= 0);
}

static void close_pair(struct pair *p) {
    if (p->listening >= 0) close(p->listening);
    if (p->here >= 0) close(p->here);
    if (p->there >= 0) close(p->there);
}

/* The other end of a socket counts only while a process has it open. */
static void check_one(const char *from, const char *to, const char *listen_at) {
    struct pair p;
    if (open_pair(from, to, listen_at, &p)) {
        assert_false(msi_socket_is_same_user(p.here)); /* not accepted yet */
        accept_pair(&p);
        assert_true(msi_socket_is_same_user(p.here));
        assert_true(msi_socket_is_same_user(p.there));
        close(p.here);
        p.here = -1;
        assert_false(msi_socket_is_same_user(p.there));
    }
    close_pair(&p);
}

/* Connects as another user, and stays until the connection is closed. */
static pid_t connect_as_other(struct pair *p) {
    socklen_t len = sizeof(struct sockaddr_in);
    union address a = {.six = {0}};
    assert_int_equal(getsockname(p->listening, &a.any, &len), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    char byte;
    int s = setuid(OTHER_USER) ? -1 : socket(AF_INET, SOCK_STREAM, 0);
    _exit(s < 0 || connect(s, &a.any, len) || read(s, &byte, 1) ? 1 : 0);
}

static void check_other_user(void) {
    struct pair p;
    int status;
    if (geteuid() != 0) return;
    assert_true(open_pair("127.0.0.1", "127.0.0.1", "127.0.0.1", &p));
    accept_pair(&p); /* a connection of this user to the same port */
    pid_t pid = connect_as_other(&p);
    int other = accept(p.listening, NULL, NULL);
    assert_true(other >= 0);
    assert_false(msi_socket_is_same_user(other));
    assert_true(msi_socket_is_same_user(p.there));
    close(other);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close_pair(&p);
}

static void check_all(void) {
    check_one("127.0.0.1", "127.0.0.1", "127.0.0.1");
    check_one("127.0.0.9", "127.0.0.1", "0.0.0.0");
    check_one("::1", "::1", "::1");
    check_one("127.0.0.1", "127.0.0.1", "::"); /* accepted as IPv4 mapped to IPv6 */
    check_other_user();
}

static void the_kernel_answers(void **state) {
    (void)state;
    check_all();
}

/* From now on this process has no netlink sockets. */
static bool deny_netlink(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)), /* the low half */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void its_tables_answer_alike(void **state) {
    (void)state;
    if (!deny_netlink()) skip();
    assert_true(socket(AF_NETLINK, SOCK_RAW, 0) < 0);
    check_all();
}

/* Becomes this user in a user namespace that has no other one. */
static bool enter_namespace(unsigned user) {
    char map[32];
    int n = snprintf(map, sizeof map, "%u %u 1", user, (unsigned)geteuid());
    if (unshare(CLONE_NEWUSER)) return false;
    int fd = open("/proc/self/uid_map", O_WRONLY);
    bool done = fd >= 0 && write(fd, map, (size_t)n) == n && geteuid() == user;
    close(fd);
    return done;
}

enum { SAME, DIFFERENT, NO_NAMESPACE };

/* Whether the other end of a Unix socket is of the same user, who is this one in the namespace. */
static int ask_in_namespace(unsigned user) {
    int status, ends[2];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!enter_namespace(user) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) _exit(NO_NAMESPACE);
        _exit(msi_socket_is_same_user(ends[0]) ? SAME : DIFFERENT);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* There, all users that have no number seem to be user 65534. */
static void the_overflow_user_may_be_anybody(void **state) {
    (void)state;
    if (ask_in_namespace(1000) == NO_NAMESPACE) skip();
    assert_int_equal(ask_in_namespace(1000), SAME);
    assert_int_equal(ask_in_namespace(65534), DIFFERENT);
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Strangers make a server ask. The tables of /proc/net take up to ten milliseconds to read, even if empty. */
static void asking_costs_little(void **state) {
    (void)state;
    struct pair p;
    int s = socket(AF_NETLINK, SOCK_RAW, 4 /* NETLINK_SOCK_DIAG */);
    if (s < 0) skip();
    close(s);
    assert_true(open_pair("127.0.0.1", "127.0.0.1", "127.0.0.1", &p));
    accept_pair(&p);
    double begin = processor_seconds();
    for (int i = 0; i < LOOKUPS; i++) assert_true(msi_socket_is_same_user(p.there));
    double took = processor_seconds() - begin;
    print_message("%d lookups took %.3f s\n", LOOKUPS, took);
    assert_true(took < 1);
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_answers), cmocka_unit_test(asking_costs_little),
        cmocka_unit_test(the_overflow_user_may_be_anybody),
        cmocka_unit_test(its_tables_answer_alike), /* the last one: netlink is denied from here on */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
