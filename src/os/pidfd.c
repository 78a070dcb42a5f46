/* pidfd.c - see pidfd.h. */
#include "os/pidfd.h"
#include "base/list.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct watched {
    struct msi_list node;
    int pid, fd, users;
};

/* The processes that this one watches. */
static struct msi_list all = {&all, &all};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Another process may have got the number of one that has ended. */
static bool has_ended(int fd) {
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0;
}

static int open_new(int pid) {
    struct watched *made = malloc(sizeof *made);
    int fd = made ? (int)syscall(SYS_pidfd_open, pid, 0) : -1, error = made ? errno : ENOMEM;
    if (fd >= 0) {
        *made = (struct watched){.pid = pid, .fd = fd, .users = 1};
        msi_list_push(&all, &made->node);
    } else {
        free(made);
    }
    errno = error;
    return fd;
}

int msi_pidfd_open(int pid) {
    struct watched *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct msi_list *at = all.next; at != &all && !found; at = at->next) {
        struct watched *watched = msi_container(at, struct watched, node);
        if (watched->pid == pid && !has_ended(watched->fd)) found = watched;
    }
    if (found) found->users++;
    int fd = found ? found->fd : open_new(pid), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

void msi_pidfd_close(int fd) {
    pthread_mutex_lock(&lock);
    for (struct msi_list *at = all.next; at != &all; at = at->next) {
        struct watched *watched = msi_container(at, struct watched, node);
        if (watched->fd != fd) continue;
        if (--watched->users == 0) {
            msi_list_remove(at);
            close(fd);
            free(watched);
        }
        break;
    }
    pthread_mutex_unlock(&lock);
}

bool msi_process_has_ended(int pid) {
    int fd = msi_pidfd_open(pid);
    if (fd < 0) return kill(pid, 0) && errno == ESRCH;
    bool ended = has_ended(fd);
    msi_pidfd_close(fd);
    return ended;
}
