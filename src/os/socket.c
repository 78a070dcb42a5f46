/* socket.c - TCP sockets with deadlines. See socket.h. */
#include "os/socket.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, FIRST_PAUSE_MS = 5, LONGEST_PAUSE_MS = 500, LEAST_GRACE_MS = 1000, LOOK_MS = 250 };

/* Only a setting: orders nothing. */
static _Atomic int timeout_s = 30;

void msi_socket_set_timeout(int seconds) {
    atomic_store_explicit(&timeout_s, seconds, memory_order_relaxed);
}

int msi_socket_timeout(void) {
    return atomic_load_explicit(&timeout_s, memory_order_relaxed);
}

int64_t msi_socket_grace_ms(void) {
    int64_t sixth = (int64_t)msi_socket_timeout() * 1000 / 6;
    return sixth > LEAST_GRACE_MS ? sixth : LEAST_GRACE_MS;
}

/* The first of four probes is sent after a third of the time. */
static void probe_when_idle(int fd, int seconds) {
    int on = 1, count = 4, idle = seconds / 3 > 0 ? seconds / 3 : 1, interval = (seconds - idle) / count;
    if (interval < 1) interval = 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

void msi_socket_tune(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    probe_when_idle(fd, msi_socket_timeout());
}

void msi_socket_expect(int fd) {
    int seconds = msi_socket_timeout() * 2 / 3;
    unsigned ms = (unsigned)seconds * 1000;
    probe_when_idle(fd, seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

void msi_socket_quicken(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

/*
 * An idle connection is probed by the kernel. One with data in flight is silent if they were sent again, and
 * one with a full window if several probes of the window were not answered.
 */
bool msi_socket_is_silent(int fd, int64_t *next) {
    enum { UNANSWERED = 2 };
    struct tcp_info info;
    socklen_t len = sizeof info;
    int64_t now = msi_now();
    if (now < *next) return false;
    bool first = *next == 0;
    *next = now + LOOK_MS * (int64_t)1000000;
    if (first || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len)) return false;
    unsigned limit = (unsigned)msi_socket_timeout() * 1000;
    bool unanswered =
        (info.tcpi_unacked && info.tcpi_retransmits >= UNANSWERED) || info.tcpi_probes > UNANSWERED;
    return unanswered && info.tcpi_last_ack_recv >= limit && info.tcpi_last_data_recv >= limit;
}

bool msi_socket_is_local(int fd) {
    int domain = 0;
    socklen_t len = sizeof domain;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX;
}

/* The result of getaddrinfo; NULL, with the reason in *error. */
static struct addrinfo *resolve(const struct msi_address *address, int flags, int *error) {
    char port[16];
    snprintf(port, sizeof port, "%d", address->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags}, *found = NULL;
    *error = getaddrinfo(address->host, port, &hints, &found);
    return *error ? NULL : found;
}

static mst_status bind_failed(const struct msi_address *address, int error) {
    char where[MSI_ADDRESS_TEXT_MAX], holder[96];
    msi_address_format(address, where);
    if (error == EADDRINUSE && !address->port)
        return msi_fail(MST_ERR_SYSTEM, "end processes with many connections, or widen ip_local_port_range",
                        "cannot listen on %s: no port is free: %s", where, strerror(error));
    if (error == EADDRINUSE) {
        const char *process = msi_port_holder(address->port, holder, sizeof holder);
        return msi_fail(MST_ERR_PORT_TAKEN,
                        "choose another port (MASTER_PORT or the url), or port 0 for a free one",
                        "cannot listen on %s: the port is taken%s%s", where, *process ? " by " : "", process);
    }
    if (error == EADDRNOTAVAIL)
        return msi_fail(MST_ERR_ADDRESS,
                        "run rank 0 on the host of the master address, or use an address of this machine",
                        "cannot listen on %s: this machine does not have that address", where);
    if (error == EMFILE) return msi_fail_errno(error, "cannot listen on %s", where);
    return msi_fail(MST_ERR_SYSTEM, error == EACCES ? "ports below 1024 need privileges" : NULL,
                    "cannot listen on %s: %s", where, strerror(error));
}

bool msi_socket_end(int fd, bool peer, struct msi_socket_end *end) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } name = {.six = {0}};
    socklen_t len = sizeof name;
    *end = (struct msi_socket_end){.port = {0}};
    if (peer ? getpeername(fd, &name.any, &len) : getsockname(fd, &name.any, &len)) return false;
    if (name.any.sa_family == AF_INET) {
        memset(end->address + 10, 0xFF, 2);
        memcpy(end->address + 12, &name.four.sin_addr, 4);
        memcpy(end->port, &name.four.sin_port, sizeof end->port);
    } else if (name.any.sa_family == AF_INET6) {
        memcpy(end->address, &name.six.sin6_addr, sizeof end->address);
        memcpy(end->port, &name.six.sin6_port, sizeof end->port);
    }
    return name.any.sa_family == AF_INET || name.any.sa_family == AF_INET6;
}

void msi_socket_unpace(int fd) {
    static const char reno[] = "reno"; /* needs no privilege */
    struct msi_socket_end here, there;
    if (msi_socket_end(fd, false, &here) && msi_socket_end(fd, true, &there) &&
        !memcmp(here.address, there.address, sizeof here.address))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof reno - 1);
}

static int port_of(int fd) {
    struct msi_socket_end end;
    msi_socket_end(fd, false, &end);
    return end.port[0] << 8 | end.port[1];
}

mst_status msi_listen(const struct msi_address *address, int *fd, int *port) {
    int error;
    struct addrinfo *found = resolve(address, AI_PASSIVE, &error);
    if (!found)
        return msi_fail(MST_ERR_ADDRESS, "give an address or a name that resolves here",
                        "cannot look up '%s': %s", address->host, gai_strerror(error));
    int made = -1, saved = 0, on = 1;
    for (struct addrinfo *a = found; a && made < 0; a = a->ai_next) {
        int s = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (s >= 0) setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (s >= 0 && !bind(s, a->ai_addr, a->ai_addrlen) && !listen(s, BACKLOG)) {
            made = s;
        } else {
            saved = errno;
            if (s >= 0) close(s);
        }
    }
    freeaddrinfo(found);
    if (made < 0) return bind_failed(address, saved);
    *port = port_of(made);
    *fd = made;
    return MST_OK;
}

/* Sets the name of the Unix socket for a TCP address; returns its length, or 0. */
static socklen_t local_name(const struct sockaddr *address, socklen_t len, struct sockaddr_un *name) {
    char host[80], port[16];
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (getnameinfo(address, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        return 0;
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "muster-store %s %s", host, port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int msi_listen_local(int tcp_fd) {
    struct sockaddr_storage address = {0};
    struct sockaddr_un name;
    socklen_t len = sizeof address;
    if (getsockname(tcp_fd, (struct sockaddr *)&address, &len)) return -1;
    len = local_name((struct sockaddr *)&address, len, &name);
    int made = len ? socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
    if (made >= 0 && (bind(made, (struct sockaddr *)&name, len) || listen(made, BACKLOG))) {
        msi_log(os, DEBUG, "no Unix socket beside the store's port: %s", strerror(errno));
        close(made);
        return -1;
    }
    return made;
}

/* A Unix socket to the server of that TCP address, or -1. */
static int connect_local(const struct addrinfo *a) {
    struct sockaddr_un name;
    socklen_t len = local_name(a->ai_addr, a->ai_addrlen, &name);
    int s = len ? socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
    if (s >= 0 && (connect(s, (struct sockaddr *)&name, len) || !msi_socket_is_same_user(s))) {
        close(s);
        return -1;
    }
    return s;
}

/*
 * Without a listener, a connection to an ephemeral port of this machine may get that port as its source and
 * reach itself. Such a socket is reset: in TIME_WAIT it would keep every listener off the port for a minute.
 */
static bool reset_if_self(int s) {
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_len = sizeof own, peer_len = sizeof peer;
    struct linger reset = {.l_onoff = 1};
    if (getsockname(s, (struct sockaddr *)&own, &own_len) ||
        getpeername(s, (struct sockaddr *)&peer, &peer_len) || own_len != peer_len ||
        memcmp(&own, &peer, own_len) != 0)
        return false;
    setsockopt(s, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return true;
}

/* One attempt to connect to one address. Fails with the status of the wait, or with *error set. */
static mst_status connect_one(const struct addrinfo *a, const struct msi_wait *wait, int *fd, int *error) {
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mst_status st = MST_OK;
    /* The fault of this process or machine: another attempt would only hide it. */
    if (s < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        return msi_fail_errno(errno, "cannot create a socket");
    *error = s < 0 || connect(s, a->ai_addr, a->ai_addrlen) ? errno : 0;
    if (*error == EINPROGRESS) {
        st = msi_wait_fd(wait, s, POLLOUT, "connecting");
        *error = st == MST_OK ? msi_socket_error(s) : ETIMEDOUT;
    }
    if (st == MST_OK && !*error && reset_if_self(s)) *error = ECONNREFUSED;
    if (st == MST_OK && *error) st = MST_ERR_UNREACHABLE;
    if (st != MST_OK) {
        if (s >= 0) close(s);
        return st;
    }
    msi_socket_tune(s);
    *fd = s;
    return MST_OK;
}

static mst_status connect_any(const struct addrinfo *found, bool local, const struct msi_wait *wait, int *fd,
                              int *error) {
    mst_status st = MST_ERR_UNREACHABLE;
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        int s = local ? connect_local(a) : -1;
        if (s >= 0) {
            *fd = s;
            return MST_OK;
        }
        st = connect_one(a, wait, fd, error);
        if (st != MST_ERR_UNREACHABLE) return st;
    }
    return st;
}

mst_status msi_connect_once(const struct msi_address *address, bool local, const struct msi_wait *wait,
                            int *fd, int *error) {
    int lookup;
    struct addrinfo *found = resolve(address, 0, &lookup);
    *error = 0;
    if (!found) return MST_ERR_UNREACHABLE;
    mst_status st = connect_any(found, local, wait, fd, error);
    freeaddrinfo(found);
    return st;
}

mst_status msi_connect(const struct msi_address *address, bool local, const struct msi_wait *wait, int *fd) {
    char where[MSI_ADDRESS_TEXT_MAX];
    msi_address_format(address, where);
    int64_t begin = msi_now();
    int pause = FIRST_PAUSE_MS, attempts = 0;
    for (;;) {
        int lookup, error = 0;
        struct addrinfo *found = resolve(address, 0, &lookup);
        mst_status st = found ? connect_any(found, local, wait, fd, &error) : MST_ERR_UNREACHABLE;
        if (found) freeaddrinfo(found);
        attempts++;
        if (st == MST_ERR_UNREACHABLE) {
            msi_log(os, DEBUG, "%s: %s; trying again in %d ms", where,
                    found ? strerror(error) : gai_strerror(lookup), pause);
            st = msi_wait_pause(wait, pause, "waiting to connect again");
            pause = pause * 2 > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : pause * 2;
            if (st == MST_OK) continue;
        }
        if (st != MST_ERR_TIMEOUT) return st;
        return msi_fail(MST_ERR_UNREACHABLE,
                        "check that the process that hosts the store is running, and its address and port",
                        "cannot reach %s (%s; %d attempts in %.1f s)", where,
                        found ? strerror(error) : gai_strerror(lookup), attempts,
                        (double)(msi_now() - begin) / 1e9);
    }
}

mst_status msi_connect_begin(const struct msi_address *address, int *fd) {
    int error;
    struct addrinfo *found = resolve(address, 0, &error);
    if (!found)
        return msi_fail(MST_ERR_UNREACHABLE, "give an address or a name that resolves here",
                        "cannot look up '%s': %s", address->host, gai_strerror(error));
    int s = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    error = s < 0 || connect(s, found->ai_addr, found->ai_addrlen) ? errno : 0;
    freeaddrinfo(found);
    if (error && error != EINPROGRESS) {
        char where[MSI_ADDRESS_TEXT_MAX];
        if (s >= 0) close(s);
        return msi_fail(s < 0 ? MST_ERR_SYSTEM : MST_ERR_UNREACHABLE, NULL, "cannot connect to %s: %s",
                        msi_address_format(address, where), strerror(error));
    }
    msi_socket_tune(s);
    *fd = s;
    return MST_OK;
}

int msi_socket_error(int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? errno : error;
}

const char *msi_socket_peer(int fd, char out[MSI_ADDRESS_TEXT_MAX]) {
    struct sockaddr_storage name = {0};
    struct msi_address address = {{0}, 0};
    struct ucred peer;
    char port[16];
    socklen_t len = sizeof name, size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&name, &len)) return strcpy(out, "?");
    if (name.ss_family == AF_UNIX) {
        bool known = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
        snprintf(out, MSI_ADDRESS_TEXT_MAX, "pid %d on this host", known ? (int)peer.pid : 0);
        return out;
    }
    if (getnameinfo((struct sockaddr *)&name, len, address.host, sizeof address.host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return strcpy(out, "?");
    address.port = atoi(port);
    return msi_address_format(&address, out);
}

#if defined(__SANITIZE_THREAD__)
/* ThreadSanitizer knows these functions: what one thread sends and another receives orders the two. */
ssize_t msi_recv(int fd, void *data, size_t n) {
    return recv(fd, data, n, 0);
}

ssize_t msi_send(int fd, const void *data, size_t n) {
    return send(fd, data, n, MSG_NOSIGNAL);
}
#else
ssize_t msi_recv(int fd, void *data, size_t n) {
    return syscall(SYS_recvfrom, fd, data, n, 0, NULL, NULL);
}

ssize_t msi_send(int fd, const void *data, size_t n) {
    return syscall(SYS_sendto, fd, data, n, MSG_NOSIGNAL, NULL, 0);
}
#endif

ssize_t msi_recv_vector(int fd, struct iovec *parts, size_t n) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};
    return syscall(SYS_recvmsg, fd, &message, 0);
}

ssize_t msi_send_vector(int fd, struct iovec *parts, size_t n) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};
    return syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL);
}

ssize_t msi_recv_peek(int fd, void *data, size_t n) {
    return syscall(SYS_recvfrom, fd, data, n, MSG_PEEK, NULL, NULL);
}
