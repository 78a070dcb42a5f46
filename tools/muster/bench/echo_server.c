/* echo_server.c - see echo_server.h. */
#include "bench/echo_server.h"
#include "os/socket.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, DESCRIPTORS = 65536 };

struct expected {
    _Atomic size_t request, reply, greeting;
};
static struct expected *expected;

bool echo_server_prepare(void) {
    expected = mmap(NULL, sizeof *expected, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return expected != MAP_FAILED;
}

void echo_server_expect(size_t request, size_t reply, size_t greeting) {
    atomic_store(&expected->greeting, greeting);
    atomic_store(&expected->request, request);
    atomic_store(&expected->reply, reply);
}

static void echo(int epoll, int fd, size_t *got) {
    static char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        return;
    }
    *got += (size_t)n; /* starts below zero if a greeting comes first */
    if (*got < atomic_load(&expected->request) || *got > SIZE_MAX / 2) return;
    *got = 0;
    if (send(fd, bytes, atomic_load(&expected->reply), MSG_NOSIGNAL) < 0) close(fd);
}

void echo_server_run(void) {
    static size_t got[DESCRIPTORS];
    struct msi_address here = {"127.0.0.1", 0};
    int listener, port, epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN};
    if (epoll < 0 || msi_listen(&here, &listener, &port) != MST_OK) _exit(1);
    event.data.fd = listener;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    dprintf(STDOUT_FILENO, "%d echo\n", port);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd != listener) {
                echo(epoll, events[i].data.fd, &got[events[i].data.fd]);
                continue;
            }
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd < 0 || fd >= DESCRIPTORS) continue;
            msi_socket_tune(fd);
            got[fd] = (size_t)0 - atomic_load(&expected->greeting);
            event.data.fd = fd;
            epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        }
    }
}
