/*
 * file_log.h - the file behind a file store: its lock, its records, and who of its members is alive.
 *
 * All reading and writing happens under an exclusive flock, as PyTorch's FileStore does it. A record that was
 * cut short by a dying writer is cut off by the next one who holds the lock. Members hold a byte of
 * PATH.alive locked; the kernel lets go of it when they die, and that is how the others know.
 */
#ifndef MSI_STORE_FILE_LOG_H
#define MSI_STORE_FILE_LOG_H

#include "os/wait.h"
#include "wire/store_file.h"

#include <sys/types.h>

struct msi_file_log {
    char *path, *alive_path;
    int fd, alive_fd; /* alive_fd: -1 unless a member */
    int slot;         /* the byte of PATH.alive that is ours; -1 unless a member */
    off_t end;        /* how far the file has been read */
    size_t max_key, max_value;
    struct msi_buf pending; /* records to be written before the lock is let go */
};

/* Opens or makes the file. A file that cannot be a store's is MST_ERR_STALE when it is first read. */
mst_status msi_file_log_open(struct msi_file_log *log, const char *path, size_t max_key, size_t max_value);
void msi_file_log_close(struct msi_file_log *log);

/*
 * Tries to take the lock; *locked says whether it did. If the file was removed meanwhile and nothing was read
 * yet, starts anew.
 */
mst_status msi_file_log_try_lock(struct msi_file_log *log, bool *locked);
/* Writes what is pending and lets go of the lock. After a failure nothing of it is in the file. */
mst_status msi_file_log_unlock(struct msi_file_log *log);

/* With the lock held: calls take for each record that was added since the last time. */
mst_status msi_file_log_read(struct msi_file_log *log,
                             void (*take)(void *context, const struct msi_file_record *record),
                             void *context);

/* With the lock held: begins to see who is alive. */
mst_status msi_file_log_watch(struct msi_file_log *log);
/* With the lock held, after msi_file_log_watch: becomes a member, with a slot that nobody alive has. */
mst_status msi_file_log_join(struct msi_file_log *log);
/* Is the member with that slot alive? */
bool msi_file_log_alive(const struct msi_file_log *log, int slot);
/* With the lock held: is any member alive but ourselves? */
bool msi_file_log_others(const struct msi_file_log *log);
/* With the lock held: is no member any more. */
void msi_file_log_resign(struct msi_file_log *log);
/* With the lock held: removes the files. */
void msi_file_log_remove(struct msi_file_log *log);

#endif
