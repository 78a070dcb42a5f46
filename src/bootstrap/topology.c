/* topology.c - finds the ranks that share a host. See topology.h. */
#include "bootstrap/topology.h"
#include "base/hash.h"
#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { LOCATIONS = 62 };

/* The shared page: lock-free 64-bit words. The round trip through the store orders the first accesses. */
struct page {
    uint64_t magic, host;
    _Atomic uint64_t locations[LOCATIONS]; /* 0: free; set once by compare-exchange */
};
_Static_assert(sizeof(struct page) == 512, "the page's layout is shared between processes");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these words");

static const uint64_t magic = 0x3172657473756d2aull;

mst_status msi_topology_offer(struct msi_topology *topology, char offer[MSI_OFFER_MAX]) {
    *topology = (struct msi_topology){.mine = {.fd = -1}, .shared = {.fd = -1}};
    mst_status st = msi_segment_make("muster-host", sizeof(struct page), &topology->mine);
    if (st != MST_OK) return st;
    struct page *page = topology->mine.base;
    do msi_random(&topology->host, sizeof topology->host);
    while (topology->host == 0);
    page->magic = magic;
    page->host = topology->host;
    snprintf(offer, MSI_OFFER_MAX, "%d %d %llx", (int)getpid(), topology->mine.fd,
             (unsigned long long)topology->host);
    return MST_OK;
}

mst_status msi_topology_accept(struct msi_topology *topology, struct msi_str offer) {
    char text[MSI_OFFER_MAX];
    int pid, fd;
    unsigned long long host;
    if (sscanf(msi_str_copy(offer, text, sizeof text), "%d %d %llx", &pid, &fd, &host) != 3 ||
        host == topology->host)
        return MST_OK;
    struct msi_segment other;
    mst_status st = msi_segment_attach(pid, fd, 0, sizeof(struct page), &other);
    if (st != MST_OK && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) return st;
    if (st != MST_OK) {
        msi_log(bootstrap, INFO, "sharing no memory with pid %d: %s", pid, mst_last_error()->message);
        return MST_OK;
    }
    const struct page *page = other.base;
    if (page->magic != magic || page->host != host) {
        msi_log(bootstrap, INFO, "the segment of pid %d is not the one that was offered", pid);
        msi_segment_close(&other);
        return MST_OK;
    }
    msi_segment_close(&topology->mine);
    topology->shared = other;
    topology->host = host;
    return MST_OK;
}

bool msi_topology_publishes(struct msi_topology *topology, uint64_t location) {
    struct page *page = topology->shared.base ? topology->shared.base : topology->mine.base;
    for (int i = 0; i < LOCATIONS; i++) {
        uint64_t seen = 0;
        /* Relaxed: the word orders nothing else; the location itself goes through the store. */
        if (atomic_compare_exchange_strong_explicit(&page->locations[i], &seen, location,
                                                    memory_order_relaxed, memory_order_relaxed))
            return true;
        if (seen == location) return false;
    }
    return true;
}

void msi_topology_close(struct msi_topology *topology) {
    msi_segment_close(&topology->mine);
    msi_segment_close(&topology->shared);
}
