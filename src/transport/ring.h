/*
 * ring.h - a ring of cells in shared memory that carries bytes in one direction.
 *
 *   ring       cell 0      cell 1      ...  cell 15     ...  cell 65
 *              head bytes  head bytes
 *
 * The head of a cell holds the cell's number and length. The sender writes it last, so that a receiver that
 * reads the expected number also sees the bytes. A small message is in the cache line of the head and costs
 * one cache line transfer. A longer one begins two lines further: a processor that polls the head may fetch
 * the line beside it too, which the sender would have to take back. Messages are not acknowledged: the
 * receiver counts the cells that it has emptied, on a line of its own and a few at a time. The sender reads
 * this count only when it has filled all cells that it knows to be free.
 *
 * A flag in the head marks the last cell before cell 0. Normally this is cell 15: more cells would only use
 * more cache. On oversubscribed processors the sender continues up to cell 65 while it has bytes to send, so
 * that a large message takes fewer context switches; small messages stay in the first 16 cells.
 *
 * All shared loads and stores are sequentially consistent. On x86 this costs one fenced store per cell more
 * than acquire and release. It makes wake-ups reliable: a sleeper sets its flag and then checks the ring, the
 * other side changes the ring and then checks the flag, so one of them sees the other.
 *
 * The ring does not trust the other side: counts and lengths are bounded, and the index of a cell is never
 * read from shared memory. The functions are inline because every message uses them.
 */
#ifndef MSI_TRANSPORT_RING_H
#define MSI_TRANSPORT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MSI_RING_LINE = 128,      /* avoids false sharing: processors fetch lines of 64 bytes in pairs */
    MSI_RING_CELLS = 16,      /* cells in use … */
    MSI_RING_CELLS_WIDE = 66, /* … and for large messages on oversubscribed processors */
    MSI_CELL_BYTES = 16384,
    MSI_CELL_SMALL = 56,                  /* bytes that fit beside the head */
    MSI_RING_REPORT = MSI_RING_CELLS / 8, /* the receiver reports so many emptied cells together */
};

/* Flags in the head of a cell, between number and length. */
enum {
    MSI_CELL_RENDEZVOUS = 1 << 16, /* contains a struct msi_rendezvous_offer */
    MSI_CELL_LAST = 1 << 17,       /* cell 0 follows */
    MSI_CELL_NUMBER_SHIFT = 18,
};
_Static_assert((int)MSI_CELL_BYTES < (int)MSI_CELL_RENDEZVOUS, "a length does not overlap the flags");

struct msi_cell {
    _Atomic uint64_t head; /* number << MSI_CELL_NUMBER_SHIFT | flags | length */
    char small[MSI_CELL_SMALL];
    char pad[MSI_RING_LINE - 64]; /* also: cells at multiples of 4 KiB would map to the same cache sets */
    char bytes[MSI_CELL_BYTES];
};

/* Zeros are an empty ring. */
struct msi_ring {
    _Atomic uint64_t emptied; /* written only by the receiver */
    char pad[MSI_RING_LINE - 8];
    struct msi_cell cells[MSI_RING_CELLS_WIDE];
};

_Static_assert(sizeof(_Atomic uint64_t) == 8, "atomics are plain words");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these: 64 bits without a lock");
_Static_assert(offsetof(struct msi_cell, bytes) == 128 && sizeof(struct msi_cell) == 16512,
               "layout of a cell");
_Static_assert(sizeof(struct msi_cell) % MSI_RING_LINE == 0 && sizeof(struct msi_cell) % 4096 != 0,
               "cells are aligned and in different cache sets");
_Static_assert(offsetof(struct msi_ring, cells) == MSI_RING_LINE, "cells begin on their own line");

/* The sender's private state. The creator sets ring and cells; the rest starts as zeros. */
struct msi_ring_out {
    struct msi_ring *ring;
    uint64_t filled, known_emptied;      /* cells; known_emptied <= filled */
    uint64_t holds[MSI_RING_CELLS_WIDE]; /* the number last written into each cell */
    unsigned next, cells;                /* the next cell to fill; the number of cells in use */
};

/* The receiver's private state. The creator sets ring; the rest starts as zeros. */
struct msi_ring_in {
    struct msi_ring *ring;
    uint64_t taken, reported; /* cells; taken - reported < MSI_RING_REPORT */
    unsigned next;            /* the cell to empty next, or the open one */
    bool last;                /* cell 0 follows it */
};

/* Where a cell has its bytes if it has len of them. */
static inline char *msi_cell_bytes(struct msi_cell *cell, size_t len) {
    return len > MSI_CELL_SMALL ? cell->bytes : cell->small;
}

/* The sender's next cell. It may be written if msi_ring_has_room. */
static inline struct msi_cell *msi_ring_next(const struct msi_ring_out *out) {
    return &out->ring->cells[out->next];
}

/* Is the next cell known to be free? */
static inline bool msi_ring_has_room(const struct msi_ring_out *out) {
    return out->holds[out->next] <= out->known_emptied;
}

/* The number of cells that the receiver has reported as emptied. */
static inline uint64_t msi_ring_emptied(const struct msi_ring_out *out) {
    /* Acquires what msi_ring_close released: the receiver has read these cells and offered buffers. */
    return atomic_load_explicit(&out->ring->emptied, memory_order_seq_cst);
}

/* Updates the number of free cells. Returns false if the receiver reports an impossible number. */
static inline bool msi_ring_update(struct msi_ring_out *out) {
    uint64_t emptied = msi_ring_emptied(out);
    if (emptied - out->known_emptied > out->filled - out->known_emptied) return false;
    out->known_emptied = emptied;
    return true;
}

/*
 * Publishes the next cell. len is its length, with flags. more: the sender has more bytes to send. At least
 * MSI_RING_CELLS cells are filled before one is reused, so that the receiver, which reports every
 * MSI_RING_REPORT cells, has reported it.
 */
static inline void msi_ring_publish(struct msi_ring_out *out, size_t len, bool more) {
    struct msi_cell *cell = msi_ring_next(out);
    unsigned used = out->next + 1;
    bool last = used == out->cells || (used >= MSI_RING_CELLS && !more);
    out->holds[out->next] = ++out->filled;
    out->next = last ? 0 : used;
    uint64_t head = out->filled << MSI_CELL_NUMBER_SHIFT | (last ? MSI_CELL_LAST : 0) | len;
    atomic_store_explicit(&cell->head, head, memory_order_seq_cst); /* released to msi_ring_open */
}

/* Returns the receiver's next cell, and its length and flags in *len, or NULL if it is not published. */
static inline struct msi_cell *msi_ring_open(struct msi_ring_in *in, uint32_t *len) {
    struct msi_cell *cell = &in->ring->cells[in->next];
    /* Acquires what msi_ring_publish released: the bytes of the cell. */
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_seq_cst);
    if (head >> MSI_CELL_NUMBER_SHIFT != in->taken + 1) return NULL;
    in->last = head & MSI_CELL_LAST || in->next == MSI_RING_CELLS_WIDE - 1;
    *len = (uint32_t)(head & (MSI_CELL_LAST - 1));
    return cell;
}

/* Marks the open cell as read. Returns true if that was reported to the sender; report: report it at once. */
static inline bool msi_ring_close(struct msi_ring_in *in, bool report) {
    in->taken++;
    in->next = in->last ? 0 : in->next + 1;
    if (in->taken - in->reported < MSI_RING_REPORT && !report && !in->last) return false;
    in->reported = in->taken;
    /* Released to msi_ring_emptied. */
    atomic_store_explicit(&in->ring->emptied, in->taken, memory_order_seq_cst);
    return true;
}

#endif
