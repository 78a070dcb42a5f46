/* shm_mapping.c - see shm_mapping.h. */
#include "transport/shm_mapping.h"
#include "base/error.h"
#include "base/proc_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* The mappings of this process. The lock is also that of segment.fd and users of all of them. */
static struct msi_list mappings = {&mappings, &mappings};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct msi_shm_mapping *new_mapping(int size) {
    struct msi_shm_mapping *made = malloc(sizeof *made + (size_t)size * sizeof *made->wake_fds);
    if (!made) return NULL;
    *made = (struct msi_shm_mapping){.users = 1, .size = size};
    for (int i = 0; i < size; i++) atomic_init(&made->wake_fds[i], -1);
    return made;
}

mst_status msi_shm_mapping_make(size_t bytes, int size, struct msi_shm_mapping **mapping) {
    struct msi_shm_mapping *made = new_mapping(size);
    if (!made) return msi_fail_memory();
    mst_status st = msi_segment_make("muster-region", bytes, &made->segment);
    if (st != MST_OK) {
        free(made);
        return st;
    }
    made->inode = msi_segment_inode(&made->segment);
    pthread_mutex_lock(&lock);
    msi_list_push(&mappings, &made->node);
    pthread_mutex_unlock(&lock);
    *mapping = made;
    return MST_OK;
}

/* The inode comes from the store. It only selects an entry of the list. */
static struct msi_shm_mapping *find_locked(uint64_t inode, size_t bytes, int size) {
    for (struct msi_list *at = mappings.next; at != &mappings; at = at->next) {
        struct msi_shm_mapping *mapping = msi_container(at, struct msi_shm_mapping, node);
        if (inode && mapping->inode == inode && mapping->segment.size == bytes && mapping->size == size)
            return mapping;
    }
    return NULL;
}

static mst_status map_locked(const struct msi_shm_source *source, size_t bytes, int size,
                             struct msi_shm_mapping **mapping) {
    struct msi_shm_mapping *made = new_mapping(size);
    if (!made) return msi_fail_memory();
    mst_status st = source->fd < 0
                        ? msi_segment_find(source->pid, source->inode, bytes, &made->segment)
                        : msi_segment_adopt(source->pid, source->fd, source->inode, bytes, &made->segment);
    if (st != MST_OK) {
        int error = errno;
        free(made);
        errno = error;
        return st;
    }
    made->inode = source->inode;
    msi_list_push(&mappings, &made->node);
    *mapping = made;
    return MST_OK;
}

mst_status msi_shm_mapping_open(const struct msi_shm_source *source, size_t bytes, int size,
                                struct msi_shm_mapping **mapping) {
    mst_status st = MST_OK;
    pthread_mutex_lock(&lock);
    struct msi_shm_mapping *found = find_locked(source->inode, bytes, size);
    if (found) {
        found->users++;
        *mapping = found;
    } else {
        st = map_locked(source, bytes, size, mapping);
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return st;
}

void msi_shm_mapping_seal(struct msi_shm_mapping *mapping) {
    pthread_mutex_lock(&lock);
    if (mapping->segment.fd >= 0) close(mapping->segment.fd);
    mapping->segment.fd = -1;
    pthread_mutex_unlock(&lock);
}

void msi_shm_mapping_close(struct msi_shm_mapping *mapping) {
    pthread_mutex_lock(&lock);
    bool last = --mapping->users == 0;
    if (last) msi_list_remove(&mapping->node);
    pthread_mutex_unlock(&lock);
    if (!last) return;
    for (int i = 0; i < mapping->size; i++) {
        int fd = atomic_load_explicit(&mapping->wake_fds[i], memory_order_relaxed);
        if (fd >= 0) close(fd);
    }
    msi_segment_close(&mapping->segment);
    free(mapping);
}

mst_status msi_shm_mapping_make_wake_fd(struct msi_shm_mapping *mapping, int rank, int *fd) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return msi_fail_errno(errno, "cannot create a pipe");
    /* For reading and writing: one descriptor serves both, and a write never raises SIGPIPE. */
    int both = msi_proc_open_pipe(getpid(), ends[1]), error = errno;
    close(ends[0]);
    close(ends[1]);
    if (both < 0) return msi_fail_errno(error, "cannot open a pipe for reading and writing");
    /* Read by msi_shm_mapping_wake. */
    atomic_store_explicit(&mapping->wake_fds[rank], both, memory_order_release);
    *fd = both;
    return MST_OK;
}

/* Two threads may open the pipe at once: the first one counts. */
static int keep_wake_fd(struct msi_shm_mapping *mapping, int rank, int fd) {
    int kept = -1;
    if (fd < 0 || atomic_compare_exchange_strong_explicit(&mapping->wake_fds[rank], &kept, fd,
                                                          memory_order_acq_rel, memory_order_acquire))
        return fd;
    close(fd);
    return kept;
}

void msi_shm_mapping_wake(struct msi_shm_mapping *mapping, int rank, int pid, int fd) {
    char byte = 0;
    /* From msi_shm_mapping_make_wake_fd or keep_wake_fd. */
    int here = atomic_load_explicit(&mapping->wake_fds[rank], memory_order_acquire);
    if (here < 0) here = keep_wake_fd(mapping, rank, msi_proc_open_pipe(pid, fd));
    if (here < 0) return; /* the rank has exited, or it wakes without a signal */
    ssize_t n = write(here, &byte, 1);
    (void)n;
}
