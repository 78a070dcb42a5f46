/* rank_state.c - the writer of slates. See rank_state.h. Any thread. */
#include "base/rank_state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Atomic(struct msi_slate *) msi_slate;
_Atomic uint64_t msi_slate_keys[MSI_SLATE_PLACES];

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int owner; /* the process that opened it: a forked child has it mapped, too */

/* Taken (acquire) and given back (release) by keep_place. */
static atomic_flag claimed[MSI_SLATE_PLACES];

/* Taken (acquire) and given back (release) by msi_slate_error. */
static atomic_flag error_claimed = ATOMIC_FLAG_INIT;

/*
 * What is read is read by another process, and for certain only once this one is dead: program order is all it takes, which the
 * compiler must keep around the store that makes something valid or not.
 */
static void in_order(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

#define set(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define get(field)        atomic_load_explicit(&(field), memory_order_relaxed)

/* "/proc/PID/fd/N:SLOT"; the path goes into path. */
static bool parse(const char *text, char path[64], long *slot) {
    unsigned pid, fd;
    int at = 0;
    if (sscanf(text, "/proc/%9u/fd/%9u%n", &pid, &fd, &at) != 2 || text[at] != ':') return false;
    char *end;
    errno = 0;
    *slot = strtol(text + at + 1, &end, 10);
    snprintf(path, 64, "/proc/%u/fd/%u", pid, fd);
    return end != text + at + 1 && !*end && !errno && *slot >= 0 && *slot < INT32_MAX;
}

/* In another namespace the number may be that of a stranger, whose file may be anything. */
static bool is_slate(const char *path) {
    static const char name[] = "/memfd:" MSI_SLATE_MEMFD;
    char target[64];
    ssize_t n = readlink(path, target, sizeof target);
    return n >= (ssize_t)sizeof name - 1 && !memcmp(target, name, sizeof name - 1);
}

static struct msi_slate *map(const char *path, long slot) {
    struct stat st;
    off_t at = (off_t)slot * MSI_SLATE_SLOT;
    struct msi_slate *slate = MAP_FAILED;
    int fd = is_slate(path) ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0) return NULL;
    int seals = fcntl(fd, F_GET_SEALS);
    bool firm = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0;
    if (firm && at + MSI_SLATE_SLOT <= st.st_size)
        slate = mmap(NULL, MSI_SLATE_SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    close(fd);
    if (slate == MAP_FAILED) return NULL;
    if (get(slate->magic) == MSI_SLATE_MAGIC) return slate;
    munmap(slate, MSI_SLATE_SLOT);
    return NULL;
}

void msi_slate_open(void) {
    const char *text = getenv(MSI_SLATE_VARIABLE);
    char path[64];
    long slot;
    pthread_mutex_lock(&open_lock);
    struct msi_slate *slate = msi_slate_on();
    if (!slate && text && *text) {
        slate = parse(text, path, &slot) ? map(path, slot) : NULL;
        atomic_store_explicit(&msi_slate, slate, memory_order_release);
    }
    if (slate) {
        set(owner, (int)getpid());
        set(slate->pid, (uint32_t)getpid());
    }
    pthread_mutex_unlock(&open_lock);
}

/* Not of a forked child. Entering a call does not ask: that would cost a system call. */
static bool is_own(void) {
    return msi_slate_on() && get(owner) == (int)getpid();
}

void msi_slate_phase(enum msi_slate_phase phase) {
    struct msi_slate *slate = msi_slate_on();
    if (!is_own()) return;
    if (phase == MSI_SLATE_JOINING) set(slate->size, 0);
    set(slate->phase, (uint32_t)phase);
}

void msi_slate_world(int rank, int size) {
    struct msi_slate *slate = msi_slate_on();
    if (!is_own()) return;
    set(slate->rank, (uint32_t)rank);
    set(slate->size, (uint32_t)size);
}

static void copy(char *to, size_t room, const char *from) {
    size_t n = from ? strnlen(from, room - 1) : 0;
    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

/* Gives the texts a place, their home or the one beside it, which may have had others; none while another thread is at it. */
static uint64_t keep_place(struct msi_slate *slate, const char *operation, const mst_site *site) {
    uint64_t key = msi_slate_key(operation, site);
    unsigned home = msi_slate_home(key), i = get(msi_slate_keys[home]) ? home ^ 1 : home;
    struct msi_slate_place *place = &slate->places[i];
    const char *slash = site->file ? strrchr(site->file, '/') : NULL;
    if (atomic_flag_test_and_set_explicit(&claimed[i], memory_order_acquire)) return MSI_SLATE_PLACES;
    set(msi_slate_keys[i], 0);
    in_order();
    copy(place->operation, sizeof place->operation, operation);
    copy(place->file, sizeof place->file, slash ? slash + 1 : site->file);
    copy(place->function, sizeof place->function, site->function);
    in_order();
    set(msi_slate_keys[i], key);
    atomic_flag_clear_explicit(&claimed[i], memory_order_release);
    return i;
}

uint64_t msi_slate_enter_new(struct msi_slate *slate, const char *operation, const mst_site *site,
                             uint64_t sequence, uint64_t about, uint64_t count) {
    uint64_t place = keep_place(slate, operation, site);
    return msi_slate_write_call(slate, (uint32_t)site->line | place << 32, sequence, about, count);
}

void msi_slate_error(const mst_error_info *error) {
    if (!is_own() || atomic_flag_test_and_set_explicit(&error_claimed, memory_order_acquire)) return;
    struct msi_slate *slate = msi_slate_on();
    set(slate->status, MST_OK);
    in_order();
    set(slate->culprit, error->culprit);
    set(slate->error_call, get(slate->call) | 1);
    set(slate->error_sequence, error->sequence);
    copy(slate->error_operation, sizeof slate->error_operation, error->operation);
    copy(slate->message, sizeof slate->message, error->message);
    copy(slate->remedy, sizeof slate->remedy, error->remedy);
    in_order();
    set(slate->status, (uint32_t)error->status);
    atomic_flag_clear_explicit(&error_claimed, memory_order_release);
}

void msi_slate_blame(int culprit) {
    if (is_own()) set(msi_slate_on()->culprit, culprit);
}
