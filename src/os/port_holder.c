/*
 * port_holder.c - which process holds a TCP port of this machine: the listener, else the owner of a
 * connection from that port. /proc/net/tcp gives the socket's inode, and the process has a descriptor that
 * links to it. Processes of other users stay hidden.
 */
#include "os/file.h"
#include "os/socket.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TCP_TIME_WAIT_STATE = 0x06, TCP_LISTENING = 0x0A };

/* What a table of sockets says about a port; inode 0: there is no socket that a process has open. */
struct found {
    unsigned long inode;
    bool listening, time_wait;
};

static void look_up(const char *table, int port, struct found *found) {
    FILE *file = fopen(table, "re");
    if (!file) return;
    char line[512];
    while (!found->listening && fgets(line, sizeof line, file)) {
        static const char format[] = " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %lu";
        unsigned local_port, state;
        unsigned long seen;
        if (sscanf(line, format, &local_port, &state, &seen) != 3 || (int)local_port != port) continue;
        found->listening = state == TCP_LISTENING;
        found->time_wait |= state == TCP_TIME_WAIT_STATE;
        if (found->listening || seen) found->inode = seen;
    }
    fclose(file);
}

static bool has_socket(const char *pid, const char *wanted) {
    char path[300], link[64];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    if (!dir) return false;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof link);
        found = n == (ssize_t)strlen(wanted) && !memcmp(link, wanted, (size_t)n);
    }
    closedir(dir);
    return found;
}

const char *msi_port_holder(int port, char *out, size_t size) {
    struct found found = {0};
    look_up("/proc/net/tcp", port, &found);
    look_up("/proc/net/tcp6", port, &found);
    snprintf(out, size, "%s", !found.inode && found.time_wait ? "a closed connection (TIME_WAIT)" : "");
    DIR *proc = found.inode ? opendir("/proc") : NULL;
    if (!proc) return out;
    char wanted[64], path[300], name[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", found.inode);
    for (struct dirent *e; (e = readdir(proc));) {
        if (!isdigit((unsigned char)e->d_name[0]) || !has_socket(e->d_name, wanted)) continue;
        snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        msi_file_line(path, name, sizeof name);
        snprintf(out, size, "pid %.12s (%s)", e->d_name, *name ? name : "?");
        break;
    }
    closedir(proc);
    return out;
}
