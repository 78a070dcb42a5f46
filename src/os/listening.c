/*
 * listening.c - the TCP sockets that a process listens on: /proc/PID/fd has the inodes of its sockets, and
 * /proc/PID/net/tcp those of the sockets that listen in its network namespace.
 */
#include "os/host.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTENS = 0x0A, SOCKETS_MOST = 4096 };

static bool is_among(const unsigned long *inodes, int n, unsigned long inode) {
    for (int i = 0; i < n; i++)
        if (inodes[i] == inode) return true;
    return false;
}

/* The inodes of the sockets of a process, at most SOCKETS_MOST. */
static int find_sockets(int pid, unsigned long *inodes) {
    char path[64], link[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && n < SOCKETS_MOST && (entry = readdir(dir)) != NULL;) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof link - 1);
        if (len <= 0) continue;
        link[len] = '\0';
        n += sscanf(link, "socket:[%lu]", &inodes[n]) == 1;
    }
    if (dir) closedir(dir);
    return n;
}

/* "0100007F" or four such words, in the order of the machine's memory. */
static void format(const char *text, unsigned port, char out[MSI_LISTENING_TEXT]) {
    uint32_t words[4] = {0};
    char host[INET6_ADDRSTRLEN] = "";
    size_t n = strlen(text) / 8;
    for (size_t i = 0; i < n && i < 4; i++) sscanf(text + 8 * i, "%8x", &words[i]);
    inet_ntop(n > 1 ? AF_INET6 : AF_INET, words, host, sizeof host);
    snprintf(out, MSI_LISTENING_TEXT, n > 1 ? "[%s]:%u" : "%s:%u", host, port);
}

static int read_table(const char *table, const unsigned long *inodes, int n_inodes,
                      char (*list)[MSI_LISTENING_TEXT], int most) {
    FILE *file = fopen(table, "re");
    char line[512], host[40];
    int n = 0;
    while (file && n < most && fgets(line, sizeof line, file)) {
        static const char row[] = " %*d: %39[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*d %lu";
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, row, host, &port, &state, &inode) != 4 || state != LISTENS ||
            !is_among(inodes, n_inodes, inode))
            continue;
        format(host, port, list[n++]);
    }
    if (file) fclose(file);
    return n;
}

int msi_listening_list(int pid, char (*list)[MSI_LISTENING_TEXT], int most) {
    unsigned long *inodes = calloc(SOCKETS_MOST, sizeof *inodes);
    char path[64];
    int n = 0;
    if (!inodes) return 0;
    int sockets = find_sockets(pid, inodes);
    for (int six = 0; six < 2 && sockets; six++) {
        snprintf(path, sizeof path, "/proc/%d/net/tcp%s", pid, six ? "6" : "");
        n += read_table(path, inodes, sockets, list + n, most - n);
    }
    free(inodes);
    return n;
}
