/* rank_state.c - see rank_state.h. Any thread. */
#include "base/rank_state.h"
#include "base/proc_fd.h"
#include "base/str.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Atomic(struct msi_rank_state *) msi_rank_state;
_Atomic uint64_t msi_rank_state_keys[MSI_RANK_STATE_SITES];

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int owner; /* the process that opened it; a forked child has it mapped as well */

/* Taken (acquire) and released (release) by add_site. */
static atomic_flag claimed[MSI_RANK_STATE_SITES];

/* Taken (acquire) and released (release) by msi_rank_state_error. */
static atomic_flag error_claimed = ATOMIC_FLAG_INIT;

/*
 * The reader is another process that reads reliably only after this one is dead. So program order suffices;
 * the compiler must keep it around the store that makes a text valid or invalid.
 */
static void in_order(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

#define set(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define get(field)        atomic_load_explicit(&(field), memory_order_relaxed)

/* "/proc/PID/fd/N:SLOT" */
static bool parse(const char *text, int *pid, int *fd, long *slot) {
    int at = 0;
    return sscanf(text, "/proc/%9d/fd/%9d:%9ld%n", pid, fd, slot, &at) == 3 && !text[at] && *slot >= 0;
}

/* In another namespace the pid may be of a different process, and its descriptor may be any file. */
static bool is_rank_state(int fd) {
    static const char name[] = "/memfd:" MSI_RANK_STATE_MEMFD;
    char path[32], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, target, sizeof target);
    return n >= (ssize_t)sizeof name - 1 && !memcmp(target, name, sizeof name - 1);
}

static struct msi_rank_state *map(int pid, int descriptor, long slot) {
    struct stat st;
    off_t at = (off_t)slot * MSI_RANK_STATE_SLOT;
    struct msi_rank_state *state = MAP_FAILED;
    int fd = msi_proc_open_memfd(pid, descriptor, &st);
    if (fd < 0) return NULL;
    if (is_rank_state(fd) && st.st_size % MSI_RANK_STATE_SLOT == 0 && at + MSI_RANK_STATE_SLOT <= st.st_size)
        state = mmap(NULL, MSI_RANK_STATE_SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    close(fd);
    if (state == MAP_FAILED) return NULL;
    if (get(state->magic) == MSI_RANK_STATE_MAGIC) return state;
    munmap(state, MSI_RANK_STATE_SLOT);
    return NULL;
}

void msi_rank_state_open(void) {
    const char *text = getenv(MSI_RANK_STATE_VARIABLE);
    int pid, fd;
    long slot;
    pthread_mutex_lock(&open_lock);
    struct msi_rank_state *state = msi_rank_state_on();
    if (!state && text && *text) {
        state = parse(text, &pid, &fd, &slot) ? map(pid, fd, slot) : NULL;
        atomic_store_explicit(&msi_rank_state, state, memory_order_release);
    }
    if (state) {
        set(owner, (int)getpid());
        set(state->pid, (uint32_t)getpid());
    }
    pthread_mutex_unlock(&open_lock);
}

/* False in a forked child. Entering a call does not check this, since it costs a system call. */
static bool is_own(void) {
    return msi_rank_state_on() && get(owner) == (int)getpid();
}

void msi_rank_phase(enum msi_rank_phase phase) {
    struct msi_rank_state *state = msi_rank_state_on();
    if (!is_own()) return;
    if (phase == MSI_RANK_STATE_JOINING) set(state->size, 0);
    set(state->phase, (uint32_t)phase);
}

void msi_rank_state_world(int rank, int size) {
    struct msi_rank_state *state = msi_rank_state_on();
    if (!is_own()) return;
    set(state->rank, (uint32_t)rank);
    set(state->size, (uint32_t)size);
}

/* Writes the texts of a call site; its index, or MSI_RANK_STATE_SITES if another thread writes there. */
static unsigned add_site(struct msi_rank_state *state, const char *operation, const mst_site *site) {
    uint64_t key = msi_rank_state_key(operation, site);
    unsigned slot = msi_rank_state_slot_of(key), i = get(msi_rank_state_keys[slot]) ? slot ^ 1 : slot;
    struct msi_rank_state_site *to = &state->sites[i];
    if (atomic_flag_test_and_set_explicit(&claimed[i], memory_order_acquire)) return MSI_RANK_STATE_SITES;
    set(msi_rank_state_keys[i], 0);
    in_order();
    msi_copy_text(to->operation, sizeof to->operation, operation);
    msi_copy_text(to->file, sizeof to->file, msi_base_name(site->file));
    msi_copy_text(to->function, sizeof to->function, site->function);
    in_order();
    set(msi_rank_state_keys[i], key);
    atomic_flag_clear_explicit(&claimed[i], memory_order_release);
    return i;
}

uint64_t msi_rank_state_enter_new(struct msi_rank_state *state, const char *operation, const mst_site *site,
                                  uint64_t sequence, uint64_t size_dtype, uint64_t count) {
    unsigned at = add_site(state, operation, site);
    return msi_rank_state_write(state, (uint32_t)site->line | (uint64_t)at << 32, sequence, size_dtype,
                                count);
}

void msi_rank_state_error(const mst_error_info *error) {
    if (!is_own() || atomic_flag_test_and_set_explicit(&error_claimed, memory_order_acquire)) return;
    struct msi_rank_state *state = msi_rank_state_on();
    set(state->status, MST_OK);
    in_order();
    set(state->culprit, error->culprit);
    set(state->error_call, get(state->call) | 1);
    set(state->error_sequence, error->sequence);
    msi_copy_text(state->error_operation, sizeof state->error_operation, error->operation);
    msi_copy_text(state->message, sizeof state->message, error->message);
    msi_copy_text(state->remedy, sizeof state->remedy, error->remedy);
    in_order();
    set(state->status, (uint32_t)error->status);
    atomic_flag_clear_explicit(&error_claimed, memory_order_release);
}

void msi_rank_state_blame(int culprit) {
    if (is_own()) set(msi_rank_state_on()->culprit, culprit);
}
