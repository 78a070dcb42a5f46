/*
 * same_user.c - does the other end of a connection run as this user? A Unix socket has the answer
 * (SO_PEERCRED). For TCP, sock_diag(7) gives the owner of the other end's socket within microseconds. The
 * tables of /proc/net take milliseconds to read on machines with much memory. They are read only on a kernel
 * without sock_diag, and only if the other end has an address of this machine, so that clients on other hosts
 * cannot make a server read them.
 *
 * A socket that no process has open, as before it is accepted and after it is closed, belongs to root and has
 * the inode 0. It does not count.
 */
#include "os/socket.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS = 4, OVERFLOW_USER = 65534 };

/* An end of a connection as the kernel has it: words in the order of the machine's memory. */
struct end {
    uint32_t words[WORDS];
    unsigned port;
};

static bool read_end(int fd, bool peer, struct end *end) {
    struct msi_socket_end read;
    if (!msi_socket_end(fd, peer, &read)) return false;
    memcpy(end->words, read.address, sizeof end->words);
    end->port = (unsigned)read.port[0] << 8 | read.port[1];
    return true;
}

static bool is_same(const struct end *a, const struct end *b) {
    return a->port == b->port && !memcmp(a->words, b->words, sizeof a->words);
}

static bool is_four(const struct end *end) {
    return !end->words[0] && !end->words[1] && end->words[2] == htonl(0xFFFF);
}

/* The addresses of a question: those of IPv4 have one word. */
static void put_address(const struct end *end, bool four, __be32 out[WORDS]) {
    memcpy(out, end->words + (four ? WORDS - 1 : 0), four ? sizeof *out : sizeof end->words);
}

enum answer { UNKNOWN, ABSENT, FOUND };

/* Reads the kernel's answer. If the ends have no connection, it tells about a listening socket. */
static enum answer read_answer(int s, const struct inet_diag_sockid *id, unsigned *user) {
    struct {
        struct nlmsghdr head;
        union {
            struct inet_diag_msg found;
            struct nlmsgerr error;
        } is;
        char more[512]; /* attributes */
    } answer;
    struct sockaddr_nl from = {0};
    socklen_t len = sizeof from;
    ssize_t n = recvfrom(s, &answer, sizeof answer, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
    if (n < (ssize_t)offsetof(__typeof__(answer), is.error.msg) || from.nl_pid != 0) return UNKNOWN;
    if (answer.head.nlmsg_type == NLMSG_ERROR) return answer.is.error.error == -ENOENT ? ABSENT : UNKNOWN;
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)offsetof(__typeof__(answer), more))
        return UNKNOWN;
    const struct inet_diag_msg *found = &answer.is.found;
    *user = found->idiag_uid;
    return found->idiag_state == TCP_ESTABLISHED && found->idiag_inode &&
                   found->id.idiag_sport == id->idiag_sport && found->id.idiag_dport == id->idiag_dport
               ? FOUND
               : ABSENT;
}

/* Asks for the owner of the socket with these ends. */
static enum answer ask_one(int s, const struct end *local, const struct end *remote, unsigned *user) {
    bool four = is_four(local) && is_four(remote);
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 is;
    } question = {.head = {.nlmsg_len = sizeof question,
                           .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                           .nlmsg_flags = NLM_F_REQUEST},
                  .is = {.sdiag_family = four ? AF_INET : AF_INET6,
                         .sdiag_protocol = IPPROTO_TCP,
                         .idiag_states = 1U << TCP_ESTABLISHED,
                         .id = {.idiag_sport = htons((uint16_t)local->port),
                                .idiag_dport = htons((uint16_t)remote->port),
                                .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    put_address(local, four, question.is.id.idiag_src);
    put_address(remote, four, question.is.id.idiag_dst);
    ssize_t n = sendto(s, &question, sizeof question, 0, (struct sockaddr *)&kernel, sizeof kernel);
    return n == (ssize_t)sizeof question ? read_answer(s, &question.is.id, user) : UNKNOWN;
}

/* A kernel without sock_diag for TCP does not find a socket that exists either, as the one of this end. */
static enum answer ask(const struct end *own, const struct end *other, unsigned *user) {
    unsigned unused;
    int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (s < 0) return UNKNOWN;
    enum answer found = ask_one(s, own, other, &unused);
    found = found == FOUND ? ask_one(s, other, own, user) : UNKNOWN;
    close(s);
    return found;
}

/* "0100007F" or four such words. */
static bool parse(const char *text, struct end *end) {
    size_t n = strlen(text), words = n / 8;
    end->words[0] = end->words[1] = 0;
    end->words[2] = htonl(0xFFFF);
    if (n % 8 || (words != 1 && words != WORDS)) return false;
    for (size_t i = 0; i < words; i++)
        if (sscanf(text + 8 * i, "%8x", &end->words[WORDS - words + i]) != 1) return false;
    return true;
}

/* Sets *user to the owner of the socket with these ends; false: it is not in the table. */
static bool look_up(const char *table, const struct end *local, const struct end *remote, unsigned *user) {
    FILE *file = fopen(table, "re");
    char line[512], texts[2][40];
    bool found = false;
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file)) {
        static const char format[] = " %*d: %39[0-9A-Fa-f]:%x %39[0-9A-Fa-f]:%x %x %*s %*s %*s %u %*d %lu";
        struct end ends[2];
        unsigned state;
        unsigned long inode;
        if (sscanf(line, format, texts[0], &ends[0].port, texts[1], &ends[1].port, &state, user, &inode) != 7)
            continue;
        found = state == TCP_ESTABLISHED && inode && parse(texts[0], &ends[0]) && parse(texts[1], &ends[1]) &&
                is_same(&ends[0], local) && is_same(&ends[1], remote);
    }
    fclose(file);
    return found;
}

/* Is it an address of this machine? Then a socket can be bound to it. */
static bool is_here(const struct end *end) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {end->words[WORDS - 1]}};
    bool is_4 = is_four(end);
    memcpy(&six.sin6_addr, end->words, sizeof six.sin6_addr);
    const struct sockaddr *address = is_4 ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    int s = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool here = s >= 0 && !bind(s, address, is_4 ? sizeof four : sizeof six);
    if (s >= 0) close(s);
    return here;
}

static bool look_up_tables(const struct end *own, const struct end *other, unsigned *user) {
    return is_here(other) &&
           (look_up("/proc/net/tcp", other, own, user) || look_up("/proc/net/tcp6", other, own, user));
}

/* In a user namespace each user without a number there is the overflow user, also those of other people. */
static bool is_own(unsigned user) {
    unsigned inside, outside, n;
    uint64_t mapped = 0;
    if (user != geteuid() || user != OVERFLOW_USER) return user == geteuid();
    FILE *file = fopen("/proc/self/uid_map", "re");
    while (file && fscanf(file, "%u %u %u", &inside, &outside, &n) == 3) mapped += n;
    if (file) fclose(file);
    return mapped >= UINT32_MAX;
}

/* Not if the other end has closed it. */
static bool is_established(int fd) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) && info.tcpi_state == TCP_ESTABLISHED;
}

bool msi_socket_is_same_user(int fd) {
    struct ucred peer;
    struct end own, other;
    unsigned user = 0;
    socklen_t len = sizeof peer;
    if (msi_socket_is_local(fd))
        return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && is_own(peer.uid);
    if (!read_end(fd, false, &own) || !read_end(fd, true, &other) || !is_established(fd)) return false;
    enum answer found = ask(&own, &other, &user);
    /* Closed meanwhile, it is not found either. */
    if (found == UNKNOWN && is_established(fd) && look_up_tables(&own, &other, &user)) found = FOUND;
    return found == FOUND && is_own(user);
}
