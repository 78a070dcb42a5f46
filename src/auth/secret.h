/*
 * secret.h - which secret a process uses to prove that it belongs to a job. The first of these that is set:
 *  1. the file that MUSTER_SECRET_FILE names;
 *  2. the secret of the launcher, a memfd of the launcher that MUSTER_SECRET_FD names as "/proc/PID/fd/N". It
 *     is not inherited as a descriptor, because programs between launcher and rank close those;
 *  3. the user's own: $XDG_CONFIG_HOME/muster/secret, by default ~/.config/muster/secret. It is made at the
 *     first use, so that hosts with a shared home directory need nothing else.
 *
 * A file must be a regular file of this user, or for MUSTER_SECRET_FILE also of root, that nobody else can
 * read or write. It has 16 to 4096 bytes; white space at its end does not count. The key is derived from it.
 * Neither key nor contents appear in a log, an error, an environment or a command line.
 */
#ifndef MSI_AUTH_SECRET_H
#define MSI_AUTH_SECRET_H

#include "base/settings.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSI_SECRET_BYTES = 32, MSI_SECRET_LEAST = 16, MSI_SECRET_MOST = 4096, MSI_SECRET_WHERE = 1024 };

enum msi_secret_source { MSI_SECRET_FROM_FILE, MSI_SECRET_FROM_LAUNCHER, MSI_SECRET_FROM_USER };

struct msi_secret {
    enum msi_secret_source source;
    char where[MSI_SECRET_WHERE]; /* its path */
    bool exists;
    uint8_t key[MSI_SECRET_BYTES]; /* if it exists */
};

/*
 * Reads the secret. file is the setting MUSTER_SECRET_FILE, "" if it is not set. With make, a secret of the
 * user that does not exist is made; without, exists is false then. Wipe it with msi_wipe.
 */
mst_status msi_secret_load(const char *file, bool make, struct msi_secret *secret);

/* For the launcher: a memfd with this key that nobody can change. */
mst_status msi_secret_share(const uint8_t key[MSI_SECRET_BYTES], int *fd);

/* Random bytes of the kernel, for keys and nonces; fails if it has none. */
mst_status msi_secret_random(void *out, size_t len);

#endif
