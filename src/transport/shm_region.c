/* shm_region.c - see shm_region.h. */
#include "transport/shm_region.h"
#include "base/error.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t magic = 0x3330626f426d756dull; /* change it with the layout of an area or a cell */

static size_t offers_at(int size) {
    return sizeof(struct msi_shm_region_header) + (size_t)size * sizeof(struct msi_area);
}

static size_t cells_at(int size) {
    size_t align = _Alignof(struct msi_cells), end = offers_at(size) + (size_t)size * (size_t)size *
                                                                           MSI_SHM_REGION_CHANNELS *
                                                                           sizeof(struct msi_offer);
    return (end + align - 1) / align * align;
}

static size_t region_bytes(int size) {
    return cells_at(size) + (size_t)size * sizeof(struct msi_cells);
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

static mst_status new_region(int rank, int size, struct msi_shm_mapping *mapping,
                             struct msi_shm_region **region) {
    struct msi_shm_region *made = malloc(sizeof *made);
    if (!made) return msi_fail_memory();
    unsigned char *base = mapping->segment.base;
    *made = (struct msi_shm_region){.mapping = mapping,
                                    .head = mapping->segment.base,
                                    .areas = (struct msi_area *)(void *)(base + sizeof *made->head),
                                    .offers = (struct msi_offer *)(void *)(base + offers_at(size)),
                                    .cells = (struct msi_cells *)(void *)(base + cells_at(size)),
                                    .rank = rank,
                                    .size = size,
                                    .wake_fd = -1};
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
    struct msi_shm_mapping *mapping;
    if (size > MSI_SHM_REGION_RANKS)
        return msi_fail(MST_ERR_LIMIT, NULL, "%d ranks of a group on one host; the maximum is %d", size,
                        MSI_SHM_REGION_RANKS);
    mst_status st = msi_shm_mapping_make(region_bytes(size), size, &mapping);
    if (st != MST_OK) return st;
    st = new_region(rank, size, mapping, region);
    if (st != MST_OK) {
        msi_shm_mapping_close(mapping);
        return st;
    }
    struct msi_shm_region_header *head = (*region)->head;
    head->magic = magic;
    head->size = (uint32_t)size;
    snprintf(offer, MSI_SHM_REGION_OFFER_MAX, "%d %d %llu", (int)getpid(), mapping->segment.fd,
             (unsigned long long)mapping->inode);
    return MST_OK;
}

mst_status msi_shm_region_attach(const char *offer, int holder, int rank, int size,
                                 struct msi_shm_region **region) {
    struct msi_shm_source source;
    unsigned long long inode;
    struct msi_shm_mapping *mapping;
    if (sscanf(offer, "%d %d %llu", &source.pid, &source.fd, &inode) != 3)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "'%.60s' does not describe a shared-memory region", offer);
    source.inode = inode;
    if (holder) source = (struct msi_shm_source){holder, -1, inode};
    mst_status st = msi_shm_mapping_open(&source, region_bytes(size), size, &mapping);
    if (st != MST_OK) return st;
    const struct msi_shm_region_header *head = mapping->segment.base;
    if (head->magic != magic || head->size != (uint32_t)size)
        st = msi_fail(MST_ERR_PROTOCOL, NULL, "the segment of pid %d is not a region of %d ranks", source.pid,
                      size);
    else
        st = new_region(rank, size, mapping, region);
    if (st != MST_OK) msi_shm_mapping_close(mapping);
    return st;
}

void msi_shm_region_seal(struct msi_shm_region *region) {
    msi_shm_mapping_seal(region->mapping);
}

void msi_shm_region_close(struct msi_shm_region *region) {
    if (!region) return;
    msi_shm_mapping_close(region->mapping);
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

bool msi_shm_region_is_finished(const struct msi_shm_region *region, uint64_t seq) {
    for (int rank = 0; rank < region->size; rank++)
        /* From msi_shm_region_finish: the rank reads the cells of this one no more. */
        if (rank != region->rank && !msi_shm_region_reached(&region->areas[rank].finished, seq)) return false;
    return true;
}

bool msi_shm_region_empty_cells(struct msi_shm_region *region) {
    if (madvise(msi_shm_region_own_cells(region), sizeof(struct msi_cells), MADV_REMOVE)) return false;
    region->small_held = region->big_held = false;
    return true;
}

size_t msi_shm_region_share(const struct msi_shm_region *region) {
    return cells_at(region->size) / (size_t)region->size;
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

/* Makes the pipe that other ranks open through /proc. */
static mst_status make_wake_fd(struct msi_shm_region *region) {
    mst_status st = msi_shm_mapping_make_wake_fd(region->mapping, region->rank, &region->wake_fd);
    if (st != MST_OK) return st;
    uint64_t published = (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(region->wake_fd + 1);
    /* Read by msi_shm_region_signal. */
    atomic_store_explicit(&msi_shm_region_own(region)->wake_fd, published, memory_order_release);
    return MST_OK;
}

void msi_shm_region_signal(const struct msi_shm_region *region, int rank) {
    uint64_t published =
        atomic_load_explicit(&region->areas[rank].wake_fd, memory_order_acquire); /* set by make_wake_fd */
    if (published)
        msi_shm_mapping_wake(region->mapping, rank, (int)(published >> 32), (int)(uint32_t)published - 1);
}

/*
 * Read after the sleep bit. A value of a later sleep is harmless: the rank has checked the region since then.
 */
static bool is_awaited(const struct msi_shm_region *region, int rank) {
    uint64_t awaits = atomic_load_explicit(&region->areas[rank].awaits, memory_order_relaxed);
    return awaits == 0 || awaits == (uint64_t)region->rank + 1;
}

static bool awaits_finish(const struct msi_shm_region *region, int rank) {
    return atomic_load_explicit(&region->areas[rank].awaits, memory_order_relaxed) == MSI_AWAITS_FINISH;
}

static void wake(const struct msi_shm_region *region, bool (*is_meant)(const struct msi_shm_region *, int)) {
    for (int i = 0; i < (region->size + 63) / 64; i++) {
        uint64_t bits = atomic_load_explicit(&region->head->asleep[i], memory_order_seq_cst);
        for (; bits; bits &= bits - 1) {
            int rank = i * 64 + __builtin_ctzll(bits);
            if (rank >= region->size || rank == region->rank) continue;
            if (!is_meant || is_meant(region, rank)) msi_shm_region_signal(region, rank);
        }
    }
}

void msi_shm_region_wake(const struct msi_shm_region *region, bool announcement) {
    wake(region, announcement ? is_awaited : NULL);
}

void msi_shm_region_wake_finish(const struct msi_shm_region *region) {
    /* Rule 3: this rank has seen what the others sleep for. Pairs with the fence in msi_shm_region_asleep. */
    atomic_thread_fence(memory_order_seq_cst);
    wake(region, awaits_finish);
}

mst_status msi_shm_region_asleep(struct msi_shm_region *region, int awaits, int *descriptor) {
    mst_status st = region->wake_fd >= 0 ? MST_OK : make_wake_fd(region);
    if (st != MST_OK) return st;
    atomic_store_explicit(&msi_shm_region_own(region)->awaits, (uint64_t)awaits, memory_order_relaxed);
    atomic_fetch_or_explicit(&region->head->asleep[region->rank / 64], (uint64_t)1 << region->rank % 64,
                             memory_order_seq_cst);
    /* Rule 3: the caller checks after this. Pairs with msi_shm_region_post. */
    atomic_thread_fence(memory_order_seq_cst);
    *descriptor = region->wake_fd;
    return MST_OK;
}

void msi_shm_region_awake(struct msi_shm_region *region) {
    char bytes[64];
    atomic_fetch_and_explicit(&region->head->asleep[region->rank / 64], ~((uint64_t)1 << region->rank % 64),
                              memory_order_relaxed);
    while (read(region->wake_fd, bytes, sizeof bytes) == sizeof bytes) continue;
}
