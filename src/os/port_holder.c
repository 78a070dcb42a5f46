/*
 * port_holder.c - finds the process that listens on a TCP port: /proc/net/tcp gives the socket's inode, and a
 * descriptor of the process links to it. Best effort: processes of other users are not visible.
 */
#include "os/socket.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TCP_LISTENING = 0x0A };

static unsigned long listening_inode(const char *table, int port) {
    FILE *file = fopen(table, "re");
    if (!file) return 0;
    char line[512];
    unsigned long inode = 0;
    while (!inode && fgets(line, sizeof line, file)) {
        unsigned local_port, state;
        unsigned long seen;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*d %*d %lu", &local_port,
                   &state, &seen) == 3 &&
            (int)local_port == port && state == TCP_LISTENING)
            inode = seen;
    }
    fclose(file);
    return inode;
}

static bool has_socket(const char *pid, const char *wanted) {
    char path[300], link[64];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    if (!dir) return false;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof link - 1);
        if (n <= 0) continue;
        link[n] = 0;
        found = !strcmp(link, wanted);
    }
    closedir(dir);
    return found;
}

const char *msi_port_holder(int port, char *out, size_t size) {
    out[0] = 0;
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    if (!inode) inode = listening_inode("/proc/net/tcp6", port);
    DIR *proc = inode ? opendir("/proc") : NULL;
    if (!proc) return out;
    char wanted[64], path[300], name[64] = "?";
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    for (struct dirent *e; (e = readdir(proc));) {
        if (!isdigit((unsigned char)e->d_name[0]) || !has_socket(e->d_name, wanted)) continue;
        snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
        FILE *comm = fopen(path, "re");
        if (comm) {
            if (fgets(name, sizeof name, comm)) name[strcspn(name, "\n")] = 0;
            fclose(comm);
        }
        snprintf(out, size, "pid %.12s (%s)", e->d_name, name);
        break;
    }
    closedir(proc);
    return out;
}
