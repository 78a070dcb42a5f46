/* intercept.c - see intercept.h. */
#include "intercept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static _Thread_local int fail_at, calls; /* fail_at -1: not armed */
static _Thread_local bool armed, fails_on;
static const char *_Atomic failed_call;
static atomic_int failed_error;

void intercept_arm(int n, bool lasting) {
    calls = 0;
    fail_at = n;
    fails_on = lasting;
    armed = true;
}

int intercept_disarm(void) {
    armed = false;
    return calls;
}

const char *intercept_failed(int *error) {
    *error = failed_error;
    return failed_call;
}

/* Shall this call fail? */
static bool fails(const char *name, int error) {
    if (!armed) return false;
    calls++;
    if (!fail_at || (fails_on ? calls < fail_at : calls != fail_at)) return false;
    if (!failed_call) {
        failed_error = error;
        failed_call = name;
    }
    errno = error;
    return true;
}

/* Blocks: a hash table with linear probing. A removed entry keeps its site, so that probing goes on. */
enum { SLOTS = 1 << 16 };
static struct block {
    void *at;
    const void *site; /* NULL: never used */
    size_t size;
    int number;
} table[SLOTS];
static int live, made;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t slot_of(const void *at) {
    return (size_t)((((uint64_t)(uintptr_t)at >> 4) * 0x9e3779b97f4a7c15u) >> 48);
}

/* The entry of a block; NULL: it is not in the table. */
static struct block *find(const void *at) {
    size_t i = slot_of(at);
    for (int n = 0; n < SLOTS && table[i].site; n++, i = (i + 1) % SLOTS)
        if (table[i].at == at) return &table[i];
    return NULL;
}

static void *add(void *at, size_t size, const void *site) {
    if (!at) return NULL;
    pthread_mutex_lock(&table_lock);
    size_t i = slot_of(at);
    if (live == SLOTS - 1) abort();
    while (table[i].at) i = (i + 1) % SLOTS;
    table[i] = (struct block){at, site, size, ++made};
    live++;
    pthread_mutex_unlock(&table_lock);
    return at;
}

static void drop(const void *at) {
    pthread_mutex_lock(&table_lock);
    struct block *block = at ? find(at) : NULL;
    if (block) {
        block->at = NULL;
        live--;
    }
    pthread_mutex_unlock(&table_lock);
}

int intercept_made(void) {
    pthread_mutex_lock(&table_lock);
    int n = made;
    pthread_mutex_unlock(&table_lock);
    return n;
}

int intercept_list(int skip, struct blocks *list, int max) {
    int n = 0;
    pthread_mutex_lock(&table_lock);
    for (int i = 0; i < SLOTS; i++) {
        int k = 0;
        if (!table[i].at || table[i].number <= skip) continue;
        while (k < n && list[k].site != table[i].site) k++;
        if (k == max) continue;
        if (k == n) list[n++] = (struct blocks){.site = table[i].site};
        list[k].n++;
        list[k].bytes += table[i].size;
    }
    pthread_mutex_unlock(&table_lock);
    return n;
}

size_t intercept_offset(const void *site) {
    extern const char __executable_start[];
    return (size_t)((const char *)site - __executable_start);
}

#define SITE __builtin_return_address(0)

/* Declares libc's function and begins the function that replaces it. */
#define WRAP(type, name, ...)                                                                                \
    type __real_##name(__VA_ARGS__);                                                                         \
    type __wrap_##name(__VA_ARGS__);                                                                         \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t size) {
    return fails("malloc", ENOMEM) ? NULL : add(__real_malloc(size), size, SITE);
}
WRAP(void *, calloc, size_t n, size_t size) {
    return fails("calloc", ENOMEM) ? NULL : add(__real_calloc(n, size), n * size, SITE);
}
WRAP(void *, realloc, void *old, size_t size) {
    if (fails("realloc", ENOMEM)) return NULL;
    drop(old);
    return add(__real_realloc(old, size), size, SITE); /* it does not fail by itself in these tests */
}
WRAP(void *, aligned_alloc, size_t alignment, size_t size) {
    return fails("aligned_alloc", ENOMEM) ? NULL : add(__real_aligned_alloc(alignment, size), size, SITE);
}
WRAP(char *, strdup, const char *text) {
    return fails("strdup", ENOMEM) ? NULL : add(__real_strdup(text), strlen(text) + 1, SITE);
}
WRAP(void, free, void *at) {
    drop(at);
    __real_free(at);
}
static int print(char **out, const void *site, const char *format, va_list args) {
    int n = fails("asprintf", ENOMEM) ? -1 : vasprintf(out, format, args);
    if (n >= 0) add(*out, (size_t)n + 1, site);
    return n;
}
__attribute__((format(printf, 2, 3))) WRAP(int, asprintf, char **out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = print(out, SITE, format, args);
    va_end(args);
    return n;
}
__attribute__((format(printf, 3, 4)))
WRAP(int, __asprintf_chk, char **out, int flag, const char *format, ...) {
    (void)flag;
    va_list args;
    va_start(args, format);
    int n = print(out, SITE, format, args);
    va_end(args);
    return n;
}

/* Replaces a function by one that may fail with an errno. */
#define INTERCEPT(type, bad, error, name, parameters, arguments)                                             \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters {                                                                          \
        return fails(#name, error) ? (bad) : __real_##name arguments;                                        \
    }
INTERCEPT(void *, MAP_FAILED, ENOMEM, mmap,
          (void *at, size_t size, int protection, int flags, int fd, off_t offset),
          (at, size, protection, flags, fd, offset))
INTERCEPT(int, -1, EMFILE, socket, (int family, int type, int protocol), (family, type, protocol))
INTERCEPT(int, -1, EADDRINUSE, bind, (int fd, const struct sockaddr *name, socklen_t len), (fd, name, len))
INTERCEPT(int, -1, EADDRINUSE, listen, (int fd, int backlog), (fd, backlog))
INTERCEPT(int, -1, EADDRNOTAVAIL, connect, (int fd, const struct sockaddr *name, socklen_t len),
          (fd, name, len))
INTERCEPT(int, -1, EMFILE, accept4, (int fd, struct sockaddr *name, socklen_t *len, int flags),
          (fd, name, len, flags))
INTERCEPT(int, -1, EMFILE, memfd_create, (const char *name, unsigned flags), (name, flags))
INTERCEPT(int, -1, ENOSPC, ftruncate, (int fd, off_t size), (fd, size))
INTERCEPT(int, -1, EMFILE, eventfd, (unsigned value, int flags), (value, flags))
INTERCEPT(int, -1, EMFILE, epoll_create1, (int flags), (flags))
INTERCEPT(int, -1, EMFILE, pipe2, (int ends[2], int flags), (ends, flags))
INTERCEPT(DIR *, NULL, EMFILE, opendir, (const char *path), (path))
INTERCEPT(FILE *, NULL, EMFILE, fopen, (const char *path, const char *mode), (path, mode))
INTERCEPT(int, EAI_MEMORY, ENOMEM, getaddrinfo,
          (const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found),
          (host, port, hints, found))
INTERCEPT(int, -1, EMFILE, getifaddrs, (struct ifaddrs * *all), (all))
INTERCEPT(ssize_t, -1, EPERM, process_vm_readv,
          (pid_t pid, const struct iovec *here, unsigned long n, const struct iovec *there, unsigned long m,
           unsigned long flags),
          (pid, here, n, there, m, flags))
INTERCEPT(int, EAGAIN, EAGAIN, pthread_create,
          (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context),
          (thread, attributes, start, context))

WRAP(int, open, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails("open", EMFILE) ? -1 : __real_open(path, flags, mode);
}
/* Removing a descriptor needs no memory. */
WRAP(int, epoll_ctl, int epoll, int op, int fd, struct epoll_event *event) {
    return op == EPOLL_CTL_ADD && fails("epoll_ctl", ENOMEM) ? -1 : __real_epoll_ctl(epoll, op, fd, event);
}
WRAP(int, fcntl, int fd, int command, ...) {
    va_list args;
    va_start(args, command);
    long value = va_arg(args, long);
    va_end(args);
    return command == F_ADD_SEALS && fails("fcntl", EPERM) ? -1 : __real_fcntl(fd, command, value);
}

/* Data is sent and received with syscall: receiving does not fail, because how often it is called varies. */
static bool syscall_fails(long number) {
    if (number == SYS_pidfd_open) return fails("pidfd_open", EMFILE);
    return (number == SYS_sendto || number == SYS_sendmsg) && fails("send", ECONNRESET);
}
WRAP(long, syscall, long number, ...) {
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(args, long);
    va_end(args);
    return syscall_fails(number) ? -1 : __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
