/* shm_region.c - see shm_region.h. */
#include "transport/shm_region.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The unsealed regions that this process has made. */
static struct msi_list made_here = {&made_here, &made_here};
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

static const uint64_t magic = 0x6472616f426d756dull;

static size_t region_bytes(int size) {
    return sizeof(struct msi_shm_region_header) + (size_t)size * sizeof(struct msi_area);
}

_Static_assert(MSI_SHM_REGION_PROCESSORS <= CPU_SETSIZE, "a cpu_set_t holds as many");
/* Relaxed: readers have seen all ranks arrive. */
static void publish_processors(struct msi_shm_region_header *head) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return;
    for (int cpu = 0; cpu < MSI_SHM_REGION_PROCESSORS; cpu++)
        if (CPU_ISSET(cpu, &set))
            atomic_fetch_or_explicit(&head->processors[cpu / 64], (uint64_t)1 << cpu % 64,
                                     memory_order_relaxed);
}

static mst_status new_region(int rank, int size, const struct msi_segment *segment,
                             struct msi_shm_region **region) {
    struct msi_shm_region *made = calloc(1, sizeof *made);
    int *wake_fds = calloc((size_t)size, sizeof *wake_fds);
    if (!made || !wake_fds) {
        free(made);
        free(wake_fds);
        return msi_fail_memory();
    }
    for (int i = 0; i < size; i++) wake_fds[i] = -1;
    unsigned char *base = segment->base;
    *made = (struct msi_shm_region){.segment = *segment,
                                    .head = segment->base,
                                    .areas = (struct msi_area *)(void *)(base + sizeof *made->head),
                                    .rank = rank,
                                    .size = size,
                                    .big_reader = -1,
                                    .wake_fd = {-1, -1},
                                    .wake_fds = wake_fds};
    msi_list_init(&made->made);
    publish_processors(made->head);
    *region = made;
    return MST_OK;
}

int msi_shm_region_processors(const struct msi_shm_region *region) {
    int n = 0;
    for (int i = 0; i < MSI_SHM_REGION_PROCESSORS / 64; i++) {
        uint64_t bits = atomic_load_explicit(&region->head->processors[i], memory_order_relaxed);
        n += __builtin_popcountll(bits);
    }
    return n;
}

mst_status msi_shm_region_make(int rank, int size, struct msi_shm_region **region,
                               char offer[MSI_SHM_REGION_OFFER_MAX]) {
    struct msi_segment segment;
    if (size > MSI_SHM_REGION_RANKS)
        return msi_fail(MST_ERR_LIMIT, NULL, "%d ranks of a group on one host; the maximum is %d", size,
                        MSI_SHM_REGION_RANKS);
    mst_status st = msi_segment_make("muster-region", region_bytes(size), &segment);
    if (st != MST_OK) return st;
    st = new_region(rank, size, &segment, region);
    if (st != MST_OK) {
        msi_segment_close(&segment);
        return st;
    }
    struct msi_shm_region_header *head = (*region)->head;
    head->magic = magic;
    head->size = (uint32_t)size;
    atomic_init(&head->users, 1);
    (*region)->shares_mapping = true;
    snprintf(offer, MSI_SHM_REGION_OFFER_MAX, "%d %d %llu", (int)getpid(), segment.fd,
             (unsigned long long)msi_segment_inode(&segment));
    pthread_mutex_lock(&made_lock);
    msi_list_push(&made_here, &(*region)->made);
    pthread_mutex_unlock(&made_lock);
    return MST_OK;
}

/*
 * Ranks that are threads of one process share the maker's mapping, so that race detectors see their accesses.
 * The pid and descriptor from the store only select an entry of the list.
 */
static bool join_mapping(int pid, int fd, int size, struct msi_segment *segment) {
    bool found = false;
    if (pid != getpid()) return false;
    pthread_mutex_lock(&made_lock);
    for (struct msi_list *at = made_here.next; at != &made_here && !found; at = at->next) {
        const struct msi_shm_region *region = msi_container(at, struct msi_shm_region, made);
        found = region->segment.fd == fd && region->size == size;
        if (!found) continue;
        *segment =
            (struct msi_segment){fcntl(fd, F_DUPFD_CLOEXEC, 0), region->segment.base, region->segment.size};
        /* The maker is in the list, so the mapping is open. The last user unmaps it. */
        atomic_fetch_add_explicit(&region->head->users, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&made_lock);
    return found;
}

mst_status msi_shm_region_attach(const char *offer, int holder, int rank, int size,
                                 struct msi_shm_region **region) {
    int pid, fd;
    unsigned long long inode;
    struct msi_segment segment;
    if (sscanf(offer, "%d %d %llu", &pid, &fd, &inode) != 3)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "'%.60s' does not describe a shared-memory region", offer);
    bool joined = !holder && join_mapping(pid, fd, size, &segment);
    mst_status st = MST_OK;
    if (holder)
        st = msi_segment_find(holder, inode, region_bytes(size), &segment);
    else if (!joined)
        st = msi_segment_adopt(pid, fd, inode, region_bytes(size), &segment);
    if (st != MST_OK) return st;
    const struct msi_shm_region_header *head = segment.base;
    if (head->magic != magic || head->size != (uint32_t)size)
        st = msi_fail(MST_ERR_PROTOCOL, NULL, "the segment of pid %d is not a region of %d ranks", pid, size);
    else
        st = new_region(rank, size, &segment, region);
    if (st == MST_OK)
        (*region)->shares_mapping = joined;
    else if (joined)
        close(segment.fd);
    else
        msi_segment_close(&segment);
    return st;
}

void msi_shm_region_seal(struct msi_shm_region *region) {
    pthread_mutex_lock(&made_lock);
    msi_list_remove(&region->made);
    pthread_mutex_unlock(&made_lock);
    if (region->segment.fd >= 0) close(region->segment.fd);
    region->segment.fd = -1;
}

void msi_shm_region_close(struct msi_shm_region *region) {
    if (!region) return;
    for (int i = 0; i < region->size; i++)
        if (region->wake_fds[i] >= 0) close(region->wake_fds[i]);
    for (int i = 0; i < 2; i++)
        if (region->wake_fd[i] >= 0) close(region->wake_fd[i]);
    msi_shm_region_seal(region);
    /* acq_rel: the last user unmaps after the last access of the others. */
    if (!region->shares_mapping ||
        atomic_fetch_sub_explicit(&region->head->users, 1, memory_order_acq_rel) == 1)
        msi_segment_close(&region->segment);
    free(region->wake_fds);
    free(region);
}

bool msi_shm_region_may_announce(struct msi_shm_region *region, uint64_t seq) {
    if (seq < region->synced + MSI_SLOTS) return true;
    uint64_t least = seq - 1;
    for (int rank = 0; rank < region->size; rank++) {
        if (rank == region->rank) continue;
        uint64_t begun = seq - 1;
        while (begun + MSI_SLOTS > seq && !msi_shm_region_begun(region, rank, begun)) begun--;
        if (begun + MSI_SLOTS <= seq) return false;
        if (begun < least) least = begun;
    }
    region->synced = least;
    return true;
}

int msi_shm_region_verify(struct msi_shm_region *region, uint64_t seq, uint64_t *differing) {
    uint64_t q = region->verified + 1;
    if (q + MSI_SLOTS <= seq) q = seq - MSI_SLOTS + 1; /* earlier slots are overwritten */
    for (; q < seq; q++) {
        uint64_t expected = q << 32 | region->signatures[q % MSI_SLOTS];
        for (int rank = 0; rank < region->size; rank++) {
            const struct msi_slot *slot = &region->areas[rank].slots[q % MSI_SLOTS];
            uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire);
            if ((uint32_t)(flag >> 32) != (uint32_t)q || flag == expected) continue;
            *differing = q;
            return rank;
        }
    }
    region->verified = seq - 1;
    return -1;
}

/* Makes a pipe whose writing end other ranks open through /proc. */
static mst_status make_wake_fd(struct msi_shm_region *region) {
    if (pipe2(region->wake_fd, O_CLOEXEC | O_NONBLOCK)) {
        region->wake_fd[0] = region->wake_fd[1] = -1;
        return msi_fail_errno(errno, "cannot create a pipe");
    }
    uint64_t published = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(region->wake_fd[1] + 1);
    atomic_store_explicit(&msi_shm_region_own(region)->wake_fd, published,
                          memory_order_release); /* read by open_wake_fd */
    return MST_OK;
}

static int open_wake_fd(const struct msi_shm_region *region, int rank) {
    uint64_t published =
        atomic_load_explicit(&region->areas[rank].wake_fd, memory_order_acquire); /* set by make_wake_fd */
    char path[64];
    if (published == 0) return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)(published >> 32), (int)(uint32_t)published - 1);
    return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC); /* as a reader too, to avoid SIGPIPE */
}

void msi_shm_region_signal(const struct msi_shm_region *region, int rank) {
    char byte = 0;
    if (region->wake_fds[rank] < 0) region->wake_fds[rank] = open_wake_fd(region, rank);
    if (region->wake_fds[rank] < 0) return; /* the rank has exited, or it wakes without a signal */
    ssize_t n = write(region->wake_fds[rank], &byte, 1);
    (void)n;
}

/*
 * Read after the sleep bit. A value of a later sleep is harmless: the rank has checked the region since then.
 */
static bool is_awaited(const struct msi_shm_region *region, int rank) {
    uint64_t awaits = atomic_load_explicit(&region->areas[rank].awaits, memory_order_relaxed);
    return awaits == 0 || awaits == (uint64_t)region->rank + 1;
}

void msi_shm_region_wake(const struct msi_shm_region *region, bool announcement) {
    for (int i = 0; i < (region->size + 63) / 64; i++) {
        uint64_t bits = atomic_load_explicit(&region->head->asleep[i], memory_order_seq_cst);
        for (; bits; bits &= bits - 1) {
            int rank = i * 64 + __builtin_ctzll(bits);
            if (rank >= region->size || rank == region->rank) continue;
            if (!announcement || is_awaited(region, rank)) msi_shm_region_signal(region, rank);
        }
    }
}

mst_status msi_shm_region_asleep(struct msi_shm_region *region, int awaits, int *descriptor) {
    mst_status st = region->wake_fd[0] >= 0 ? MST_OK : make_wake_fd(region);
    if (st != MST_OK) return st;
    atomic_store_explicit(&msi_shm_region_own(region)->awaits, (uint64_t)(awaits + 1), memory_order_relaxed);
    atomic_fetch_or_explicit(&region->head->asleep[region->rank / 64], (uint64_t)1 << region->rank % 64,
                             memory_order_seq_cst);
    /* Rule 3: the caller checks after this. Pairs with msi_shm_region_post. */
    atomic_thread_fence(memory_order_seq_cst);
    *descriptor = region->wake_fd[0];
    return MST_OK;
}

void msi_shm_region_awake(struct msi_shm_region *region) {
    char bytes[64];
    atomic_fetch_and_explicit(&region->head->asleep[region->rank / 64], ~((uint64_t)1 << region->rank % 64),
                              memory_order_relaxed);
    while (read(region->wake_fd[0], bytes, sizeof bytes) == sizeof bytes) continue;
}
