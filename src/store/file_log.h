/*
 * file_log.h - the file of a file store: its lock, its records, and which members are alive.
 *
 * All reads and writes happen under an exclusive flock, as in PyTorch's FileStore. If a writer died in the
 * middle of a record, the next holder of the lock truncates it. Each member locks a byte of PATH.alive; the
 * kernel releases it when the member dies.
 */
#ifndef MSI_STORE_FILE_LOG_H
#define MSI_STORE_FILE_LOG_H

#include "os/wait.h"
#include "wire/store_file.h"

#include <sys/types.h>

struct msi_file_limits {
    size_t key, value; /* bytes of a key and of a value */
    off_t file;        /* bytes of the file; members read it in parts, so that they need no such memory */
};

struct msi_file_log {
    char *path, *alive_path;
    int fd, alive_fd; /* alive_fd: -1 unless a member */
    int slot;         /* the byte of PATH.alive that is ours; -1 unless a member */
    off_t end;        /* how far the file has been read */
    struct msi_file_limits limits;
    struct msi_buf pending; /* records to write before the lock is released */
};

/*
 * Opens or creates the file; close it also after a failure. It must be a regular file of this user with one
 * name, not a link; its mode becomes 0600. The first read fails with MST_ERR_STALE if it is not a store's
 * file, and with MST_ERR_LIMIT if it is too large.
 */
mst_status msi_file_log_open(struct msi_file_log *log, const char *path,
                             const struct msi_file_limits *limits);
void msi_file_log_close(struct msi_file_log *log);

/* Tries to take the lock. Reopens a file that was removed before anything was read. */
mst_status msi_file_log_try_lock(struct msi_file_log *log, bool *locked);
/* Writes the pending records and releases the lock. After a failure the file has none of them. */
mst_status msi_file_log_unlock(struct msi_file_log *log);

/* With the lock held: calls take for each record added since the last call. */
mst_status msi_file_log_read(struct msi_file_log *log,
                             void (*take)(void *context, const struct msi_file_record *record),
                             void *context);

/* With the lock held: opens PATH.alive. */
mst_status msi_file_log_watch(struct msi_file_log *log);
/* With the lock held, after msi_file_log_watch: becomes a member with a free slot. */
mst_status msi_file_log_join(struct msi_file_log *log);
/* Is the member with that slot alive? */
bool msi_file_log_alive(const struct msi_file_log *log, int slot);
/* With the lock held: is any other member alive? */
bool msi_file_log_others(const struct msi_file_log *log);
/* With the lock held: stops being a member. */
void msi_file_log_resign(struct msi_file_log *log);
/* With the lock held: removes the files. */
void msi_file_log_remove(struct msi_file_log *log);

#endif
