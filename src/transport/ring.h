/*
 * ring.h - cells in memory that two ranks have mapped, through which bytes go one way.
 *
 *   ring       cell 0      cell 1      ...  cell 15     ...  cell 65
 *              head bytes  head bytes
 *
 * A cell's head holds the number of the cell and how many bytes follow it, and is written last: whoever reads
 * the number that is next sees the bytes too. A small message lies in the head's own cache line, so that it
 * costs one hand-over of one line and nothing else. Nobody acknowledges a message: the receiver counts the
 * cells it has emptied on a line of its own, a few at a time, and the sender looks there only when it has
 * filled all that it knows to be free.
 *
 * The sender says in the head of a cell that the next one is cell 0 again. That is so after cell 15: more would only
 * spread over the caches what the receiver reads at once. Where ranks take turns on a processor, it goes on as far as
 * cell 65 while there is something to send, so that a large message takes few turns; small ones keep to the first 16.
 *
 * All loads and stores of what both sides touch are sequentially consistent, which costs no more than acquire
 * and release but for one fenced store a cell on x86. So sleepers can be woken without loss: one side says
 * that it will sleep and then looks at the ring, the other changes the ring and then looks for sleepers, and
 * one of the two sees the other.
 *
 * What the other side writes is not trusted: counts and lengths are bounded, and the cells' places never come from there.
 *
 * The functions are inline because every message goes through them.
 */
#ifndef MSI_TRANSPORT_RING_H
#define MSI_TRANSPORT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MSI_RING_LINE =
        128, /* what two cores may hand to each other at once: processors fetch lines of 64 in pairs */
    MSI_RING_CELLS = 16,      /* that are used one after the other … */
    MSI_RING_CELLS_WIDE = 66, /* … and for what is large, where ranks take turns */
    MSI_CELL_BYTES = 16384,
    MSI_CELL_SMALL = 56,                  /* as much fits into the first 64 bytes … */
    MSI_CELL_NEAR = 120,                  /* … and into the next 64 */
    MSI_RING_REPORT = MSI_RING_CELLS / 8, /* emptied cells that the sender is told about together */
};

/* A cell's head: its number above its length, and between them: */
enum {
    MSI_CELL_LENT = 1 << 16, /* it says where the bytes are, see rendezvous.h */
    MSI_CELL_LAST = 1 << 17, /* the next one is cell 0 */
    MSI_CELL_NUMBER_SHIFT = 18,
};
_Static_assert((int)MSI_CELL_BYTES < (int)MSI_CELL_LENT, "a length leaves the flags alone");

/* Bytes of up to MSI_CELL_NEAR begin right behind the head, more at the next line, where copying is faster. */
struct msi_cell {
    _Atomic uint64_t head; /* number << MSI_CELL_NUMBER_SHIFT | flags | length */
    char bytes[MSI_CELL_SMALL + MSI_CELL_BYTES];
    char pad[64]; /* cells at multiples of 4 KiB would compete for the same places in a cache */
};

/* Zeros are an empty ring. */
struct msi_ring {
    _Atomic uint64_t emptied; /* by the receiver, who alone writes it */
    char pad[MSI_RING_LINE - 8];
    struct msi_cell cells[MSI_RING_CELLS_WIDE];
};

_Static_assert(sizeof(_Atomic uint64_t) == 8, "atomics must be plain words");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these: 64 bits without a lock");
_Static_assert(offsetof(struct msi_cell, bytes) == 8 && sizeof(struct msi_cell) == 16512, "layout of a cell");
_Static_assert(sizeof(struct msi_cell) % MSI_RING_LINE == 0 && sizeof(struct msi_cell) % 4096 != 0,
               "places of the cells");
_Static_assert(offsetof(struct msi_ring, cells) == MSI_RING_LINE, "own lines");

/* What the sender knows of its ring; cells says how many it uses, all else starts as zeros. */
struct msi_ring_out {
    struct msi_ring *ring;
    uint64_t filled, known_emptied;      /* cells; known_emptied <= filled */
    uint64_t holds[MSI_RING_CELLS_WIDE]; /* numbers of the cells that were filled last */
    unsigned next, cells;                /* the cell to be filled next; how many there are */
};

/* What the receiver knows of its ring; starts as zeros. */
struct msi_ring_in {
    struct msi_ring *ring;
    uint64_t taken, reported; /* cells; taken - reported < MSI_RING_REPORT */
    unsigned next;            /* the cell to be emptied next, or being emptied */
    bool last;                /* cell 0 follows it */
};

/* Where a cell has its bytes, if there are so many. */
static inline char *msi_cell_bytes(struct msi_cell *cell, size_t len) {
    return len > MSI_CELL_NEAR ? cell->bytes + MSI_CELL_SMALL : cell->bytes;
}

/* The sender's next cell, to be written to if there is room. */
static inline struct msi_cell *msi_ring_next(const struct msi_ring_out *out) {
    return &out->ring->cells[out->next];
}

/* Is the next cell known to be free? */
static inline bool msi_ring_has_room(const struct msi_ring_out *out) {
    return out->holds[out->next] <= out->known_emptied;
}

/* How many cells the receiver says it has emptied: all up to that number. */
static inline uint64_t msi_ring_emptied(const struct msi_ring_out *out) {
    /* Acquires what msi_ring_close released: the receiver has read these cells, and what they lent. */
    return atomic_load_explicit(&out->ring->emptied, memory_order_seq_cst);
}

/* Looks how many cells have become free. False if the receiver says more than can be. */
static inline bool msi_ring_look(struct msi_ring_out *out) {
    uint64_t emptied = msi_ring_emptied(out);
    if (emptied - out->known_emptied > out->filled - out->known_emptied) return false;
    out->known_emptied = emptied;
    return true;
}

/*
 * Hands the next cell over, with so many bytes in it, or flags and bytes; more: others follow at once. At least
 * MSI_RING_CELLS are filled before one is filled again: so the receiver, who reports every MSI_RING_REPORT, has reported
 * it by and by.
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

/* The receiver's next cell, if it has come, and *len as the sender gave it; NULL: it has not. */
static inline struct msi_cell *msi_ring_open(struct msi_ring_in *in, uint32_t *len) {
    struct msi_cell *cell = &in->ring->cells[in->next];
    /* Acquires what msi_ring_publish released: the bytes of the cell. */
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_seq_cst);
    if (head >> MSI_CELL_NUMBER_SHIFT != in->taken + 1) return NULL;
    in->last = head & MSI_CELL_LAST || in->next == MSI_RING_CELLS_WIDE - 1;
    *len = (uint32_t)(head & (MSI_CELL_LAST - 1));
    return cell;
}

/* The receiver has read the cell that it opened. True if the sender was told: at once where that is asked for. */
static inline bool msi_ring_close(struct msi_ring_in *in, bool tell) {
    in->taken++;
    in->next = in->last ? 0 : in->next + 1;
    if (in->taken - in->reported < MSI_RING_REPORT && !tell && !in->last) return false;
    in->reported = in->taken;
    /* Released to msi_ring_emptied. */
    atomic_store_explicit(&in->ring->emptied, in->taken, memory_order_seq_cst);
    return true;
}

#endif
