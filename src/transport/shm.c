/*
 * shm.c - a link through memory that both ranks have mapped: a ring of cells each way.
 *
 *   ring       cell 0      cell 1      ...  cell 15     ...  cell 63
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
 * cell 63 while there is something to send, so that a large message takes few turns; small ones keep to the first 16.
 *
 * A large message need not go through cells: the sender lends its buffer, by a cell that says where it is, and the receiver
 * pulls the bytes out of the sender's memory and empties the cell, which gives the buffer back. Whether this process may do
 * that is tried when the link is opened; for which sizes it pays is measured by the receiver, who tells the sender.
 *
 * All loads and stores of what both sides touch are sequentially consistent, which costs no more than acquire
 * and release but for one fenced store a cell on x86. So sleepers can be woken without loss: one side says
 * that it will sleep and then looks at the ring, the other changes the ring and then looks for sleepers, and
 * one of the two sees the other.
 *
 * What the other side writes is not trusted: counts and lengths are bounded, the cells' places never come from there, and of
 * what it lends no more is read than was asked for.
 */
#include "base/error.h"
#include "base/fence.h"
#include "base/hash.h"
#include "os/clock.h"
#include "transport/link.h"
#include "transport/pull.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE = 128, /* what two cores may hand to each other at once: processors fetch lines of 64 in pairs */
    CELLS = 16, /* of a ring, that are used one after the other … */
    CELLS_WIDE = 66, /* … and for what is large, where ranks take turns */
    CELL_BYTES = 16384,
    SMALL = 56,         /* as much fits into the first 64 bytes */
    REPORT = CELLS / 8, /* emptied cells that the sender is told about together */
    BURST = 4,          /* cells moved in one way before the other way has its turn */
    PULL_STEP = 1 << 20 /* bytes pulled before the other way has its turn */
};

/* A cell's head: its number above its length, and between them: */
enum {
    LENT = 1 << 16, /* it holds a struct loan */
    LAST = 1 << 17, /* the next one is cell 0 */
    NUMBER_SHIFT = 18,
};
_Static_assert((int)CELL_BYTES < (int)LENT, "a length leaves the flags alone");

/* Bytes of up to SMALL begin right behind the head, more at the next line, where copying is faster. */
struct cell {
    _Atomic uint64_t head; /* number << NUMBER_SHIFT | flags | length */
    char bytes[SMALL + CELL_BYTES];
    char pad[64]; /* cells at multiples of 4 KiB would compete for the same places in a cache */
};

struct ring {
    _Atomic uint64_t emptied; /* by the receiver, who alone writes it */
    char pad[LINE - 8];
    struct cell cells[CELLS_WIDE];
};

/* What the sender of a large message puts into a cell. */
struct loan {
    uint64_t from, bytes;
};

/* What a side says of itself. */
struct side {
    _Atomic uint32_t closed;
    _Atomic uint32_t ready; /* pid, address and mark are there: who can pull the mark can pull anything */
    _Atomic uint32_t pulls; /* it can pull from the other side … */
    _Atomic uint32_t
        verdict[MSI_PULL_CLASSES]; /* … and wants to, for messages of a class: enum msi_pull_verdict */
    int32_t pid;
    uint64_t address, mark;
    char pad[LINE - 56];
};

struct region {
    struct side sides[2];
    struct ring rings[2]; /* by the side that sends */
};

_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "atomics must be plain words");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these: 64 bits without a lock");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "processes share these: 32 bits without a lock");
_Static_assert(offsetof(struct cell, bytes) == 8 && sizeof(struct cell) == 16512, "layout of a cell");
_Static_assert(sizeof(struct cell) % LINE == 0 && sizeof(struct cell) % 4096 != 0, "places of the cells");
_Static_assert(sizeof(struct side) == LINE && offsetof(struct ring, cells) == LINE, "own lines");
_Static_assert(sizeof(struct region) == 2 * LINE + 2 * (LINE + CELLS_WIDE * sizeof(struct cell)),
               "layout of a region");

struct shm {
    struct msi_link link;
    struct region *region;
    struct ring *out, *in;
    int side;
    void (*posted)(void *arg);
    void *arg;
    uint64_t filled, known_emptied; /* cells of out; known_emptied <= filled */
    uint64_t holds[CELLS_WIDE];     /* numbers of the cells that were filled last */
    unsigned next_out, cells;       /* the cell of out to be filled next; how many there are */
    uint64_t taken, reported;       /* cells of in; taken - reported < REPORT */
    unsigned next_in;               /* the cell of in to be emptied next, or being emptied */
    size_t at, len;                 /* of that cell; len 0: it has not come */
    bool last;                      /* cell 0 follows it */
    bool borrowed;                  /* those bytes are in the other side's memory … */
    uint64_t from;                  /* … from there on */

    uint64_t lent; /* number of the cell by which the first send is lent; 0: it is not */
    unsigned turns[MSI_PULL_CLASSES];
    enum msi_pulling pulling;
    uint64_t mark;
    bool introduced, tried; /* to pull the other side's mark */
    struct msi_pull_trials trials;
    int64_t begun; /* when the first byte of the large receive came that is under way */
};

static void wake(const struct shm *shm) {
    if (shm->posted) shm->posted(shm->arg);
}

/* Bytes in the queue, as far as limit, and as far as those that may be lent. */
static size_t queued(const struct msi_list *queue, size_t limit) {
    size_t n = 0;
    for (const struct msi_list *node = queue->next; node != queue; node = node->next) {
        const struct msi_transfer *transfer = msi_container(node, struct msi_transfer, node);
        size_t left = msi_transfer_left(transfer);
        if (n && transfer->done == 0 && left >= MSI_PULL_FROM) break;
        if (left >= limit - n) return limit;
        n += left;
    }
    return n;
}

static char *bytes_of(struct cell *cell, size_t len) {
    return len > SMALL ? cell->bytes + SMALL : cell->bytes;
}

/* Whether the next cell is free. */
static bool has_room(struct shm *shm) {
    if (shm->holds[shm->next_out] <= shm->known_emptied) return true;
    /* Acquires what close_cell released: the receiver has read the cells that are filled anew now. */
    uint64_t emptied = atomic_load_explicit(&shm->out->emptied, memory_order_seq_cst);
    if (emptied - shm->known_emptied > shm->filled - shm->known_emptied) {
        msi_link_fail(&shm->link, MST_ERR_PROTOCOL, "the other side emptied more cells than were filled");
        return false;
    }
    shm->known_emptied = emptied;
    return shm->holds[shm->next_out] <= emptied;
}

static struct cell *next_cell(struct shm *shm) {
    return &shm->out->cells[shm->next_out];
}

/*
 * Hands the next cell over. At least CELLS are filled before one is filled again: so the receiver, who reports every REPORT,
 * has reported it by and by.
 */
static void publish_cell(struct shm *shm, size_t len) {
    struct cell *cell = next_cell(shm);
    unsigned used = shm->next_out + 1;
    bool last = used == shm->cells || (used >= CELLS && msi_list_empty(&shm->link.sends));
    shm->holds[shm->next_out] = ++shm->filled;
    shm->next_out = last ? 0 : used;
    uint64_t head = shm->filled << NUMBER_SHIFT | (last ? LAST : 0) | len;
    atomic_store_explicit(&cell->head, head, memory_order_seq_cst); /* released to open_cell */
    wake(shm);
}

static void fill_cell(struct shm *shm) {
    size_t len = queued(&shm->link.sends, CELL_BYTES);
    char *to = bytes_of(next_cell(shm), len);
    for (size_t at = 0, n; at < len; at += n) {
        struct msi_transfer *from = msi_link_first(&shm->link.sends);
        n = msi_transfer_left(from) < len - at ? msi_transfer_left(from) : len - at;
        memcpy(to + at, from->data + from->done, n);
        msi_link_advance(from, n);
    }
    publish_cell(shm, len);
}

/* Is the first send one that the other side shall pull? While it is being found out what pays, every other one is. */
static bool may_lend(struct shm *shm) {
    const struct msi_transfer *first = msi_link_first(&shm->link.sends);
    int class = first->done == 0 ? msi_pull_class(first->len) : -1;
    if (class < 0 || shm->pulling == MSI_PULLING_NEVER) return false;
    struct side *other = &shm->region->sides[1 - shm->side];
    if (!atomic_load_explicit(&other->pulls, memory_order_relaxed)) return false;
    if (shm->pulling == MSI_PULLING_ALWAYS) return true;
    uint32_t verdict = atomic_load_explicit(&other->verdict[class], memory_order_relaxed);
    return verdict == MSI_PULL_UNDECIDED ? shm->turns[class]++ % 2 : verdict == MSI_PULL_PULLED;
}

static void lend(struct shm *shm) {
    const struct msi_transfer *first = msi_link_first(&shm->link.sends);
    struct loan loan = {(uintptr_t)first->data, first->len};
    memcpy(next_cell(shm)->bytes, &loan, sizeof loan);
    publish_cell(shm, LENT | sizeof loan);
    shm->lent = shm->filled;
}

/* Has what was lent come back? */
static bool take_back(struct shm *shm) {
    /* Acquires what close_cell released: the receiver has read all of it. */
    uint64_t emptied = atomic_load_explicit(&shm->out->emptied, memory_order_seq_cst);
    if (emptied < shm->lent || msi_list_empty(&shm->link.sends)) return false;
    struct msi_transfer *first = msi_link_first(&shm->link.sends);
    msi_link_advance(first, msi_transfer_left(first));
    shm->lent = 0;
    return true;
}

static bool fill_cells(struct shm *shm) {
    int n = 0;
    bool returned = shm->lent && take_back(shm);
    if (shm->lent) return false;
    for (; n < BURST && !shm->lent && !msi_list_empty(&shm->link.sends) && has_room(shm); n++) {
        if (may_lend(shm))
            lend(shm);
        else
            fill_cell(shm);
    }
    return returned || n > 0;
}

/* Says, once, where the other side finds a mark in this process's memory: not before the process that uses the link does. */
static void introduce(struct shm *shm) {
    struct side *own = &shm->region->sides[shm->side];
    msi_random(&shm->mark, sizeof shm->mark);
    own->pid = (int32_t)getpid();
    own->address = (uintptr_t)&shm->mark;
    own->mark = shm->mark;
    atomic_store_explicit(&own->ready, 1, memory_order_release); /* to try_to_pull */
    shm->introduced = true;
}

/* Finds out, once, whether this process can read the other one's memory. */
static void try_to_pull(struct shm *shm) {
    const struct side *other = &shm->region->sides[1 - shm->side];
    uint64_t mark = 0;
    if (!shm->introduced) introduce(shm);
    /* Acquires what introduce released: the fields of the other side. */
    if (!atomic_load_explicit(&other->ready, memory_order_acquire)) return;
    shm->tried = true;
    if (!msi_pull(other->pid, other->address, &mark, sizeof mark) || mark != other->mark) return;
    atomic_store_explicit(&shm->region->sides[shm->side].pulls, 1, memory_order_relaxed);
}

/* Whether there is a cell to empty. */
static bool open_cell(struct shm *shm) {
    if (shm->len) return true;
    const struct cell *cell = &shm->in->cells[shm->next_in];
    /* Acquires what publish_cell released: the bytes of the cell. */
    uint64_t head = atomic_load_explicit(&cell->head, memory_order_seq_cst);
    if (head >> NUMBER_SHIFT != shm->taken + 1) return false;
    shm->last = head & LAST || shm->next_in == CELLS_WIDE - 1;
    uint32_t len = (uint32_t)(head & (LAST - 1));
    shm->borrowed = len == (LENT | sizeof(struct loan)) && shm->tried;
    if (shm->borrowed) {
        struct loan loan;
        memcpy(&loan, cell->bytes, sizeof loan);
        shm->from = loan.from;
        shm->len = loan.bytes;
    } else if (len <= CELL_BYTES) {
        shm->len = len;
    }
    shm->at = 0;
    if (shm->len) return true;
    msi_link_fail(&shm->link, MST_ERR_PROTOCOL, "a cell of %u bytes, where %d is the limit", len, CELL_BYTES);
    return false;
}

static void close_cell(struct shm *shm) {
    shm->len = 0;
    shm->taken++;
    shm->next_in = shm->last ? 0 : shm->next_in + 1;
    if (shm->taken - shm->reported < REPORT && !shm->borrowed && !shm->last) return;
    shm->reported = shm->taken;
    /* Released to has_room and take_back. */
    atomic_store_explicit(&shm->in->emptied, shm->taken, memory_order_seq_cst);
    wake(shm);
}

/* How fast large receives are served is measured from their first byte, if that comes first in its cell, to their last. */
static void begin_trial(struct shm *shm, const struct msi_transfer *to) {
    int class = msi_pull_class(to->len);
    bool open = class >= 0 && msi_pull_verdict_of(&shm->trials, class) == MSI_PULL_UNDECIDED;
    shm->begun = open && shm->at == 0 ? msi_now() : 0;
}

static void end_trial(struct shm *shm, const struct msi_transfer *to) {
    if (shm->begun == 0) return;
    int class = msi_pull_class(to->len);
    uint32_t verdict = msi_pull_judge(&shm->trials, class, shm->borrowed, to->len, msi_now() - shm->begun);
    atomic_store_explicit(&shm->region->sides[shm->side].verdict[class], verdict, memory_order_relaxed);
}

/* A side that closes has its buffers again: what was read meanwhile may be anything. */
static bool was_taken_back(struct shm *shm) {
    msi_fence_reads();
    /* Acquires what close_shm released. */
    if (!atomic_load_explicit(&shm->region->sides[1 - shm->side].closed, memory_order_seq_cst)) return false;
    msi_link_fail(&shm->link, MST_ERR_PEER_LOST, "the other side closed the link");
    return true;
}

/* Moves bytes of the open cell, or of what it lends, into the first receive; false if they cannot be read. */
static bool take_bytes(struct shm *shm, size_t most) {
    struct msi_transfer *to = msi_link_first(&shm->link.receives);
    size_t n = msi_transfer_left(to) < most ? msi_transfer_left(to) : most;
    bool judged = shm->pulling == MSI_PULLING_JUDGED;
    if (judged && to->done == 0 && to->len >= MSI_PULL_FROM) begin_trial(shm, to);
    if (!shm->borrowed) {
        memcpy(to->data + to->done, bytes_of(&shm->in->cells[shm->next_in], shm->len) + shm->at, n);
    } else if (!msi_pull(shm->region->sides[1 - shm->side].pid, shm->from + shm->at, to->data + to->done,
                         n)) {
        msi_link_fail(&shm->link, MST_ERR_PEER_LOST, "what the other side lent cannot be read: %s",
                      strerror(errno));
        return false;
    }
    if (shm->borrowed && was_taken_back(shm)) return false;
    if (judged && msi_transfer_left(to) == n && to->len >= MSI_PULL_FROM) end_trial(shm, to);
    shm->at += n;
    msi_link_advance(to, n);
    return true;
}

static bool take_cells(struct shm *shm) {
    bool moved = false;
    for (int i = 0; i < BURST && !msi_list_empty(&shm->link.receives) && open_cell(shm); i++) {
        size_t pulled = 0;
        while (shm->at < shm->len && !msi_list_empty(&shm->link.receives) && pulled < PULL_STEP) {
            size_t before = shm->at, left = shm->len - shm->at;
            if (!take_bytes(shm, shm->borrowed && left > PULL_STEP ? PULL_STEP : left)) return moved;
            if (shm->borrowed) pulled += shm->at - before;
        }
        if (shm->at == shm->len) close_cell(shm);
        moved = true;
    }
    return moved;
}

/* After nothing moved: has the other side closed, and is all received that it sent before? */
static void look_for_end(struct shm *shm) {
    /* Acquires what close_shm released: the last cells that were filled. */
    if (!atomic_load_explicit(&shm->region->sides[1 - shm->side].closed, memory_order_seq_cst)) return;
    if (open_cell(shm) && (msi_list_empty(&shm->link.sends) || !msi_list_empty(&shm->link.receives))) return;
    msi_link_fail(&shm->link, MST_ERR_PEER_LOST, "the other side closed the link");
}

static bool progress(struct msi_link *link) {
    struct shm *shm = msi_container(link, struct shm, link);
    if (link->status != MST_OK) return false;
    if (!shm->tried) try_to_pull(shm);
    bool moved = fill_cells(shm);
    if (take_cells(shm)) moved = true;
    if (!moved) look_for_end(shm);
    return moved;
}

static int descriptor(const struct msi_link *link, short *events) {
    (void)link;
    *events = 0;
    return -1;
}

static void close_shm(struct msi_link *link) {
    struct shm *shm = msi_container(link, struct shm, link);
    /* Released to look_for_end. */
    atomic_store_explicit(&shm->region->sides[shm->side].closed, 1, memory_order_seq_cst);
    wake(shm);
    free(shm);
}

static bool send_whole(struct msi_link *link, const void *head, size_t head_len, const void *body,
                       size_t body_len) {
    struct shm *shm = msi_container(link, struct shm, link);
    if (body_len > CELL_BYTES - head_len || !msi_list_empty(&link->sends) || link->status != MST_OK ||
        !has_room(shm))
        return false;
    char *to = bytes_of(next_cell(shm), head_len + body_len);
    memcpy(to, head, head_len);
    if (body_len) memcpy(to + head_len, body, body_len);
    publish_cell(shm, head_len + body_len);
    return true;
}

static const char *look(struct msi_link *link, size_t *n) {
    struct shm *shm = msi_container(link, struct shm, link);
    if (link->status != MST_OK || !open_cell(shm) || shm->borrowed) return NULL;
    *n = shm->len - shm->at;
    return bytes_of(&shm->in->cells[shm->next_in], shm->len) + shm->at;
}

static void drop(struct msi_link *link, size_t n) {
    struct shm *shm = msi_container(link, struct shm, link);
    shm->at += n;
    if (shm->at == shm->len) close_cell(shm);
}

static const struct msi_link_ops ops = {
    .name = "shm",
    .progress = progress,
    .descriptor = descriptor,
    .close = close_shm,
    .send_whole = send_whole,
    .look = look,
    .drop = drop,
    .look_most = CELL_BYTES,
};

void msi_link_shm_pulling(struct msi_link *link, enum msi_pulling pulling) {
    struct shm *shm = msi_container(link, struct shm, link);
    struct side *own = &shm->region->sides[shm->side];
    shm->pulling = pulling;
    /* Who measures nothing has made up its mind. */
    for (int class = 0; class < MSI_PULL_CLASSES; class ++)
        atomic_store_explicit(&own->verdict[class],
                              pulling == MSI_PULLING_NEVER ? MSI_PULL_STAGED : MSI_PULL_UNDECIDED,
                              memory_order_relaxed);
}

void msi_link_shm_widen(struct msi_link *link) {
    msi_container(link, struct shm, link)->cells = CELLS_WIDE;
}

size_t msi_link_shm_bytes(void) {
    return sizeof(struct region);
}

mst_status msi_link_open_shm(void *memory, int side, void (*posted)(void *arg), void *arg,
                             struct msi_link **link) {
    if ((uintptr_t)memory % LINE || side < 0 || side > 1)
        return msi_fail(MST_ERR_INVALID, NULL,
                        "a link's memory at %p for side %d: not a multiple of %d, or no side", memory, side,
                        LINE);
    struct shm *shm = calloc(1, sizeof *shm);
    if (!shm) return msi_fail_memory();
    msi_link_init(&shm->link, &ops);
    shm->region = memory;
    shm->side = side;
    shm->cells = CELLS;
    shm->out = &shm->region->rings[side];
    shm->in = &shm->region->rings[1 - side];
    shm->posted = posted;
    shm->arg = arg;
    *link = &shm->link;
    return MST_OK;
}
