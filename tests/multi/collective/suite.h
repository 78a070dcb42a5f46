/*
 * suite.h - shared by the files of collective.
 *
 *  1. A case is one operation with all its arguments. It is a function of the seed and its number, so every
 *     rank knows it in full: inputs are a function of (seed, case, group rank, index), and each rank computes
 *     its expected outputs.
 *  2. Consecutive pieces describe a buffer: its content before the call, and its expected content after it.
 *     Memory without a piece must not change, and neither may the guards around the buffer.
 *  3. Cases run in batches: all start in the same order on all ranks, and finish in any order.
 */
#ifndef TESTS_COLLECTIVE_SUITE_H
#define TESTS_COLLECTIVE_SUITE_H

#include <muster/muster.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS_MAX = 16,
    ELEMENT_MAX = 16, /* bytes */
    LAYOUTS_MAX = 16,
    WORKS_MAX = 2 * RANKS_MAX,
    BATCH_MAX = 8,
    TENSORS = 3, /* of a coalesced call */
    TIMEOUT_MS = 120000,
};

/* The command line, and this rank. */
struct suite {
    uint64_t seed;
    size_t max_count;
    const char *only;  /* an operation's name; NULL: all */
    const char *dtype; /* a dtype's name; NULL: all */
    int64_t only_case; /* -1: all */
    bool verbose;
    bool device;  /* buffers lie in memory of a GPU */
    int me, size; /* in the world */
    uint64_t cases, calls;
};
extern struct suite suite;

/* A group of the run; group is NULL if this rank is not a member. */
struct layout {
    mst_group *group;
    int n, me; /* me: group rank, -1 */
    int ranks[RANKS_MAX];
};
extern struct layout layouts[LAYOUTS_MAX];
extern int n_layouts;
void make_layouts(void);
void end_layouts(void);

enum how { BLOCKING, WAITED, TESTED, CALLED_BACK, HOWS };
enum memory { PLAIN, MISALIGNED, SHARED, MEMORIES }; /* on a device they differ only in alignment */

struct operation;
struct shape {
    const struct operation *operation;
    uint64_t id;
    mst_dtype dtype;
    mst_op op;
    double factor;
    size_t count;
    int layout, root; /* root: group rank */
    enum how how;
    enum memory memory;
    bool in_place, uneven;
    bool rough; /* any real numbers: their sum depends on the order, so check only that it is near */
    bool last;  /* of its batch */
};

enum content { JUNK, COPY, REDUCED };
struct piece {
    enum content content;
    int rank;    /* COPY: of this rank's input */
    size_t from; /* index in that input */
    size_t count;
};

struct buffer {
    char *base, *data;
    char *device; /* passed to calls instead of data, unless NULL */
    size_t bytes, count;
    enum memory memory;
    struct piece before[RANKS_MAX + 2], after[RANKS_MAX + 2];
    int n_before, n_after;
};

/* A case in flight on this rank. */
struct run {
    struct shape shape;
    const struct layout *layout;
    int me, n;   /* in the group */
    int sources; /* the ranks whose inputs are reduced, from 0 on */
    size_t element;
    struct buffer outs[RANKS_MAX], ins[RANKS_MAX];
    int n_outs, n_ins;
    void *out_list[RANKS_MAX];
    const void *in_list[RANKS_MAX];
    size_t counts[RANKS_MAX], out_splits[RANKS_MAX], in_splits[RANKS_MAX];
    mst_p2p messages[WORKS_MAX];
    mst_work *works[WORKS_MAX];
    int n_works;
    int senders[RANKS_MAX];
    _Atomic int called; /* callbacks so far */
};

enum trait {
    REDUCES = 1,
    ROOTED = 2,
    IN_PLACE = 8,     /* has a form in place */
    UNEVEN = 16,      /* has a form with a count for each rank */
    BLOCKS_ONLY = 32, /* takes no .work */
    OWN_WORKS = 64,   /* starts its works itself */
    BYTES_ONLY = 128, /* has no dtype */
    ALIKE = 256,      /* the result is the same on all ranks */
    SCANS = 1024,     /* does not support AVG */
    USER = 2048,      /* reduces with the user-defined operation of users.c */
    TAGGED = 512,     /* needs tags or any source, which GPU engines lack */
};

struct operation {
    const char *name;
    unsigned traits;
    void (*plan)(struct run *run); /* adds the buffers */
    mst_status (*call)(struct run *run,
                       mst_call *call); /* with group, root, op, timeout and work filled in */
    void (*settle)(struct run *run);    /* once done, before the buffers are checked; may be NULL */
};
/* Each ends with a NULL name. */
extern const struct operation reducing[], moving[], listing[], messaging[], using[];
/* The operation after this one; NULL after the last. The first for NULL. */
const struct operation *next_operation(const struct operation *at);

/* numbers.c */
uint64_t mix(uint64_t a, uint64_t b);
/* A random number in [0, limit), the same on every rank; state is changed. */
uint64_t draw(uint64_t *state, uint64_t limit);
bool is_float(mst_dtype dtype);
bool is_complex(mst_dtype dtype);
bool is_signed(mst_dtype dtype);
bool op_applies(mst_dtype dtype, mst_op op);
double to_double(mst_dtype dtype, const void *element);
void from_double(mst_dtype dtype, double value, void *element);
int64_t to_integer(mst_dtype dtype, const void *element);
void show_element(mst_dtype dtype, const void *element, char *text, size_t size);

/* reference.c */
void input_at(const struct run *run, int rank, size_t i, void *element);
void reduced_at(const struct run *run, size_t i, void *element);
/* users.c */
void reduced_by_user(const struct run *run, size_t i, void *element);
/* i: index in the piece */
bool is_right(const struct run *run, const struct piece *piece, size_t i, const void *got,
              const void *wanted);

/* buffers.c */
struct buffer *add_out(struct run *run, size_t count);
struct buffer *add_in(struct run *run, size_t count);
void before(struct buffer *buffer, enum content content, int rank, size_t from, size_t count);
void after(struct buffer *buffer, enum content content, int rank, size_t from, size_t count);
void place_buffers(struct run *run);
void check_buffers(struct run *run);
void free_buffers(struct run *run);

/* device.c */
void device_begin(void);
/* Memory until the batch ends. */
char *device_alloc(size_t bytes);
void device_end_batch(void);
/* To the device, or from it. */
void device_copy(void *to, const void *from, size_t bytes);

/* cases.c */
struct shape shape_of(uint64_t id, const struct operation *operation, mst_dtype dtype, mst_op op);
/* Starts the case; its batch ends with its last case. */
void run_case(const struct shape *shape);
void end_batch(void);
_Noreturn void fail_case(const struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fails with the library's message unless the status is the expected one. */
void expect_status(mst_status got, mst_status wanted, const char *what);
#define EXPECT_OK(call) expect_status(call, MST_OK, #call)

/* modes.c and scenarios.c */
void run_quick(void);
void run_all(void);
void run_count(size_t count);
void run_soak(double seconds, uint64_t calls);
void run_one(uint64_t id);
void run_scenarios(void);
bool is_scenario(const char *name);
/* quantized.c */
void quantized(void);

#endif
