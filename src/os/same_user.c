/*
 * same_user.c - does the other end of a connection run as this user? A Unix socket knows it. For TCP, the
 * kernel's tables list the sockets of this network namespace with their users. A socket that no process has
 * open, as before it is accepted and after it is closed, is listed as root's with inode 0, and does not
 * count.
 */
#include "os/socket.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ESTABLISHED = 1, WORDS = 4 };

/* An end of a connection as the tables have it: words in the order of the machine's memory. */
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

static bool is_same(const struct end *a, const struct end *b) {
    return a->port == b->port && !memcmp(a->words, b->words, sizeof a->words);
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
        found = state == ESTABLISHED && inode && parse(texts[0], &ends[0]) && parse(texts[1], &ends[1]) &&
                is_same(&ends[0], local) && is_same(&ends[1], remote);
    }
    fclose(file);
    return found;
}

bool msi_socket_is_same_user(int fd) {
    struct ucred peer;
    struct end own, other;
    unsigned user;
    socklen_t len = sizeof peer;
    if (msi_socket_is_local(fd))
        return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid();
    if (!read_end(fd, false, &own) || !read_end(fd, true, &other)) return false;
    return (look_up("/proc/net/tcp", &other, &own, &user) ||
            look_up("/proc/net/tcp6", &other, &own, &user)) &&
           user == geteuid();
}
