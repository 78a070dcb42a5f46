/*
 * proc_fd.h - opens descriptors of other processes of this user through /proc/PID/fd.
 *
 * The numbers come from the store, from shared memory or from the environment, so they may name any file of
 * any process, and root can reach the files of all users. Nothing is opened before these checks pass:
 *  1. The process runs as this user: real and effective user, as /proc/PID/status tells them. The owner of
 *     /proc/PID is not enough, because it is root for a process that is not dumpable.
 *  2. The file belongs to this user and has the type that is asked for.
 * The checks and the open use the same /proc/PID and the same file (O_PATH), so neither can be replaced
 * between them, and an open can neither block nor act on a device.
 */
#ifndef MSI_BASE_PROC_FD_H
#define MSI_BASE_PROC_FD_H

#include <sys/stat.h>

/* /proc/PID of a process of this user; -1 with errno, EPERM or ENOENT as below. */
int msi_proc_open(int pid);

/*
 * Both return a descriptor for reading and writing, or -1 with errno: EPERM for a process or a file of
 * another user, EINVAL for another type of file, ENOENT if there is no such process or descriptor.
 */

/* A memfd whose size can never change (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL); fills in its info. */
int msi_proc_open_memfd(int pid, int fd, struct stat *info);
/* A pipe without a name; the descriptor does not block. */
int msi_proc_open_pipe(int pid, int fd);

#endif
