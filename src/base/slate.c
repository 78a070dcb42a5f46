/* slate.c - the writer of slates. See slate.h. Any thread. */
#include "base/slate.h"

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

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int owner; /* the process that opened it: a forked child has it mapped, too */

/* Whose texts a place has, by their addresses. A claim is taken (acquire) and given back (release) by keep_place. */
static struct {
    _Atomic(const char *) operation, file, function;
    atomic_flag claimed;
} keys[MSI_SLATE_PLACES];

/* Taken (acquire) and given back (release) by msi_slate_error. */
static atomic_flag error_claimed = ATOMIC_FLAG_INIT;

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

void msi_slate_phase(enum msi_slate_phase phase) {
    struct msi_slate *slate = msi_slate_on();
    if (!slate) return;
    if (phase == MSI_SLATE_JOINING) set(slate->size, 0);
    set(slate->phase, (uint32_t)phase);
}

void msi_slate_world(int rank, int size) {
    struct msi_slate *slate = msi_slate_on();
    if (!slate) return;
    set(slate->rank, (uint32_t)rank);
    set(slate->size, (uint32_t)size);
}

static void copy(char *to, size_t room, const char *from) {
    size_t n = from ? strnlen(from, room - 1) : 0;
    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

static unsigned home_of(const char *operation, const mst_site *site) {
    uint64_t mixed = ((uintptr_t)operation * 3 + (uintptr_t)site->file * 5 + (uintptr_t)site->function) *
                     0x9E3779B97F4A7C15u;
    _Static_assert(MSI_SLATE_PLACES == 16, "four bits");
    return (unsigned)(mixed >> 60);
}

/* Writes the texts of a place that had others. */
__attribute__((noinline)) static unsigned keep_place(struct msi_slate *slate, unsigned i,
                                                     const char *operation, const mst_site *site) {
    struct msi_slate_place *place = &slate->places[i];
    const char *slash = site->file ? strrchr(site->file, '/') : NULL;
    if (atomic_flag_test_and_set_explicit(&keys[i].claimed, memory_order_acquire)) return MSI_SLATE_PLACES;
    set(keys[i].operation, NULL);
    copy(place->operation, sizeof place->operation, operation);
    copy(place->file, sizeof place->file, slash ? slash + 1 : site->file);
    copy(place->function, sizeof place->function, site->function);
    set(keys[i].file, site->file);
    set(keys[i].function, site->function);
    set(keys[i].operation, operation);
    atomic_flag_clear_explicit(&keys[i].claimed, memory_order_release);
    return i;
}

uint64_t msi_slate_enter(const char *operation, const mst_site *site, uint64_t sequence) {
    struct msi_slate *slate = msi_slate_on();
    unsigned i = home_of(operation, site);
    uint64_t number = get(slate->call) / 2 + 1;
    bool known = get(keys[i].operation) == operation && get(keys[i].file) == site->file &&
                 get(keys[i].function) == site->function;
    if (!known) i = keep_place(slate, i, operation, site);
    set(slate->place, i);
    set(slate->line, (uint32_t)site->line);
    set(slate->sequence, sequence);
    set(slate->count, 0);
    set(slate->ranks, 0);
    set(slate->call, number * 2 + 1);
    return number;
}

void msi_slate_about(int ranks, int dtype, uint64_t count) {
    struct msi_slate *slate = msi_slate_on();
    set(slate->ranks, (uint32_t)ranks);
    set(slate->dtype, (uint32_t)dtype);
    set(slate->count, count);
}

void msi_slate_leave(uint64_t number, mst_status status) {
    struct msi_slate *slate = msi_slate_on();
    if (get(slate->call) == number * 2 + 1) set(slate->call, number * 2);
    if (status == MST_OK && get(slate->error_call) == number) set(slate->status, MST_OK);
}

static bool is_own(void) {
    return msi_slate_on() && get(owner) == (int)getpid();
}

void msi_slate_error(const mst_error_info *error) {
    if (!is_own() || atomic_flag_test_and_set_explicit(&error_claimed, memory_order_acquire)) return;
    struct msi_slate *slate = msi_slate_on();
    set(slate->status, MST_OK);
    set(slate->culprit, error->culprit);
    set(slate->error_call, get(slate->call) / 2);
    set(slate->error_sequence, error->sequence);
    copy(slate->error_operation, sizeof slate->error_operation, error->operation);
    copy(slate->message, sizeof slate->message, error->message);
    copy(slate->remedy, sizeof slate->remedy, error->remedy);
    atomic_signal_fence(memory_order_release);
    set(slate->status, (uint32_t)error->status);
    atomic_flag_clear_explicit(&error_claimed, memory_order_release);
}

void msi_slate_blame(int culprit) {
    if (is_own()) set(msi_slate_on()->culprit, culprit);
}
