/* secret.c - see secret.h. Any thread. */
#include "auth/secret.h"
#include "auth/sha256.h"
#include "base/error.h"
#include "base/proc_fd.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static const char remedy[] =
    "set MUSTER_SECRET_FILE to a file of mode 0600, the same on all hosts, or remove this one";

static mst_status fail(const struct msi_secret *secret, const char *why) {
    return msi_fail(MST_ERR_CONFIG, remedy, "cannot use the secret %s: %s", secret->where, why);
}

mst_status msi_secret_random(void *out, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t n = getrandom((char *)out + done, len - done, 0);
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return msi_fail_errno(errno, "the kernel has no random bytes");
    }
    return MST_OK;
}

/* Sets source and where. */
static mst_status locate(const char *file, struct msi_secret *secret) {
    const char *launcher = getenv(MSI_SECRET_VARIABLE), *home = getenv("HOME");
    const char *config = getenv("XDG_CONFIG_HOME");
    size_t n;
    *secret = (struct msi_secret){.source = MSI_SECRET_FROM_FILE};
    if (*file) {
        n = (size_t)snprintf(secret->where, sizeof secret->where, "%s", file);
    } else if (launcher && *launcher) {
        secret->source = MSI_SECRET_FROM_LAUNCHER;
        n = (size_t)snprintf(secret->where, sizeof secret->where, "%s", launcher);
    } else {
        bool set = config && config[0] == '/'; /* the specification ignores relative paths */
        if (!set && (!home || home[0] != '/'))
            return msi_fail(MST_ERR_CONFIG, "set HOME or MUSTER_SECRET_FILE",
                            "there is no place for a secret: HOME is not set");
        secret->source = MSI_SECRET_FROM_USER;
        n = (size_t)snprintf(secret->where, sizeof secret->where, "%s%s/muster/secret", set ? config : home,
                             set ? "" : "/.config");
    }
    return n < sizeof secret->where ? MST_OK
                                    : msi_fail(MST_ERR_CONFIG, NULL, "the path of the secret is too long");
}

/* NULL, or what is wrong with the file. */
static const char *check_file(int fd, bool of_root) {
    struct stat info;
    if (fstat(fd, &info)) return strerror(errno);
    if (!S_ISREG(info.st_mode)) return "it is not a regular file";
    if (info.st_uid != geteuid() && !(of_root && info.st_uid == 0)) return "it belongs to another user";
    if (info.st_mode & 0077) return "other users can access it; chmod 600";
    if (info.st_size > MSI_SECRET_MOST) return "it has more than 4096 bytes";
    return NULL;
}

static void derive_key(struct msi_secret *secret, const uint8_t *text, size_t len) {
    static const char salt[] = "muster secret 1";
    struct msi_hkdf_input input = {
        .salt = salt, .salt_len = sizeof salt - 1, .secret = text, .secret_len = len};
    msi_hkdf(&input, secret->key, sizeof secret->key);
    secret->exists = true;
}

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static mst_status read_contents(int fd, struct msi_secret *secret) {
    uint8_t text[MSI_SECRET_MOST + 1];
    size_t len = 0;
    const char *why = NULL;
    for (ssize_t n = 1; n && len < sizeof text;) {
        n = read(fd, text + len, sizeof text - len);
        if (n < 0 && errno != EINTR) why = strerror(errno);
        if (why) break;
        len += n > 0 ? (size_t)n : 0;
        if (n < 0) n = 1;
    }
    if (!why && len > MSI_SECRET_MOST) why = "it has more than 4096 bytes";
    while (len && is_space(text[len - 1])) len--;
    if (!why && len < MSI_SECRET_LEAST) why = "it has fewer than 16 bytes";
    if (!why) derive_key(secret, text, len);
    msi_wipe(text, sizeof text);
    return why ? fail(secret, why) : MST_OK;
}

/* exists is false if there is no such file. */
static mst_status read_file(struct msi_secret *secret) {
    bool own = secret->source == MSI_SECRET_FROM_USER;
    int fd = open(secret->where, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (own ? O_NOFOLLOW : 0));
    if (fd < 0 && errno == ENOENT && own) return MST_OK;
    if (fd < 0) return fail(secret, errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    const char *why = check_file(fd, !own);
    mst_status st = why ? fail(secret, why) : read_contents(fd, secret);
    close(fd);
    return st;
}

static mst_status read_launcher(struct msi_secret *secret) {
    int pid, number, at = 0;
    struct stat info;
    if (sscanf(secret->where, "/proc/%9d/fd/%9d%n", &pid, &number, &at) != 2 || secret->where[at])
        return fail(secret, MSI_SECRET_VARIABLE " is malformed");
    int fd = msi_proc_open_memfd(pid, number, &info);
    if (fd < 0) return fail(secret, errno == EPERM ? "it belongs to another user" : strerror(errno));
    bool right = info.st_size == sizeof secret->key && !(info.st_mode & 0077) &&
                 pread(fd, secret->key, sizeof secret->key, 0) == sizeof secret->key;
    close(fd);
    secret->exists = right;
    return right ? MST_OK : fail(secret, "it is not the secret of a launcher");
}

/* Makes the directories of the path, of mode 0700. The last one must belong to this user alone. */
static const char *make_directories(char *path) {
    struct stat info;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int error = msi_make_directory(path);
        bool last = !strchr(slash + 1, '/');
        bool foreign = !error && last && (lstat(path, &info) || info.st_uid != geteuid());
        bool open_to_all = !error && last && !foreign && (info.st_mode & 0022);
        *slash = '/';
        if (error) return msi_file_error(error);
        if (foreign) return "its directory belongs to another user";
        if (open_to_all) return "other users can write to its directory; chmod 700";
    }
    return NULL;
}

/* Gives the complete file its name, unless another process was first. 0, or an errno. */
static int publish(const char *temporary, const char *path) {
    if (!link(temporary, path) || errno == EEXIST) return 0;
    /* A file system without hard links. */
    return !renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) || errno == EEXIST ? 0 : errno;
}

static int write_new(int fd) {
    uint8_t key[MSI_SECRET_BYTES];
    char text[2 * MSI_SECRET_BYTES + 1];
    if (msi_secret_random(key, sizeof key) != MST_OK) return EIO;
    for (size_t i = 0; i < sizeof key; i++)
        for (int k = 0; k < 2; k++)
            text[2 * i + (size_t)k] = "0123456789abcdef"[k ? key[i] & 15 : key[i] >> 4];
    text[sizeof text - 1] = '\n';
    int error = msi_write_all(fd, text, sizeof text);
    if (!error && fsync(fd)) error = errno;
    msi_wipe(key, sizeof key);
    msi_wipe(text, sizeof text);
    return error;
}

/* Makes the user's secret. All processes that do so at once get the same one. */
static mst_status make_file(struct msi_secret *secret) {
    char temporary[MSI_SECRET_WHERE + 8];
    const char *why = make_directories(secret->where);
    if (why) return fail(secret, why);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", secret->where);
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) return fail(secret, strerror(errno));
    int error = write_new(fd);
    close(fd);
    if (!error) error = publish(temporary, secret->where);
    unlink(temporary);
    return error ? fail(secret, strerror(error)) : read_file(secret);
}

mst_status msi_secret_load(const char *file, bool make, struct msi_secret *secret) {
    mst_status st = locate(file, secret);
    if (st != MST_OK) return st;
    if (secret->source == MSI_SECRET_FROM_LAUNCHER) return read_launcher(secret);
    st = read_file(secret);
    if (st == MST_OK && !secret->exists && make) st = make_file(secret);
    if (st == MST_OK && !secret->exists && make) st = fail(secret, "another process removes it");
    return st;
}

mst_status msi_secret_share(const uint8_t key[MSI_SECRET_BYTES], int *fd) {
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int made = memfd_create("muster-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) return msi_fail_errno(errno, "cannot create a memfd for the secret");
    if (fchmod(made, 0600) || msi_write_all(made, key, MSI_SECRET_BYTES) || fcntl(made, F_ADD_SEALS, seals)) {
        mst_status st = msi_fail_errno(errno, "cannot write the secret to a memfd");
        close(made);
        return st;
    }
    *fd = made;
    return MST_OK;
}
