/* spare_fds.c - see spare_fds.h. */
#include "os/spare_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum { SPARES = 8 }; /* enough to host a store and to connect to it */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static int holders, n_spares, spares[SPARES];

static int open_spare(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void release(void) {
    while (n_spares) close(spares[--n_spares]);
}

void msi_spare_fds_hold(void) {
    pthread_mutex_lock(&lock);
    /* A process with one rank has no other rank that takes its descriptors. */
    if (++holders > 1)
        for (int fd; n_spares < SPARES && (fd = open_spare()) >= 0;) spares[n_spares++] = fd;
    pthread_mutex_unlock(&lock);
}

void msi_spare_fds_drop(void) {
    pthread_mutex_lock(&lock);
    if (--holders <= 1) release();
    pthread_mutex_unlock(&lock);
}

bool msi_spare_fds_use(void) {
    pthread_mutex_lock(&lock);
    int fd = open_spare();
    bool use = fd < 0 && errno == EMFILE && n_spares > 0;
    if (fd >= 0) close(fd);
    if (use) release();
    pthread_mutex_unlock(&lock);
    return use;
}
